"""Indexes: which file group holds a key; one file a kind, one contract for all."""
