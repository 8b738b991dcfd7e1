"""Files made once per target and used by many runs, keyed by the content they were made from."""
