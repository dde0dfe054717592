"""Verification of the record index for some keys: a random sample, or recently changed keys.

table -> index   rows are drawn: the number for each slice is random, weighted by its row count
index -> table   entries are drawn: those with the smallest of random numbers, over all buckets

A key that is not where its entry says may be elsewhere or absent; only a full check can tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.formats.base_file import footer
from pyhudi.index.maintenance.stats import index_entries
from pyhudi.index.maintenance.verify import EXAMPLES_MAX, FAULT_SCHEMA, Fault
from pyhudi.metadata.record_index.entries import bucket_entries
from pyhudi.metadata.record_index.k_way_merge import UnsortedError
from pyhudi.metadata.record_index.lookup import IndexBucket
from pyhudi.read.changes.incremental import ChangeRange
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.scan import Scan
from pyhudi.read.scan_plan import ScanRequest
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import FILE_NAME, PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice

_CHANCE: Final = 0.05
_PLACE: Final = ("partition_path", "file_id")


def check_sample(state: TableState, engine: Engine, count: int, *, seed: int) -> dict[str, Any]:
    """Fields of an `IndexCheck` of `count` rows and as many entries.

    Cost: the key column of slices that rows are drawn from or entries name, and every file of the
    index once.
    """
    index = state.record_index
    slices = state.view().latest_slices()
    spec = SliceSpec(state.schema(), (RECORD_KEY,), state.rules, state.view().visibility)
    work = _Sampling(state.fs, spec, tuple(slices))
    rows = _drawn_rows(work, engine, count, seed)
    entries = _drawn_entries(work, (*index.older, *index.buckets), engine, count, seed)
    if index.older:  # entries hidden by a newer group are ignored
        again = index.lookup(entries.column("record_key"), engine=engine)
        same = [pc.fill_null(pc.equal(entries.column(n), again.column(n)), False) for n in _PLACE]
        entries = entries.filter(pc.and_(*same))
    stated = index.lookup(rows.column("record_key"), engine=engine)
    from_rows = _row_faults(work, engine, rows, stated)
    is_stored = _are_stored(work, engine, entries)
    from_entries = _orphans(entries, ~is_stored)
    found = pa.concat_tables([from_rows, from_entries])
    return {
        **_fields(index.bucket_count, rows, entries, found),
        "sampled": count,
        "fault_share_max": {
            "table to index": share_at_most(from_rows.num_rows, rows.num_rows),
            "index to table": share_at_most(from_entries.num_rows, entries.num_rows),
        },
    }


def check_changes(
    state: TableState, engine: Engine, since: PointInTime, until: PointInTime
) -> dict[str, Any]:
    """Fields of an `IndexCheck` of the changes of commits after `since` up to `until`: rows they
    wrote that still exist, and entries they wrote that are still valid.

    Cost: the rows changed, a lookup each, and the key column of slices that contain them.
    """
    index = state.record_index
    spec = SliceSpec(state.schema(), (RECORD_KEY,), state.rules, state.view().visibility)
    work = _Sampling(state.fs, spec, tuple(state.view().latest_slices()))
    rows = _changed_rows(state, engine, since, until)
    stated = index.lookup(rows.column("record_key"), engine=engine)
    from_rows = _row_faults(work, engine, rows, stated)
    written = index_entries(state, engine, since, until)
    again = index.lookup(pc.unique(written.column("record_key")), engine=engine)
    entries = again.filter(pc.field("found")).select(["record_key", *_PLACE])
    from_entries = _orphans(entries, ~_are_stored(work, engine, entries))
    known = pc.is_in(from_entries.column("record_key"), from_rows.column("record_key"))
    found = pa.concat_tables([from_rows, from_entries.filter(pc.invert(known))])
    return _fields(index.bucket_count, rows, entries, found)


def _changed_rows(
    state: TableState, engine: Engine, since: PointInTime, until: PointInTime
) -> pa.Table:
    """[record_key, partition_path, file_id] of rows that the range's commits wrote."""
    change_range = ChangeRange(since, until)
    columns = (RECORD_KEY, PARTITION_PATH, FILE_NAME)
    scan = Scan(lambda: state, ScanRequest(columns=columns, changes=change_range), engine=engine)
    table = scan.to_arrow()
    names = pc.utf8_ltrim(table.column(FILE_NAME), ".")
    ids = pc.list_element(pc.split_pattern(names, "_", max_splits=1), 0)
    columns_ = [table.column(RECORD_KEY), table.column(PARTITION_PATH), ids]
    return pa.Table.from_arrays(columns_, names=["record_key", *_PLACE])


