"""What a machine lacks for the papers' runs."""
