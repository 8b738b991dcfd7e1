"""Find out what a machine lacks for the papers' runs."""
