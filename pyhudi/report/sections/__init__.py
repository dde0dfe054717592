"""Sections of the page; each function makes the content of one.  Pure."""
