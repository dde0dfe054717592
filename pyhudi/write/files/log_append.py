"""Log appends of a merge-on-read write: one log file per file group, more if it is large."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.arrays import Ints, taken
from pyhudi.filenames import BaseFileName, LogFileName, join, new_write_token
from pyhudi.formats.delete_block import loggable
from pyhudi.formats.log_block import data_block, delete_block
from pyhudi.formats.log_file import BlockKind
from pyhudi.formats.nested_fields import root_of, values_at
from pyhudi.formats.record_positions import RecordPositions
from pyhudi.index.contract import UNKNOWN
from pyhudi.merge.column_merge import wanting
from pyhudi.merge.resolve_updates import outcome, resolve_updates
from pyhudi.options import LogFormat
from pyhudi.read.file_slice import read_slice
from pyhudi.records import RECORD_KEY, InstantTime
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.transaction.markers import MarkerKind
from pyhudi.write.files.file_plan import FilePlan, Written, millis_since, stamped
from pyhudi.write.placement.assignment import Target
from pyhudi.write.placement.routing import Routed
from pyhudi.write.placement.tagging import RowAction


def first_log(plan: FilePlan, number: int, target: Target) -> LogFileName:
    """A name for the first log that `append` writes for a target."""
    return _place(plan, target).new_name(number)


def _place(plan: FilePlan, target: Target) -> LogPlace:
    slice_ = target.slice or FileSlice(target.group, plan.instant)
    return next_log(plan, slice_, target.compacting)


def append(
    plan: FilePlan, number: int, target: Target, routed: Routed, first: LogFileName
) -> list[Written]:
    """Write log files on top of the group's latest slice: data blocks, then delete blocks.

    One file, `first`, unless it exceeds the maximum size: then writing continues in the next
    version.
    """
    began = time.monotonic()
    group = target.group
    slice_ = target.slice or FileSlice(group, plan.instant)
    routed, unchanged = _in_order(plan, slice_, routed)
    routed = _by_position(slice_, routed)
    place = _place(plan, target)
    name = first
    written: list[Written] = []
    fresh = target.insert_count
    for blocks in _files_of(_blocks(plan, number, target, routed), plan.sizing.log_file_bytes_max):
        kind = MarkerKind(plan.layout.log_marker)
        plan.announce(group.partition, name, kind)
        path = join(group.partition, str(name))
        with plan.open_sink(path) as sink:
            for block in blocks:
                sink.write(block.content)
            size = sink.tell()
        puts, deletes = sum(b.put_count for b in blocks), sum(b.delete_count for b in blocks)
        inserts = min(fresh, puts)
        fresh -= inserts
        stat = WriteStat(
            partition=group.partition,
            file_id=group.file_id,
            path=path,
            previous_instant=place.previous_instant,
            write_count=puts,
            delete_count=deletes,
            update_count=puts - inserts,
            insert_count=inserts,
            size_bytes=size,
            write_bytes=size,
            log_version=name.version,
            base_file=place.base_file,
            log_files=(*place.earlier, str(name)),
            upsert_millis=millis_since(began),
        )
        written.append(Written(stat, inserts, puts - inserts, deletes, 0))
        place = place.following(name)
        name = place.new_name(number)
    if not written:
        return [Written(None, 0, 0, 0, unchanged)]
    return [replace(written[0], unchanged=unchanged), *written[1:]]


@dataclass(frozen=True, slots=True)
class _Block:
    content: bytes
    put_count: int = 0
    delete_count: int = 0


def _blocks(plan: FilePlan, number: int, target: Target, routed: Routed) -> Iterator[_Block]:
    """The blocks of the append, created one at a time."""
    puts = routed.puts
    gone, action = routed.rows.filter(pa.array(~puts)), routed.action[~puts]
    ordered, as_rows = _deletes_by_value(plan, gone, action)
    marked, deleted = ~puts, ~puts
    marked[~puts], deleted[~puts] = as_rows, ~as_rows
    if routed.positions is None:
        rows = Routed.concat(routed.of(puts), routed.of(marked))
    else:
        rows = routed.of(puts | marked)
    is_put = rows.puts
    start = 0
    for content, count in _data_blocks(plan, number, target, rows):
        put_count = int(is_put[start : start + count].sum())
        yield _Block(content, put_count, count - put_count)
        start += count
    for content, count in _delete_blocks(plan, target, routed.of(deleted), ordered[~as_rows]):
        yield _Block(content, delete_count=count)


def _by_position(slice_: FileSlice, routed: Routed) -> Routed:
    """The rows in the order of their records in the base file, if each has one there; else in their
    order and without positions, because readers need all of a slice."""
    if routed.positions is None or slice_.base is None or not routed.rows.num_rows:
        return replace(routed, positions=None)
    order = np.argsort(routed.positions, kind="stable")
    positions = routed.positions[order]
    if positions[0] == UNKNOWN or not (np.diff(positions) > 0).all():
        return replace(routed, positions=None)
    return Routed(taken(routed.rows, order), routed.action[order], positions)


def _positions(target: Target, positions: Ints | None) -> RecordPositions | None:
    """The header of a block; None if positions are not known."""
    if positions is None or target.slice is None or target.slice.base is None:
        return None
    name = target.slice.base.name
    assert isinstance(name, BaseFileName)
    return RecordPositions(name.instant, positions.astype(np.int64))


def _data_blocks(
    plan: FilePlan, number: int, target: Target, routed: Routed
) -> Iterator[tuple[bytes, int]]:
    """Data blocks of the rows, each with its row count."""
    group, rows, positions = target.group, routed.rows, routed.positions
    kind = BlockKind.PARQUET if plan.log_format is LogFormat.PARQUET else BlockKind.AVRO
    step = max(1, rows.num_rows * plan.sizing.log_block_bytes_max // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        block = stamped(plan, rows.slice(start, step), group, number, group.file_id, start)
        at = None if positions is None else positions[start : start + step]
        content = data_block(
            block,
            kind=kind,
            instant=plan.instant,
            avro_schema=plan.partial_schema or plan.avro_schema,
            positions=_positions(target, at),
            is_partial=plan.partial_schema is not None,
        )
        yield content, block.num_rows


def _files_of(blocks: Iterable[_Block], bytes_max: int) -> Iterator[list[_Block]]:
    """Blocks grouped by file: a file takes blocks until it is full, and at least one."""
    batch: list[_Block] = []
    size = 0
    for block in blocks:
        if batch and size + len(block.content) > bytes_max:
            yield batch
            batch, size = [], 0
        batch.append(block)
        size += len(block.content)
    if batch:
        yield batch


def _in_order(plan: FilePlan, slice_: FileSlice, routed: Routed) -> tuple[Routed, int]:
    """(the rows to log, the number of rows of the batch that lost).

    Readers merge logs with each other and then with the base file.  That equals the order of the
    commits, except for a late row, whose values would be merged in another order than by a
    rewrite: such a row is logged already merged with its record, and so are rows that lack values
    where readers would not find them.
    """
    if plan.stored is None:
        return routed, 0
    spec, rules = plan.stored, plan.stored.rules
    narrow = replace(spec, columns=(RECORD_KEY, *map(root_of, rules.ordering)))
    known = read_slice(plan.fs, slice_, spec=narrow)
    natural = plan.natural_deletes
    decision = resolve_updates(known, routed.rows, routed.puts, rules, natural_deletes=natural)
    puts = routed.rows.filter(pa.array(decision.emit))
    late = decision.beneath[decision.emit]
    if rules.fills_before_logging:
        late = late | (wanting(puts, rules) & decision.matched[decision.emit])
    if late.any():
        known = read_slice(plan.fs, slice_, spec=spec)
        decision = resolve_updates(
            known, routed.rows, routed.puts, rules, natural_deletes=plan.natural_deletes
        )
        whole = outcome(known, routed.rows, decision, rules)
        chosen = np.arange(len(puts)) + np.where(late, len(puts), 0)
        puts = pa.concat_tables([puts, whole]).take(pa.array(chosen))
    gone = (routed.action != RowAction.PUT) & ~decision.lost
    rows = pa.concat_tables([puts, routed.rows.filter(pa.array(gone))])
    action = np.concatenate([routed.action[decision.emit], routed.action[gone]])
    positions = routed.positions
    if positions is not None:
        positions = np.concatenate([positions[decision.emit], positions[gone]])
    return Routed(rows, action, positions), decision.unchanged


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where the next log file of a slice goes, and what its write stat names beside it.

    instant, version: in its name.  previous_instant, base_file, earlier: the slice, its base file
    and its earlier logs, where logs belong to a slice by name or changes are captured; else the
    write's own instant, and no other file.
    """

    file_id: str
    instant: InstantTime
    version: int
    previous_instant: InstantTime
    base_file: str = ""
    earlier: tuple[str, ...] = ()

    def new_name(self, number: int) -> LogFileName:
        """A name that no other attempt uses; number: of the task."""
        return LogFileName(self.file_id, self.instant, self.version, new_write_token(number))

    def following(self, name: LogFileName) -> LogPlace:
        """The place after the log `name`, which the same write has just written."""
        names_all = bool(self.base_file or self.earlier) or self.previous_instant != self.instant
        earlier = (*self.earlier, str(name)) if names_all else ()
        return replace(self, version=self.version + 1, earlier=earlier)


