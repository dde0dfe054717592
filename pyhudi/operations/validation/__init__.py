"""Checks of a write before it is committed; operations/commit.py runs them."""
