"""Data skipping: files and row groups that a filter cannot match are not read."""
