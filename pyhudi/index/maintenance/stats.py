"""How full the record index is: entries, load and skew of its buckets, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.metadata.elastic.state import IndexRule
from pyhudi.metadata.elastic.store import is_elastic
from pyhudi.metadata.record_index.index_stats import (
    WRITTEN_SCHEMA,
    BucketFigures,
    FiguresTask,
    WrittenTask,
    bucket_figures,
    written_between,
)
from pyhudi.options import Growth
from pyhudi.read.table_snapshot import TableState
from pyhudi.reports import Report

BUCKET_ENTRIES: Final = 1_000_000
"""Entries that a bucket is planned for."""

_NEAR: Final = 0.8
_ROOM: Final = 1.3


@dataclass(frozen=True, slots=True)
class IndexStats(Report):
    """The record index in figures.

    entries: as `BucketFigures.entries_max` counts them.  load: of the fullest bucket, 1.0 at
    `BUCKET_ENTRIES`, or what an elastic index is planned for; skew: the fullest bucket against the
    mean of its group.  buckets, groups: a mapping each; only an elastic index has several groups,
    and buckets of several file groups.
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
    file_groups: int = 0
    groups: tuple[Mapping[str, Any], ...] = ()


def index_stats(state: TableState, engine: Engine) -> IndexStats:
    """Figures of every bucket.  Cost: the head and trailer of each file of the index."""
    index = state.record_index
    tasks = [FiguresTask(state.fs, shard) for shard in (*index.older, *index.shards)]
    found = engine.run(bucket_figures, tasks, label="index-figures")
    rule = None
    if is_elastic(state.config) and state.metadata is not None:
        rule = state.metadata.elastic_state().rule
    return stats_of(found, rule)


def stats_of(found: Sequence[BucketFigures], rule: IndexRule | None = None) -> IndexStats:
    """What the figures of all buckets come to; rule: of an elastic index.  Pure."""
    planned = BUCKET_ENTRIES if rule is None else rule.entries
    entries = sum(f.entries_max for f in found)
    size = sum(f.bytes for f in found)
    numbers = sorted({f.group for f in found})
    groups = [[f for f in found if f.group == number] for number in numbers]
    fullest = max(found, key=lambda f: f.entries_max)
    told = tuple(_group_row(number, group, planned) for number, group in enumerate(groups))
    return IndexStats(
        bucket_count=len(groups[-1]),
        entries=entries,
        tombstones=sum(f.tombstones for f in found),
        files=sum(f.files for f in found),
        bytes=size,
        bytes_per_entry=round(size / entries, 2) if entries else 0.0,
        load=round(fullest.entries_max / planned, 4),
        skew=max(row["skew"] for row in told),
        advice=_advice(groups[-1], planned) if rule is None else elastic_advice(groups, rule),
        buckets=tuple(_row(f, group, planned) for group in groups for f in group),
        file_groups=sum(f.file_groups for f in found),
        groups=told,
    )


def _group_row(number: int, found: Sequence[BucketFigures], planned: int) -> dict[str, Any]:
    entries, fullest = sum(f.entries_max for f in found), max(f.entries_max for f in found)
    return {
        "group": number,
        "buckets": len(found),
        "file_groups": sum(f.file_groups for f in found),
        "files": sum(f.files for f in found),
        "entries": entries,
        "load": round(entries / (planned * len(found)), 4),
        "skew": round(fullest * len(found) / entries, 3) if entries else 1.0,
    }


def _row(figures: BucketFigures, group: Sequence[BucketFigures], planned: int) -> dict[str, Any]:
    entries = sum(f.entries_max for f in group)
    share = figures.entries_max * len(group) / entries if entries else 1.0
    return {
        "bucket": figures.bucket,
        "group": figures.group,
        "file_groups": figures.file_groups,
        "entries": figures.entries_max,
        "base_entries": figures.base_entries,
        "log_entries": figures.log_entries,
        "tombstones": figures.tombstones,
        "files": figures.files,
        "bytes": figures.bytes,
        "load": round(figures.entries_max / planned, 4),
        "of_mean": round(share, 3),
    }


def _advice(found: Sequence[BucketFigures], planned: int) -> str:
    entries, count = sum(f.entries_max for f in found), len(found)
    fullest = max(found, key=lambda f: f.entries_max)
    if fullest.entries_max < _NEAR * planned:
        return "there is room"
    if _is_skewed(fullest, entries, count):
        return f"bucket {fullest.bucket} is much fuller than others: look at the hash of the keys"
    wanted = _wanted(entries, count, planned)
    return f"bucket {fullest.bucket} nears its planned size: table.index.rebuild({wanted})"


def _is_skewed(fullest: BucketFigures, entries: int, count: int) -> bool:
    return fullest.entries_max * count > 1.5 * entries


def _wanted(entries: int, count: int, planned: int) -> int:
    return max(count + 1, -(-int(entries * _ROOM) // planned))


def elastic_advice(groups: Sequence[Sequence[BucketFigures]], rule: IndexRule) -> str:
    """What to do about an elastic index.  groups: figures of each group's buckets.  Pure."""
    newest = groups[-1]
    every = [f for group in groups for f in group]
    entries, count = sum(f.entries_max for f in every), len(newest)
    most = max(f.file_groups for f in newest) if len(groups) == 1 else len(groups)
    fullest = max(newest, key=lambda f: f.entries_max / f.file_groups)
    wanted = _wanted(entries, count, rule.entries)
    if most > 1:
        return (
            f"a look-up of a key asks up to {most} file groups: table.index.rebuild({wanted}) "
            "makes them one"
        )
    if fullest.entries_max < _NEAR * rule.entries:
        return "there is room"
    if _is_skewed(fullest, entries, count):
        return f"bucket {fullest.bucket} is much fuller than others: look at the hash of the keys"
    what = "its next file group" if rule.growth is Growth.SEAL else "another group of buckets"
    return (
        f"bucket {fullest.bucket} nears its planned size: {what} will be opened, and look-ups ask "
        f"it too; table.index.rebuild({wanted}) keeps it at one"
    )


def index_entries(state: TableState, engine: Engine, since: str, until: str) -> pa.Table:
    """What commits after `since` up to `until` wrote into the index, ordered by commit."""
    index = state.record_index
    tasks = [WrittenTask(state.fs, shard, since, until) for shard in (*index.older, *index.shards)]
    found = engine.run(written_between, tasks, label="index-entries")
    return pa.concat_tables([WRITTEN_SCHEMA.empty_table(), *found]).sort_by(
        [("commit", "ascending"), ("record_key", "ascending")]
    )
