"""Base files of several file groups: rows are routed, merged and given meta columns together.

A small file costs a few calls for each step that its rows take, so small files of a task share the
steps: one selection of rows, one comparison of keys within (file group, key), one computation of
the meta columns.  A large file is a batch of its own, written by row groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Longs
from pyhudi.engine import run_ahead
from pyhudi.filenames import BaseFileName, DataFileName
from pyhudi.formats import base_file
from pyhudi.formats.base_file import BaseFooter
from pyhudi.formats.nested_fields import root_of
from pyhudi.formats.schema_conform import conform
from pyhudi.merge.resolve_updates import MergeDecision, outcome, resolve_updates, unmatched
from pyhudi.read.file_slice import base_rows
from pyhudi.records import PARTITION_PATH, RECORD_KEY, with_meta
from pyhudi.table.file_group_view import FileSlice
from pyhudi.transaction.markers import MarkerKind
from pyhudi.write.files.base_writer import (
    base_stat,
    counted,
    log_changes,
    write_base_file,
)
from pyhudi.write.files.file_plan import (
    CONSTANT,
    FilePlan,
    Written,
    numbered,
    stamped,
    with_constants,
)
from pyhudi.write.files.key_filter import filter_after, new_filter
from pyhudi.write.placement.assignment import Mode, Target
from pyhudi.write.placement.routing import Routed, Router

_SMALL_ROWS: Final = 4096
_SMALL_BYTES: Final = 1 << 17  # of a stored base file
_BATCH_FILES: Final = 64
_BATCH_ROWS: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A target of a task with its number.  file: the first one written, whose marker exists."""

    number: int
    target: Target
    file: DataFileName

    @property
    def base_name(self) -> BaseFileName:
        assert isinstance(self.file, BaseFileName)
        return self.file

    @property
    def row_count(self) -> int:
        return self.target.update_count + self.target.insert_count


def in_batches(plan: FilePlan, items: Sequence[FileTarget]) -> Iterator[list[FileTarget]]:
    """Targets of one mode each, in their order; several if their files are small."""
    rows_max = min(_BATCH_ROWS, plan.base_file.row_group_rows)
    for mode in dict.fromkeys(item.target.mode for item in items):
        some: list[FileTarget] = []
        rows = 0
        for item in (item for item in items if item.target.mode is mode):
            count = item.row_count if _is_small(plan, item) else rows_max + 1
            if some and (rows + count > rows_max or len(some) == _BATCH_FILES):
                yield some
                some, rows = [], 0
            some.append(item)
            rows += count
        yield some


def _is_small(plan: FilePlan, item: FileTarget) -> bool:
    if item.row_count > min(_SMALL_ROWS, plan.base_file.row_group_rows):
        return False
    if item.target.mode is not Mode.REWRITE:
        return True
    assert item.target.slice is not None and item.target.slice.base is not None
    return item.target.slice.base.size_bytes <= _SMALL_BYTES


def create_bases(
    plan: FilePlan, items: Sequence[FileTarget], router: Router
) -> Iterator[list[Written]]:
    """Write the first base files of new groups; none without rows."""
    if not _is_small(plan, items[0]):
        yield _create_large(plan, items[0], router)
        return
    columns = [name for name in router.columns if name != PARTITION_PATH]
    numbers = [item.number for item in items]
    routed, ends = router.rows_together(numbers, columns=columns)
    counts = np.diff(ends)
    rows = _ordered(routed.rows, counts, plan.order_by) if plan.order_by else routed.rows
    rows = numbered(plan, rows, numbers, counts, _ordinals(counts))
    for item, (begin, end) in zip(items, pairwise(ends.tolist()), strict=True):
        yield [_create_small(plan, item, rows.slice(begin, end - begin))] if end > begin else []


def _ordinals(counts: Longs) -> Longs:
    """The position of each row among those of its target."""
    begins = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) - np.repeat(begins, counts)


