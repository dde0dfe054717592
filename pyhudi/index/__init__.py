"""Indexes: lookup of the file group of a key; one contract, one module or package a kind."""
