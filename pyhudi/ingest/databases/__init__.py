"""Databases as sources: queries, and changes of PostgreSQL; for `pyhudi.ingest`."""
