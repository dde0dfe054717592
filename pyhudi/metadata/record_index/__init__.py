"""The record index of the metadata table: hash functions, entries, look-ups and their costs."""
