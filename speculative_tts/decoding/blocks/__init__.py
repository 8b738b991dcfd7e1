"""Multi-token blocks: candidates of heads, transitions and path search."""
