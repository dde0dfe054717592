"""Statistics of the record index: entries, load and skew of its buckets, and advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

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
from pyhudi.read.positions import as_position
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import BEFORE_ALL_COMMITS, BEFORE_ALL_INSTANTS, Position
from pyhudi.reports import Report

BUCKET_ENTRIES: Final = 1_000_000
"""Entries that a bucket is planned for."""

_AFTER_ALL: Final = "99999999999999999"
_NEAR: Final = 0.8
_ROOM: Final = 1.3


@dataclass(frozen=True, slots=True)
class IndexStats(Report):
    """Statistics of the record index.

    entries: as `BucketFigures.entries_max` counts them.  load: of the fullest bucket, 1.0 at
    `BUCKET_ENTRIES` or the planned size of an elastic index; skew: entries of the fullest bucket
    divided by the mean of its group.  buckets, groups: one mapping each; only an elastic index has
    several groups, and buckets of several file groups.
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
    """Statistics of the index.  Cost: the head and trailer of each file of the index."""
    index = state.record_index
    tasks = [FiguresTask(state.fs, bucket) for bucket in (*index.older, *index.buckets)]
    found = engine.run(bucket_figures, tasks, label="index-figures")
    rule = None
    if is_elastic(state.config) and state.metadata is not None:
        rule = state.metadata.elastic_state().rule
    return stats_of(found, rule)


def stats_of(found: Sequence[BucketFigures], rule: IndexRule | None = None) -> IndexStats:
    """The statistics from the figures of all buckets; rule: of an elastic index.  Pure."""
    planned = BUCKET_ENTRIES if rule is None else rule.entries
    entries = sum(f.entries_max for f in found)
    size = sum(f.bytes for f in found)
    numbers = sorted({f.group for f in found})
    groups = [[f for f in found if f.group == number] for number in numbers]
    fullest = max(found, key=lambda f: f.entries_max)
    rows = tuple(_group_row(number, group, planned) for number, group in enumerate(groups))
    return IndexStats(
        bucket_count=len(groups[-1]),
        entries=entries,
        tombstones=sum(f.tombstones for f in found),
        files=sum(f.files for f in found),
        bytes=size,
        bytes_per_entry=round(size / entries, 2) if entries else 0.0,
        load=round(fullest.entries_max / planned, 4),
        skew=max(row["skew"] for row in rows),
        advice=_advice(groups[-1], planned) if rule is None else elastic_advice(groups, rule),
        buckets=tuple(_row(f, group, planned) for group in groups for f in group),
        file_groups=sum(f.file_groups for f in found),
        groups=rows,
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
        return "no action is needed"
    if _is_skewed(fullest, entries, count):
        return _skew_advice(fullest)
    needed = _buckets_needed(entries, count, planned)
    return f"bucket {fullest.bucket} is near its planned size: run table.index.rebuild({needed})"


def _is_skewed(fullest: BucketFigures, entries: int, count: int) -> bool:
    return fullest.entries_max * count > 1.5 * entries


def _skew_advice(fullest: BucketFigures) -> str:
    return f"bucket {fullest.bucket} is much fuller than others: check the hash of the keys"


def _buckets_needed(entries: int, count: int, planned: int) -> int:
    return max(count + 1, -(-int(entries * _ROOM) // planned))


def elastic_advice(groups: Sequence[Sequence[BucketFigures]], rule: IndexRule) -> str:
    """Advice for an elastic index.  groups: figures of each group's buckets.  Pure."""
    newest = groups[-1]
    every = [f for group in groups for f in group]
    entries, count = sum(f.entries_max for f in every), len(newest)
    most = max(f.file_groups for f in newest) if len(groups) == 1 else len(groups)
    fullest = max(newest, key=lambda f: f.entries_max / f.file_groups)
    needed = _buckets_needed(entries, count, rule.entries)
    if most > 1:
        return (
            f"a lookup of a key reads up to {most} file groups: table.index.rebuild({needed}) "
            "reduces them to one"
        )
    if fullest.entries_max < _NEAR * rule.entries:
        return "no action is needed"
    if _is_skewed(fullest, entries, count):
        return _skew_advice(fullest)
    what = "its next file group" if rule.growth is Growth.SEAL else "another group of buckets"
    return (
        f"bucket {fullest.bucket} is near its planned size: {what} will be opened, and lookups "
        f"read it too; table.index.rebuild({needed}) avoids this"
    )


def current_end(state: TableState) -> Position:
    """The position of the newest commit."""
    return max((i.position for i in state.commits), default=BEFORE_ALL_COMMITS)


def _within(state: TableState, entries: pa.Table, since: Position, until: Position) -> pa.Table:
    """Entries of the commits in a range; of a commit that no timeline knows by its instant.
    Cost: the archive if an entry's commit is not on the timeline."""
    found = entries.column("commit").unique().drop_null().to_pylist()
    known = {i.time: i.position for i in state.commits}
    if not known.keys() >= set(found):
        known = {i.time: i.position for i in state.archive.commit_instants} | known
    inside = [time for time in found if since < known.get(time, Position(time)) <= until]
    return entries.filter(pc.field("commit").isin(pa.array(inside, pa.string())))


def index_entries(
    state: TableState, engine: Engine, since: PointInTime, until: PointInTime | None
) -> pa.Table:
    """Entries that commits after `since` up to `until` (None: the newest) wrote into the index,
    ordered by commit."""
    first = as_position(state, since)
    end = current_end(state) if until is None else as_position(state, until)
    index = state.record_index
    has_completions = state.log.layout.has_completion_times
    low, high = (BEFORE_ALL_INSTANTS, _AFTER_ALL) if has_completions else (first, end)
    tasks = [WrittenTask(state.fs, bucket, low, high) for bucket in (*index.older, *index.buckets)]
    found = engine.run(written_between, tasks, label="index-entries")
    if has_completions:
        found = [_within(state, entries, first, end) for entries in found]
    return pa.concat_tables([WRITTEN_SCHEMA.empty_table(), *found]).sort_by(
        [("commit", "ascending"), ("record_key", "ascending")]
    )
