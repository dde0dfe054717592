"""Return of freed memory to the system."""

from __future__ import annotations

import ctypes


def release_freed_memory() -> None:
    """Make the C library return freed memory, where supported (glibc); some milliseconds.

    For moments after much was freed and before another allocator, Arrow's, needs much.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
