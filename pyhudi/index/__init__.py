"""Indexes: which file group holds a key; one contract, one module or package a kind."""
