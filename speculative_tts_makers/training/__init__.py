"""Train the targets that ship."""
