"""How full the record index is: entries, load and skew of its buckets, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.metadata.figures import (
    WRITTEN_SCHEMA,
    BucketFigures,
    FiguresTask,
    WrittenTask,
    bucket_figures,
    written_between,
)
from pyhudi.read.state import TableState
from pyhudi.reports import Report

BUCKET_ENTRIES: Final = 1_000_000
"""Entries that a bucket is planned for."""

_NEAR: Final = 0.8
_ROOM: Final = 1.3


@dataclass(frozen=True, slots=True)
class IndexStats(Report):
    """The record index in figures.

    entries: as `BucketFigures.entries_max` counts them.  load: of the fullest bucket, 1.0 at
    `BUCKET_ENTRIES`; skew: the fullest bucket against the mean.  buckets: a mapping each.
    """

    bucket_count: int
    entries: int
    tombstones: int
    files: int
    bytes: int
    bytes_per_entry: float
    load: float
    skew: float
    advice: str
    buckets: tuple[Mapping[str, Any], ...]


def index_stats(state: TableState, engine: Engine) -> IndexStats:
    """Figures of every bucket.  Cost: the head and trailer of each file of the index."""
    tasks = [FiguresTask(state.fs, shard) for shard in state.record_index.shards]
    return stats_of(engine.run(bucket_figures, tasks, label="index-figures"))


def stats_of(found: Sequence[BucketFigures]) -> IndexStats:
    """What the figures of all buckets come to.  Pure."""
    entries = sum(f.entries_max for f in found)
    fullest = max(found, key=lambda f: f.entries_max)
    size = sum(f.bytes for f in found)
    return IndexStats(
        bucket_count=len(found),
        entries=entries,
        tombstones=sum(f.tombstones for f in found),
        files=sum(f.files for f in found),
        bytes=size,
        bytes_per_entry=round(size / entries, 2) if entries else 0.0,
        load=round(fullest.entries_max / BUCKET_ENTRIES, 4),
        skew=round(fullest.entries_max * len(found) / entries, 3) if entries else 1.0,
        advice=_advice(fullest, entries, len(found)),
        buckets=tuple(_row(f, entries, len(found)) for f in found),
    )


def _row(figures: BucketFigures, entries: int, count: int) -> dict[str, Any]:
    share = figures.entries_max * count / entries if entries else 1.0
    return {
        "bucket": figures.bucket,
        "entries": figures.entries_max,
        "base_entries": figures.base_entries,
        "log_entries": figures.log_entries,
        "tombstones": figures.tombstones,
        "files": figures.files,
        "bytes": figures.bytes,
        "load": round(figures.entries_max / BUCKET_ENTRIES, 4),
        "of_mean": round(share, 3),
    }


def _advice(fullest: BucketFigures, entries: int, count: int) -> str:
    if fullest.entries_max < _NEAR * BUCKET_ENTRIES:
        return "there is room"
    wanted = max(count + 1, -(-int(entries * _ROOM) // BUCKET_ENTRIES))
    if fullest.entries_max * count > 1.5 * entries:
        return f"bucket {fullest.bucket} is much fuller than others: look at the hash of the keys"
    return f"bucket {fullest.bucket} nears its planned size: table.index.rebuild({wanted})"


def index_entries(state: TableState, engine: Engine, since: str, until: str) -> pa.Table:
    """What commits after `since` up to `until` wrote into the index, ordered by commit."""
    tasks = [WrittenTask(state.fs, shard, since, until) for shard in state.record_index.shards]
    found = engine.run(written_between, tasks, label="index-entries")
    return pa.concat_tables([WRITTEN_SCHEMA.empty_table(), *found]).sort_by(
        [("commit", "ascending"), ("record_key", "ascending")]
    )