def _ordered(rows: pa.Table, counts: Longs, order_by: Sequence[str]) -> pa.Table:
    """The rows of each target sorted by columns."""
    owners = pa.array(np.repeat(np.arange(len(counts)), counts))
    names = [str(number) for number in range(len(order_by) + 1)]
    keys = pa.table([owners, *(rows.column(name) for name in order_by)], names)
    return rows.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names]))


def _create_small(plan: FilePlan, item: FileTarget, rows: pa.Table) -> Written:
    began = time.monotonic()
    group, count = item.target.group, rows.num_rows
    bloom = new_filter(plan.base_file, count)
    if bloom is not None:
        bloom.add(rows.column(RECORD_KEY))
    rows = with_constants(rows, group, str(item.file))
    size = write_base_file(plan, group, item.base_name, rows, bloom, MarkerKind.CREATE)
    stat = base_stat(group, item.base_name, size, count, None, began)
    return Written(counted(stat, inserted=count), count, 0, 0, 0)


def _create_large(plan: FilePlan, item: FileTarget, router: Router) -> list[Written]:
    """Write the first base file of a group.  Memory: one row group."""
    began = time.monotonic()
    number, target, name = item.number, item.target, item.base_name
    chunks = router.chunks_of(number, rows=plan.base_file.row_group_rows, order_by=plan.order_by)
    first = next(chunks, None)
    if first is None:
        return []
    bloom = new_filter(plan.base_file, target.insert_count + target.update_count)
    count = 0

    def stored() -> Iterator[pa.Table]:
        nonlocal count
        for chunk in chain((first,), chunks):
            rows = stamped(plan, chunk, target.group, number, str(name), count)
            if bloom is not None:
                bloom.add(rows.column(RECORD_KEY))
            count += rows.num_rows
            yield rows

    size = write_base_file(plan, target.group, name, stored(), bloom, MarkerKind.CREATE)
    stat = base_stat(target.group, name, size, count, None, began)
    return [Written(counted(stat, inserted=count), count, 0, 0, 0)]


@dataclass(frozen=True, slots=True)
class _Stored:
    """Base files that are rewritten together.  ends: the begin of each one's rows, and the end of
    the last; rows: of all, one after another."""

    rows: pa.Table
    ends: Longs
    footers: list[BaseFooter]


def rewrite_bases(
    plan: FilePlan, items: Sequence[FileTarget], router: Router
) -> Iterator[list[Written]]:
    """Write the next base files of groups: the stored rows that remain, then incoming rows."""
    routed, ends = router.rows_together([item.number for item in items])
    with_rows = np.diff(ends) > 0
    yield from ([] for _ in range(int((~with_rows).sum())))
    items = [item for item, has_rows in zip(items, with_rows, strict=True) if has_rows]
    if not items:
        return
    ends = np.concatenate([[0], ends[1:][with_rows]])
    if len(items) == 1 and _is_streamed(plan, items[0]):
        yield [_rewrite_large(plan, items[0], routed)]
        return
    stored = _read(plan, items)
    decision = _decide(plan, stored, routed, ends)
    incoming = outcome(stored.rows, routed.rows, decision, plan.rules)
    emitted = _sums(decision.emit, ends)
    remains = _sums(decision.keep, stored.ends)
    remaining = stored.rows
    if not decision.keep.all():
        remaining = remaining.filter(pa.array(decision.keep))
    counts = np.diff(emitted)
    fresh = remaining.slice(0, 0)
    if incoming.num_rows:  # keys to delete have no other columns
        ordinals = _ordinals(counts) + np.repeat(np.diff(remains), counts)
        fresh = numbered(plan, incoming, [item.number for item in items], counts, ordinals)
        fresh = conform(fresh, remaining.schema)
    for at, item in enumerate(items):
        part = _Part(
            decision.part(_range(stored.ends, at), _range(ends, at)),
            _slice(stored.rows, stored.ends, at),
            _slice(incoming, emitted, at),
            _slice(remaining, remains, at),
            _slice(fresh, emitted, at),
        )
        yield [_rewrite(plan, item, stored.footers[at], part)]


