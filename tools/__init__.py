"""Tools for those who change pyhudi; no part of the package."""
