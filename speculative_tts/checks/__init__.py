"""Compare golden folders of reference results with what this package computes."""
