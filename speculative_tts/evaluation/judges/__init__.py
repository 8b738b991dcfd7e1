"""The judges, one a file. Each imports what it needs when it is loaded, and downloads nothing."""
