"""Instants: their files, commit metadata, plans, and the archive."""
