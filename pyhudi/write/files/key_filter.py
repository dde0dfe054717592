"""The bloom filter over the record keys of a base file, sized by its rows.

A filter states its own size where it is stored, so every reader accepts any size.  The options give
the largest one: `hoodie.index.bloom.num_entries` keys per row of a dynamic filter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from pyhudi._native import BloomFilter
from pyhudi.formats.base_file import BaseFooter
from pyhudi.options import BaseFileOptions

_ENTRIES_MIN: Final = 64
_REBUILD_ROWS: Final = 4096  # up to here hashing every key costs no more than reading a filter
_WASTE_MAX: Final = 4  # times the size that the rows need
_BASE64_BITS: Final = 6


def new_filter(options: BaseFileOptions, row_count: int | None = None) -> BloomFilter | None:
    """An empty filter; None if the options disable filters.

    row_count: keys to expect; None if unknown.  The next power of two is provided for, so that a
    file that grows slowly has filters of one size.
    """
    if not options.bloom_enabled:
        return None
    entries = options.bloom_entries
    if row_count is not None:
        entries = min(entries, max(_ENTRIES_MIN, 1 << max(0, row_count - 1).bit_length()))
    return BloomFilter(
        entries, options.bloom_fpp, kind=options.bloom_kind, entries_max=options.bloom_entries_max
    )


def filter_of(options: BaseFileOptions, keys: pa.ChunkedArray) -> BloomFilter | None:
    """The filter over all keys of a file."""
    found = new_filter(options, len(keys))
    if found is not None:
        found.add(keys)
    return found


def filter_after(
    options: BaseFileOptions,
    stored: BaseFooter,
    count: int,
    keys: Callable[[], pa.ChunkedArray],
    added: Callable[[], pa.ChunkedArray],
) -> BloomFilter | None:
    """The filter of a rewritten file.

    stored: the footer of the file that it replaces.  count, keys: the number of keys of the new
    file, and all of them; added: those that the replaced file does not have.  The stored filter
    continues if it has a suitable size; keys that were deleted stay in it, as false positives.
    """
    fresh = new_filter(options, count)
    if fresh is None:
        return None
    if count > _REBUILD_ROWS and _is_suitable(stored.bloom_text, fresh.bit_count):
        found = stored.bloom
        assert found is not None
        found.add(added())
        return found
    fresh.add(keys())
    return fresh


def _is_suitable(text: str | None, bit_count: int) -> bool:
    """Whether a stored filter has at least the bits that a new one would have, and not many more.
    Its exact size is not needed, so the text is not decoded."""
    return text is not None and bit_count <= len(text) * _BASE64_BITS <= bit_count * _WASTE_MAX
