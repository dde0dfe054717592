"""Check that a write may use its concurrency mode.

Under non-blocking concurrency control several writers append logs to one file group, and neither
waits for the other.  That takes logs that belong to a slice by their completion (table versions 8
and 9), and an index that assigns equal keys to one file group without a look-up, which is the
simple bucket index.  Source: writer_v8_v9 14.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import OptionError
from pyhudi.index.selection import choose_index
from pyhudi.options import ConcurrencyMode, WriteOptions
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.write.write_context import WriteRequest

_MODE = "hoodie.write.concurrency.mode"


def check_mode(fs: FileSystem, config: TableConfig, request: WriteRequest) -> None:
    """Raise OptionError, with the reason, for a mode that the table or operation does not allow."""
    if not request.options.write.concurrency.is_non_blocking:
        return
    reason = next(_obstacles(fs, config, request), None)
    if reason is not None:
        raise OptionError(
            f"non-blocking concurrency control {reason}", option=_MODE,
            value=ConcurrencyMode.NON_BLOCKING.value, operation=request.operation.value.lower(),
            hint=f"use {ConcurrencyMode.OPTIMISTIC.value}",
        )  # fmt: skip


def _obstacles(fs: FileSystem, config: TableConfig, request: WriteRequest) -> Iterator[str]:
    if config.layout.logs_name_slices:
        yield f"is for tables of version 8 or later; this table has version {config.version}"
    if not config.is_merge_on_read:
        yield "is for merge-on-read tables: writers of base files conflict"
    if not _has_simple_buckets(fs, config, request.options.write):
        yield "is for tables with a simple bucket index: others assign new keys by a look-up"
    if request.operation.replaces:
        yield "does not allow operations that replace file groups"


def _has_simple_buckets(fs: FileSystem, config: TableConfig, options: WriteOptions) -> bool:
    choice = choose_index(fs, config, options)
    return choice is not None and choice.bucket is not None and not choice.bucket.is_consistent
