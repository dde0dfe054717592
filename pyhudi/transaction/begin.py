"""Begin of a transaction: the table's lock, and the claim of an instant.

```
table_lock   the lock; `recovery.crashed_writers` rolls crashed writers back   (plan, request T)
claimed      T's heartbeat begins, still under the lock
             without lock: the work; others begin, commit and run services concurrently
finishing    see `finish`
```

How a service uses it: docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from pyhudi.errors import PyhudiError
from pyhudi.metadata.writer import check_version, check_writable
from pyhudi.options import WriteOptions
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import TableLock
from pyhudi.table.cdc_properties import cdc_mode
from pyhudi.table.properties import TableConfig
from pyhudi.table.property_checks import check_stated
from pyhudi.table.stored_properties import check_writable_properties
from pyhudi.timeline.instant import Instant
from pyhudi.transaction.heartbeat import Heartbeat, living


def table_lock(fs: FileSystem, options: WriteOptions, purpose: str) -> TableLock:
    """The table's lock, with the wait time of the options."""
    waits = 1 + options.lock_retries
    seconds = options.lock_seconds * waits + options.lock_retry_seconds * options.lock_retries
    return TableLock(fs, purpose=purpose, wait_seconds=seconds, rules=options.lock)


def check_table(config: TableConfig) -> None:
    """Raise UnsupportedTableError, with the reason, for a table that cannot be written."""
    check_version(config)
    check_stated(config)
    check_writable_properties(config)
    cdc_mode(config)  # raises for an unknown mode
    check_writable(config)


def claimed(fs: FileSystem, instant: Instant, options: WriteOptions) -> Heartbeat:
    """The running heartbeat of an instant that is processed outside the lock: use it in `with`,
    or stop it.  Call it under the lock under which the instant was created or found unclaimed."""
    interval = options.concurrency.heartbeats.interval_seconds
    return Heartbeat(fs, instant.time, interval_seconds=interval).start()


def is_claimed(fs: FileSystem, instant: Instant, options: WriteOptions) -> bool:
    """Whether a process currently works on a pending instant.  Call it under the lock."""
    return instant.time in living(fs, options.concurrency.heartbeats)


@contextmanager
def undoing(failed: BaseException) -> Iterator[None]:
    """Context of the rollback of a failed write or service.

    If the rollback fails too, because the lock was lost or the store is unavailable, `failed` is
    still the error raised, with a note; the next holder of the lock rolls back.
    """
    try:
        yield
    except (PyhudiError, OSError, pa.ArrowException) as error:
        failed.add_note(f"not rolled back yet; the next writer rolls it back: {error}")
