"""Faults planted in a record index: entries that are wrong on purpose, in a commit of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from pyhudi._native import bucket_of
from pyhudi.engine import LocalEngine
from pyhudi.metadata.writer import begin_metadata, write_bucket
from pyhudi.options import ReadOptions
from pyhudi.read.table_schema import schema_text
from pyhudi.read.table_snapshot import load_state
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action

Place = tuple[str, str]


def plant(
    fs: FileSystem,
    puts: Mapping[str, Place],
    ends: Iterable[str] = (),
    *,
    bucket: int | None = None,
) -> None:
    """Say in the index that keys are at these places, and that others have ended.

    bucket: write all into this one, whatever the keys' hashes say.
    """
    state = load_state(fs, ReadOptions())
    log = state.log
    merges = state.config.is_merge_on_read
    requested = log.request(Action.DELTA_COMMIT if merges else Action.COMMIT)
    metadata = begin_metadata(
        fs, state.config, log, log.load(), requested, compact_after=10, engine=LocalEngine(1)
    )
    inflight = log.start(requested, CommitMetadata((), operation="UPSERT").to_json())
    targets = metadata.bucket_targets()

    def mine(keys: Iterable[str], number: int) -> list[str]:
        column = pa.array(list(keys), pa.string())
        homes = bucket_of(column, len(targets)).tolist()
        chosen = (number for _ in homes) if bucket == number else homes if bucket is None else ()
        return [
            key for key, home in zip(column.to_pylist(), chosen, strict=False) if home == number
        ]

    written = []
    for number, target in enumerate(targets):
        new, gone = mine(puts, number), mine(ends, number)
        if new or gone:
            places = [puts[key] for key in new]
            stat = write_bucket(
                fs, target, inflight,
                keys=pa.array(new, pa.string()),
                partition_path=pa.array([place[0] for place in places], pa.string()),
                file_id=pa.array([place[1] for place in places], pa.string()),
                deleted=pa.array(gone, pa.string()),
            )  # fmt: skip
            written.append(stat)
    metadata.finish((), written)
    text = schema_text(log, state.timeline, state.archive, state.config)
    assert text is not None
    done = CommitMetadata((), operation="UPSERT", extra={"schema": text})
    log.complete(inflight, done.to_json())
