"""The LRU cache of decoded blocks, bounded in bytes.

One cache serves every reader of the process, unless a reader requests a separate one; its bound
therefore limits the memory of lookups, whatever the number of open files.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any

CACHE_BYTES = 256 << 20


class BlockCache:
    """Values by key, each with its size.  Values in use outlive their eviction."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self.bytes_max = bytes_max
        self.bytes_stored = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._turn = threading.Lock()

    def get(self, key: Hashable) -> Any | None:
        with self._turn:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def get_all(self, keys: Iterable[Hashable]) -> list[Any | None]:
        """`get` of each, under one lock."""
        with self._turn:
            entries: list[Any | None] = []
            for key in keys:
                entry = self._entries.get(key)
                if entry is None:
                    entries.append(None)
                else:
                    self._entries.move_to_end(key)
                    entries.append(entry[0])
            return entries

    def put(self, key: Hashable, value: Any, size_bytes: int) -> bool:
        """Store `value`; False if it alone exceeds the bound."""
        if size_bytes > self.bytes_max:
            return False
        with self._turn:
            self._forget(key)
            self._entries[key] = (value, size_bytes)
            self.bytes_stored += size_bytes
            while self.bytes_stored > self.bytes_max:
                _, (_, freed) = self._entries.popitem(last=False)
                self.bytes_stored -= freed
        return True

    def forget(self, key: Hashable) -> None:
        with self._turn:
            self._forget(key)

    def clear(self) -> None:
        """Remove everything."""
        with self._turn:
            self._entries.clear()
            self.bytes_stored = 0

    def _forget(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes_stored -= entry[1]

    def check(self) -> None:
        """All invariants, for tests."""
        assert self.bytes_stored == sum(size for _, size in self._entries.values())
        assert self.bytes_stored <= self.bytes_max


SHARED = BlockCache()