def _is_streamed(plan: FilePlan, item: FileTarget) -> bool:
    """Whether a file is rewritten by row groups: it is large, and incoming rows are written as they
    are, with no need of the stored rows that they replace."""
    is_plain = plan.rules.picks and plan.cdc is None
    return is_plain and not _is_small(plan, item) and not _has_other_names(plan, item.target.slice)


def _rewrite_large(plan: FilePlan, item: FileTarget, routed: Routed) -> Written:
    """Write the next base file of a group.  Memory: the record keys, and three row groups: one is
    read while the one before it is written."""
    began = time.monotonic()
    assert item.target.slice is not None and item.target.slice.base is not None
    path, schema = item.target.slice.base.path, _stored_schema(plan)
    distinct, few_valued = _by_values(plan, schema)
    with base_file.opened_base(plan.fs, path, schema=schema, dictionaries=few_valued) as file:
        known = file.read(distinct)
        stored = _Stored(known, np.array([0, known.num_rows]), [file.footer])
        decision = _decide(plan, stored, routed, np.array([0, routed.rows.num_rows]))
        incoming = routed.rows.filter(pa.array(decision.emit))
        remains = int(decision.keep.sum())
        counts = np.array([incoming.num_rows])
        fresh = schema.empty_table()
        if incoming.num_rows:
            fresh = numbered(plan, incoming, [item.number], counts, _ordinals(counts) + remains)

        ends = np.cumsum([0, *file.row_group_rows])

        def remaining(number: int) -> pa.Table:
            others = file.read(few_valued, number)
            some = _slice(known, ends, number)
            group = pa.table(
                [(some if f.name in distinct else others).column(f.name) for f in schema],
                schema.names,
            )
            keep = decision.keep[_range(ends, number)]
            return group if keep.all() else group.filter(pa.array(keep))

        def rows() -> Iterator[pa.Table]:
            found = schema
            for group in groups:
                found = group.schema
                yield group
                del group
            yield conform(fresh, found)

        def keys() -> pa.ChunkedArray:
            stays = known.column(RECORD_KEY).filter(pa.array(decision.keep))
            return pa.chunked_array(
                [*stays.chunks, *incoming.column(RECORD_KEY).chunks], pa.string()
            )

        count = len(ends) - 1
        # Closed before the file is, if the write fails while the next row group is read.
        with closing(run_ahead(remaining, range(count), ahead=int(count > 1))) as groups:
            return _written(
                plan,
                item,
                file.footer,
                decision,
                incoming=incoming,
                count=remains + incoming.num_rows,
                keys=keys,
                rows=rows(),
                began=began,
            )


def _stored_schema(plan: FilePlan) -> pa.Schema:
    return pa.schema([f for f in with_meta(plan.schema) if f.name not in CONSTANT])


def _by_values(plan: FilePlan, schema: pa.Schema) -> tuple[set[str], list[str]]:
    """(the columns that a merge compares, the others)."""
    rules = plan.rules
    distinct = {RECORD_KEY, *map(root_of, (*rules.ordering, *rules.batch_ordering))}
    return distinct, [f.name for f in schema if f.name not in distinct]


def _read(plan: FilePlan, items: Sequence[FileTarget]) -> _Stored:
    schema = _stored_schema(plan)
    _, few_valued = _by_values(plan, schema)
    tables: list[pa.Table] = []
    footers: list[BaseFooter] = []
    for item in items:
        assert item.target.slice is not None and item.target.slice.base is not None
        path = item.target.slice.base.path
        if _has_other_names(plan, item.target.slice):
            rows = base_rows(plan.fs, item.target.slice, schema, None, history=plan.history)
            foot = base_file.footer(plan.fs, path)
        else:
            coded = few_valued if len(items) == 1 else ()
            with base_file.opened_base(plan.fs, path, schema=schema, dictionaries=coded) as file:
                rows, foot = file.read(), file.footer
        tables.append(rows)
        footers.append(foot)
    ends = np.cumsum([0, *(table.num_rows for table in tables)])
    rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
    return _Stored(rows, ends, footers)


def _has_other_names(plan: FilePlan, slice: FileSlice | None) -> bool:
    """Whether columns have been renamed or dropped since a base file was written."""
    assert slice is not None and slice.base is not None
    instant = slice.base.name.instant
    return plan.history is not None and plan.history.stored(instant) is not None


