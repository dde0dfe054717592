"""Repair of the record index: the faults of a check, fixed by one commit without rows.

Faults of a bucket become entries and tombstones of that bucket:

```
missing, wrong file group, stale partition    an entry with the location of the key
orphaned, wrong bucket                        a tombstone
```

An entry in a wrong bucket is also a missing entry of its correct bucket, unless that has one.  The
commit names no data file: incremental reads see no rows, and a crashed repair is rolled back like
any write.  The caller holds the table's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.errors import PyhudiError, SchemaError
from pyhudi.index.maintenance.verify import BucketCheck, Fault
from pyhudi.metadata.delta_commit import BucketTarget
from pyhudi.metadata.writer import begin_metadata, write_bucket
from pyhudi.options import WriteOptions
from pyhudi.read.table_snapshot import TableState
from pyhudi.recovery.crashed_writers import roll_back_crashed
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.storage.spill import Staged
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, Instant
from pyhudi.transaction.begin import undoing
from pyhudi.transaction.finish import complete
from pyhudi.write.instant_content import profile

_OPERATION = "UPSERT"  # readers of Apache Hudi accept only its own operation names
_PUT = (Fault.MISSING, Fault.WRONG_FILE_GROUP, Fault.STALE_PARTITION)


@dataclass(frozen=True, slots=True)
class BucketRepairTask:
    """One bucket's faults to repair."""

    fs: FileSystem
    target: BucketTarget
    instant: Instant
    faults: Staged


def repair_counts(checks: Sequence[BucketCheck]) -> tuple[int, int, int]:
    """(entries to write, entries to delete, buckets to change) for the faults found."""
    put = sum(check.counts.get(kind.value, 0) for check in checks for kind in _PUT)
    faulty = sum(1 for check in checks if check.faults is not None)
    return put, sum(sum(check.counts.values()) for check in checks) - put, faulty


def repair_index_faults(
    state: TableState, checks: Sequence[BucketCheck], engine: Engine, options: WriteOptions
) -> Instant:
    """Repair the faults that the checks found; the completed instant.

    An error other than a crash is rolled back at once.
    """
    fs, config, log = state.fs, state.config, state.log
    merges = config.is_merge_on_read
    requested = log.request(Action.DELTA_COMMIT if merges else Action.COMMIT)
    try:
        return _run(state, checks, requested, engine, options)
    except (PyhudiError, OSError, pa.ArrowException) as failed:
        with undoing(failed):
            check_lock(fs)
            roll_back_crashed(fs, config, log, log.load(), options, engine)
        raise


def _run(
    state: TableState,
    checks: Sequence[BucketCheck],
    requested: Instant,
    engine: Engine,
    options: WriteOptions,
) -> Instant:
    fs, config, log = state.fs, state.config, state.log
    stated = state.stated()
    if not stated:
        raise SchemaError("no commit of the table has a schema", path=fs.url)
    metadata = begin_metadata(
        fs,
        config,
        log,
        log.load(),
        requested,
        compact_after=options.metadata_compact_after,
        engine=engine,
    )
    inflight = log.start(requested, log.encode(profile((), _OPERATION)))
    targets = {target.number: target for target in metadata.bucket_targets()}
    tasks = [
        BucketRepairTask(fs, targets[check.bucket], inflight, check.faults)
        for check in checks
        if check.faults is not None
    ]
    written = engine.run(repair_index_bucket, tasks, label="repair-index")
    put, ended, _ = repair_counts(checks)
    content = CommitMetadata(
        (),
        operation=_OPERATION,
        extra={**stated, "pyhudi.index.repair": f"put={put},ended={ended}"},
    )
    check_lock(fs)
    metadata.finish((), written)
    return complete(state, inflight, log.encode(content))


def repair_index_bucket(task: BucketRepairTask) -> WriteStat:
    """Write the entries and tombstones of one bucket.  May run twice."""
    faults = task.faults.load()
    puts = pc.is_in(faults.column("fault"), pa.array([kind.value for kind in _PUT]))
    new = faults.filter(puts)
    return write_bucket(
        task.fs,
        task.target,
        task.instant,
        keys=new.column("record_key"),
        partition_path=new.column("partition_path"),
        file_id=new.column("file_id"),
        deleted=faults.filter(pc.invert(puts)).column("record_key"),
    )