def _fields(buckets: int, rows: pa.Table, entries: pa.Table, found: pa.Table) -> dict[str, Any]:
    kinds = found.column("fault").to_pylist()
    return {
        "buckets": buckets,
        "keys": rows.num_rows,
        "entries": entries.num_rows,
        "faults": {f.value: n for f in Fault if (n := kinds.count(f.value))},
        "examples": tuple(found.slice(0, EXAMPLES_MAX * len(Fault)).to_pylist()),
    }


def share_at_most(found: int, looked_at: int) -> float:
    """The largest share of faults for which a sample contains at most `found` faults with a
    probability of one in twenty (the Clopper-Pearson upper bound)."""
    if looked_at == 0 or found >= looked_at:
        return 1.0
    low, high = found / looked_at, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _chance(found, looked_at, middle) > _CHANCE else (low, middle)
    return high


def _chance(found: int, looked_at: int, share: float) -> float:
    """The probability that a sample contains at most `found` faults."""
    if share <= 0.0 or share >= 1.0:
        return 1.0 if share <= 0.0 else 0.0
    total = 0.0
    for k in range(found + 1):
        ways = math.lgamma(looked_at + 1) - math.lgamma(k + 1) - math.lgamma(looked_at - k + 1)
        total += math.exp(ways + k * math.log(share) + (looked_at - k) * math.log1p(-share))
    return total


@dataclass(frozen=True, slots=True)
class _Sampling:
    """The state of the table that is sampled."""

    fs: FileSystem
    spec: SliceSpec
    slices: tuple[FileSlice, ...]


@dataclass(frozen=True, slots=True)
class _Draw:
    """A task that draws `count` keys of one slice; None only counts them.  seed: of the draw."""

    work: _Sampling
    slice: FileSlice
    count: int | None
    seed: tuple[int, ...]


def _drawn_rows(work: _Sampling, engine: Engine, count: int, seed: int) -> pa.Table:
    """[record_key, partition_path, file_id] of rows drawn with replacement."""
    sizes = engine.run(
        _drawn, [_Draw(work, slice_, None, ()) for slice_ in work.slices], label="count-rows"
    )
    weights = np.array([size for size, _ in sizes], np.float64)
    tables = [_no_rows()]
    if weights.sum():
        random = np.random.default_rng((seed, 1))
        shares = random.multinomial(count, weights / weights.sum())
        draws = [
            _Draw(work, work.slices[at], int(shares[at]), (seed, 2, int(at)))
            for at in np.flatnonzero(shares)
        ]
        tables += [table for _, table in engine.run(_drawn, draws, label="draw-rows")]
    return pa.concat_tables(tables)


def _no_rows() -> pa.Table:
    return pa.schema([(name, pa.string()) for name in ("record_key", *_PLACE)]).empty_table()


def _drawn(task: _Draw) -> tuple[int, pa.Table]:
    slice_ = task.slice
    if task.count is None and slice_.base is not None and not slice_.logs:
        return footer(task.work.fs, slice_.base.path).rows, _no_rows()
    keys = read_slice(task.work.fs, slice_, spec=task.work.spec).column(RECORD_KEY)
    if task.count is None:
        return len(keys), _no_rows()
    at = np.sort(np.random.default_rng(task.seed).integers(0, len(keys), task.count))
    places = [pa.repeat(pa.scalar(text), len(at)) for text in (slice_.partition, slice_.file_id)]
    names = ["record_key", *_PLACE]
    return len(keys), pa.table([keys.take(pa.array(at)), *places], names=names)


@dataclass(frozen=True, slots=True)
class _EntryDraw:
    fs: FileSystem
    bucket: IndexBucket
    count: int
    seed: tuple[int, ...]


def _drawn_entries(
    work: _Sampling, buckets: Sequence[IndexBucket], engine: Engine, count: int, seed: int
) -> pa.Table:
    """[record_key, partition_path, file_id, mark] of entries drawn without replacement."""
    draws = [
        _EntryDraw(work.fs, bucket, count, (seed, 3, bucket.group, bucket.number))
        for bucket in buckets
    ]
    return _smallest(pa.concat_tables(engine.run(_drawn_of_bucket, draws, label="draw")), count)


def _smallest(table: pa.Table, count: int) -> pa.Table:
    marks = np.asarray(table.column("mark").to_numpy())
    if len(marks) <= count:
        return table
    return table.take(pa.array(np.sort(np.argpartition(marks, count)[:count])))


