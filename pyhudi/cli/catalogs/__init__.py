"""Commands for catalogs."""