def _decide(plan: FilePlan, stored: _Stored, routed: Routed, ends: Longs) -> MergeDecision:
    if plan.keeps_stored:
        return unmatched(stored.rows, routed.puts)
    groups = None
    if len(stored.footers) > 1:
        numbers = np.arange(len(stored.footers), dtype=np.int32)
        groups = np.repeat(numbers, np.diff(stored.ends)), np.repeat(numbers, np.diff(ends))
    return resolve_updates(
        stored.rows,
        routed.rows,
        routed.puts,
        plan.rules,
        natural_deletes=plan.natural_deletes,
        groups=groups,
    )


def _sums(mask: npt.NDArray[np.bool_], ends: Longs) -> Longs:
    """The ends of ranges among the rows of a mask."""
    found: Longs = np.concatenate([[0], np.cumsum(mask)])[ends]
    return found


def _range(ends: Longs, at: int) -> slice:
    return slice(int(ends[at]), int(ends[at + 1]))


def _slice(rows: pa.Table, ends: Longs, at: int) -> pa.Table:
    return rows.slice(int(ends[at]), int(ends[at + 1] - ends[at]))


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of one file.  stored: all stored rows; remaining: those that are written again;
    incoming: the rows that are emitted; fresh: the same in stored form."""

    decision: MergeDecision
    stored: pa.Table
    incoming: pa.Table
    remaining: pa.Table
    fresh: pa.Table


def _rewrite(plan: FilePlan, item: FileTarget, foot: BaseFooter, part: _Part) -> Written:
    began = time.monotonic()
    rows = part.remaining
    if part.incoming.num_rows:
        rows = pa.concat_tables([rows, part.fresh])
    return _written(
        plan,
        item,
        foot,
        part.decision,
        incoming=part.incoming,
        count=rows.num_rows,
        keys=partial(rows.column, RECORD_KEY),
        rows=rows,
        began=began,
        stored=part.stored,
    )


def _written(
    plan: FilePlan,
    item: FileTarget,
    foot: BaseFooter,
    decision: MergeDecision,
    *,
    incoming: pa.Table,
    count: int,
    keys: Callable[[], pa.ChunkedArray],
    rows: pa.Table | Iterator[pa.Table],
    began: float,
    stored: pa.Table | None = None,
) -> Written:
    """Write the next base file of a group.

    foot: of the file that it replaces.  incoming: the rows that are emitted.  rows, count, keys: of
    the new file.  stored: the rows of the one replaced, for a log of changes.
    """
    group, name = item.target.group, item.base_name
    if not incoming.num_rows and decision.keep.all():  # every row lost to a stored one
        return Written(None, 0, 0, 0, decision.unchanged)
    if isinstance(rows, pa.Table):
        rows = with_constants(rows, group, str(name))
    else:
        rows = (with_constants(some, group, str(name)) for some in rows)
    bloom = filter_after(
        plan.base_file,
        foot,
        count,
        keys,
        lambda: incoming.column(RECORD_KEY).filter(pa.array(~decision.matched[decision.emit])),
    )
    limits = (foot.min_key, foot.max_key) if foot.min_key is not None and foot.max_key else None
    cdc_sizes = None
    if stored is not None:
        cdc_sizes = log_changes(
            plan, group, name, MarkerKind.MERGE, stored, leaving=~decision.keep, incoming=incoming
        )
    is_alike = not _has_other_names(plan, item.target.slice)
    size = write_base_file(
        plan,
        group,
        name,
        rows,
        bloom,
        MarkerKind.MERGE,
        keys=limits,
        added=incoming,
        replaced=foot if is_alike and incoming.num_rows * 2 < count else None,
    )
    stat = base_stat(group, name, size, count, item.target.slice, began)
    counts = decision.inserted, decision.updated, decision.deleted
    stat = counted(
        replace(stat, cdc_sizes=cdc_sizes),
        inserted=counts[0],
        updated=counts[1],
        deleted=counts[2],
    )
    return Written(stat, *counts, decision.unchanged)