def next_log(plan: FilePlan, slice_: FileSlice, compacting: InstantTime | None) -> LogPlace:
    """Where a write puts its next log of a slice.

    compacting: instant of the group's planned compaction, which must not include the log; matters
    only where the name of a log decides about its slice.
    """
    base_file = str(slice_.base.name) if slice_.base else ""
    names = tuple(str(log.name) for log in slice_.logs)
    if plan.layout.logs_name_slices:
        instant, version = append_position(slice_, compacting)
        return LogPlace(slice_.file_id, instant, version, instant, base_file, names)
    if plan.cdc is not None:  # readers of changes find the slice before the log by these names
        return LogPlace(slice_.file_id, plan.instant, 1, slice_.instant, base_file, names)
    return LogPlace(slice_.file_id, plan.instant, 1, plan.instant)


def append_position(slice_: FileSlice, compacting: InstantTime | None) -> tuple[InstantTime, int]:
    """(slice instant, version) of the next log: the latest slice's instant, the next version.

    compacting: instant of the group's planned compaction, which must not include the log.
    """
    newest = slice_.instant if compacting is None else max(compacting, slice_.instant)
    versions = [0]
    for log in slice_.logs:
        assert isinstance(log.name, LogFileName)
        if log.name.instant > newest:
            newest, versions = log.name.instant, [0]
        if log.name.instant == newest:
            versions.append(log.name.version)
    return newest, max(versions) + 1


