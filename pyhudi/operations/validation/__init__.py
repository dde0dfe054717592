"""Checks of a write before it is committed; operations/write.py runs them."""
