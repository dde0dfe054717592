"""Layouts of table versions: where files are, what their names mean, how commits are stored."""
