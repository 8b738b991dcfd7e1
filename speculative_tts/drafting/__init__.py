"""Layer-inherited drafts: inheriting, training, exporting."""