def _deletes_by_value(
    plan: FilePlan, gone: pa.Table, action: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """(deletes stored in a delete block with their ordering value, deletes logged as rows).

    A row that is marked as a delete is logged if a delete block cannot represent its ordering
    value.  All others always win: moves, deletes by key.
    """
    ordering = plan.rules.ordering
    compared = bool(ordering) and plan.rules.tombstones and not plan.natural_deletes
    if not compared or not gone.num_rows:
        return np.zeros(gone.num_rows, np.bool_), np.zeros(gone.num_rows, np.bool_)
    marked = action == RowAction.DELETE
    fits = loggable([values_at(gone, name) for name in ordering])
    return marked & fits, marked & ~fits


def _delete_blocks(
    plan: FilePlan, target: Target, gone: Routed, ordered: npt.NDArray[np.bool_]
) -> Iterator[tuple[bytes, int]]:
    """Delete blocks, each with its row count: first deletes with an ordering value (`ordered`),
    then deletes that always win."""
    for mask, has_order in ((ordered, True), (~ordered, False)):
        if mask.any():
            some = gone.of(mask)
            rows = some.rows
            content = delete_block(
                rows.column(RECORD_KEY),
                target.group.partition,
                _ordering_values(rows, plan.rules.ordering) if has_order else None,
                instant=plan.instant,
                avro_schema=plan.avro_schema,
                positions=_positions(target, some.positions),
            )
            yield content, rows.num_rows


def _ordering_values(rows: pa.Table, names: tuple[str, ...]) -> pa.Array:
    """Values of the ordering columns; as structs if there are several."""
    columns = [values_at(rows, name).combine_chunks() for name in names]
    return columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, list(names))
