"""Freed memory given back to the system."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Let the C library return what was freed, where it can (glibc); some milliseconds.

    For moments after much was freed and before much is asked for by another allocator, Arrow's.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
