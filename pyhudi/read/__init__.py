"""Queries: table snapshots, scan plans, file slices, incremental and point reads."""