def _drawn_of_bucket(task: _EntryDraw) -> pa.Table:
    try:
        return _bucket_draw(task, whole=False)
    except UnsortedError:
        return _bucket_draw(task, whole=True)


def _bucket_draw(task: _EntryDraw, *, whole: bool) -> pa.Table:
    random = np.random.default_rng(task.seed)
    smallest = _no_rows().append_column("mark", pa.array([], pa.uint64()))
    for entries in bucket_entries(task.fs, task.bucket, whole=whole):
        marks = random.integers(0, 1 << 63, len(entries.keys), dtype=np.uint64)
        places = (entries.places.partition_path, entries.places.file_id)
        columns = [entries.keys, *(p.cast(pa.string()) for p in places), pa.array(marks)]
        some = _smallest(pa.table(columns, names=smallest.column_names), task.count)
        smallest = _smallest(pa.concat_tables([smallest, some]), task.count)
    return smallest


def _row_faults(work: _Sampling, engine: Engine, rows: pa.Table, stated: pa.Table) -> pa.Table:
    """Faults of drawn rows.  A key that the index places elsewhere is searched there: the entry of
    a key with several copies is right if it states the place of any."""
    found = stated.column("found")
    missing = np.flatnonzero(~_flags(found))
    same = [pc.fill_null(pc.equal(rows.column(n), stated.column(n)), False) for n in _PLACE]
    off = _flags(found) & ~(_flags(same[0]) & _flags(same[1]))
    at = np.flatnonzero(off)
    elsewhere = stated.take(pa.array(at)).select(["record_key", *_PLACE])
    wrong = at[~_are_stored(work, engine, elsewhere)]
    moved = ~_flags(same[0])[wrong]
    kinds = np.where(moved, Fault.STALE_PARTITION.value, Fault.WRONG_FILE_GROUP.value)
    return pa.concat_tables(
        [
            _table(rows, stated, missing, [Fault.MISSING.value] * len(missing)),
            _table(rows, stated, wrong, kinds.tolist()),
        ]
    )


def _table(
    rows: pa.Table, stated: pa.Table, at: npt.NDArray[np.int64], kinds: list[str]
) -> pa.Table:
    take = pa.array(at)
    columns = [
        rows.column("record_key").take(take),
        pa.array(kinds, pa.string()),
        *(rows.column(name).take(take) for name in _PLACE),
        *(stated.column(name).take(take) for name in _PLACE),
    ]
    return pa.Table.from_arrays(
        [pa.chunked_array(c) if isinstance(c, pa.Array) else c for c in columns],
        schema=FAULT_SCHEMA,
    )


def _orphans(entries: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    some = entries.filter(pa.array(mask))
    count = some.num_rows
    none = pa.nulls(count, pa.string())
    kind = pa.repeat(pa.scalar(Fault.ORPHANED.value), count)
    places = [some.column(name) for name in _PLACE]
    return pa.Table.from_arrays(
        [some.column("record_key"), kind, none, none, *places], schema=FAULT_SCHEMA
    )


def _flags(column: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(column, np.bool_)


@dataclass(frozen=True, slots=True)
class _ContainsTask:
    work: _Sampling
    slice: FileSlice
    keys: pa.Array


def _are_stored(work: _Sampling, engine: Engine, entries: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether each entry's key is in the slice it states; False where there is no such slice."""
    is_stored = np.zeros(entries.num_rows, np.bool_)
    rows = entries.append_column("row", pa.array(np.arange(entries.num_rows)))
    grouped = rows.group_by(list(_PLACE)).aggregate([("record_key", "list"), ("row", "list")])
    slices = {slice_.group: slice_ for slice_ in work.slices}
    tasks, places = [], []
    for row in range(grouped.num_rows):
        name = FileGroupId(*(grouped.column(part)[row].as_py() for part in _PLACE))
        if name in slices:
            tasks.append(
                _ContainsTask(work, slices[name], grouped.column("record_key_list")[row].values)
            )
            places.append(np.asarray(grouped.column("row_list")[row].values.to_numpy()))
    for at, answer in zip(places, engine.run(_contains, tasks, label="find-keys"), strict=True):
        is_stored[at] = answer
    return is_stored


def _contains(task: _ContainsTask) -> npt.NDArray[np.bool_]:
    keys = read_slice(task.work.fs, task.slice, spec=task.work.spec).column(RECORD_KEY)
    return _flags(pc.is_in(task.keys, keys.combine_chunks()))
