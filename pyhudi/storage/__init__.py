"""File systems rooted at a table, locks, and spilled data."""
