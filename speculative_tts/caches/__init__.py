"""Make files once per target for many runs, keyed by the content they are made from."""
