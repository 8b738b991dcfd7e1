"""Golden checks: a folder of reference results against what this package computes."""
