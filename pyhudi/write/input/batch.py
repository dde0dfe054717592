"""Batch chunks: incoming rows with their keys, staged for tagging.

Columns of a keyed chunk: the table's user columns in table order, then
`_hoodie_record_key: string`, `_hoodie_partition_path: dictionary<int32, string>`.

Each chunk also stores its row order by record index bucket: a column `row: int32` with the chunk's
row numbers, grouped by bucket and ascending, and the start of each bucket in the schema metadata.
A bucket's task therefore reads only its own rows, regardless of the size of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import taken
from pyhudi.engine import Engine
from pyhudi.errors import SchemaError, UserError
from pyhudi.formats.nested_fields import type_at, values_at
from pyhudi.formats.schema_conform import Loss, conform
from pyhudi.keygen.generators import KeyRule, partition_paths, record_keys
from pyhudi.merge.merge_rules import MergeRules, delete_mask, order_columns
from pyhudi.merge.payload_classes import DeleteMark
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.records import IS_DELETED, PARTITION_PATH, RECORD_KEY
from pyhudi.storage.spill import Staged, Staging
from pyhudi.write.input.value_checks import check_key_lengths, check_logical_types, check_texts

FILE_ID: Final = "file_id"
"""File ids of rows whose file groups are known, dictionary<int32, string>."""
_STARTS: Final = b"starts"
PART_ROWS: Final = 256 * 1024
_PART_BYTES: Final = 128 << 20
"""Bytes of rows that a task holds in memory before it spills them."""
_STREAM_BYTES: Final = 32 << 20
"""The same for rows from a stream, which is used when memory is limited."""


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """Parameters for keying rows.  `schema`: the table's user columns."""

    schema: pa.Schema
    rule: KeyRule
    hash: KeyHash
    rules: MergeRules | None = None
    """How records are merged: ordering columns must not hold nulls; None for deletes."""
    has_index_files: bool = False
    """Whether keys go into HFiles, which limit their length."""


@dataclass(frozen=True, slots=True)
class BatchChunk:
    """One staged chunk of keyed rows.  `order`: its rows by bucket.

    has_paths: whether rows have partition paths; keys to delete may lack them.
    has_groups: whether rows also have file groups, in the column FILE_ID.
    """

    staged: Staged
    order: Staged
    row_count: int
    byte_count: int
    partition_counts: tuple[tuple[str, int], ...]
    has_deletes: bool
    has_paths: bool = True
    has_groups: bool = False


class Rows(Protocol):
    """Incoming rows of any source."""

    @property
    def schema(self) -> pa.Schema: ...

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        """Key all rows and stage the chunks; called once."""
        ...


def key_rows(rows: pa.Table, plan: KeyPlan, *, first_row: int = 0) -> pa.Table:
    """Rows with key and partition path columns.  Raises UserError for a null key or ordering
    value, text that is not UTF-8, a vector of the wrong size, an incomplete variant, and a key
    too long for the index."""
    fitted = conform(rows, plan.schema, loss=Loss.REFUSED)
    check_texts(fitted, first_row=first_row)
    check_logical_types(fitted, first_row=first_row)
    if plan.rules is not None:
        _check_ordering(fitted, plan.rules, first_row)
    keys = record_keys(fitted, plan.rule, first_row=first_row)
    if plan.has_index_files:
        check_key_lengths(keys, first_row=first_row)
    paths = partition_paths(fitted, plan.rule, first_row=first_row)
    return fitted.append_column(RECORD_KEY, keys).append_column(PARTITION_PATH, paths)


def _check_ordering(rows: pa.Table, rules: MergeRules, first_row: int) -> None:
    """Raise UserError for a row, other than a delete, without a comparable ordering value."""
    names = rules.ordering or rules.batch_ordering
    absent = [name for name in names if type_at(rows.schema, name) is None]
    if absent:
        raise SchemaError("an ordering column is not in the schema", columns=", ".join(absent))
    if not names:
        return
    for number, column in enumerate(order_columns(rows, rules)):
        if not column.null_count:
            continue
        bad = np.array(pc.is_null(column).to_numpy(), np.bool_)
        deleted = _deleted_mask(rows, rules.marks)
        if deleted is not None:
            bad &= ~deleted
        if bad.any():
            name = names[0] if rules.sequence else names[number]
            row = int(np.argmax(bad))
            if values_at(rows, name)[row].is_valid:
                raise UserError(
                    "an ordering value does not have the format file.position",
                    column=name,
                    row=first_row + row,
                    value=values_at(rows, name)[row].as_py(),
                )
            raise UserError(
                "an ordering value is null",
                column=name,
                row=first_row + row,
                hint="set a value, or order by commit time (ordering=None)",
            )


def stage_rows(
    rows: pa.Table, plan: KeyPlan, staging: Staging, *, first_row: int = 0
) -> BatchChunk:
    """Key rows and stage them."""
    keyed = key_rows(rows, plan, first_row=first_row)
    deleted = _deleted_mask(keyed, () if plan.rules is None else plan.rules.marks)
    return BatchChunk(
        staging.put("rows", keyed),
        staging.put("order", bucket_order(keyed.column(RECORD_KEY), plan.hash)),
        keyed.num_rows,
        keyed.nbytes,
        _partition_counts(keyed),
        deleted is not None and bool(deleted.any()),
    )


def bucket_order(keys: pa.ChunkedArray, hash: KeyHash) -> pa.Table:
    """Row numbers grouped by the bucket of their keys; see the module docstring."""
    buckets = np.asarray(hash.buckets(keys))
    starts = np.zeros(hash.count + 1, np.int64)
    np.cumsum(np.bincount(buckets, minlength=hash.count), out=starts[1:])
    if hash.count <= np.iinfo(np.uint16).max:
        buckets = buckets.astype(np.uint16)  # enables radix sort
    rows = np.argsort(buckets, kind="stable").astype(np.int32)
    schema = pa.schema([("row", pa.int32())], metadata={_STARTS: starts.tobytes()})
    return pa.table([pa.array(rows)], schema=schema)


def rows_of_bucket(part: BatchChunk, bucket: int) -> npt.NDArray[np.int32]:
    """Row numbers of a chunk whose keys belong to a bucket, ascending."""
    order = part.order.load()
    starts = np.frombuffer((order.schema.metadata or {})[_STARTS], np.int64)
    rows = order.column("row").slice(starts[bucket], starts[bucket + 1] - starts[bucket])
    return np.asarray(rows.to_numpy(), np.int32)


def take_rows(
    parts: Sequence[BatchChunk],
    part: npt.NDArray[np.int32],
    row: npt.NDArray[np.int32],
    *,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Rows of the chunks, ordered by (part, row), with the given columns or all."""
    cuts = np.searchsorted(part, np.arange(len(parts) + 1))
    tables: list[pa.Table] = []
    for number, (low, high) in enumerate(pairwise(cuts.tolist())):
        if low == high and (tables or number + 1 < len(parts)):
            continue
        table = parts[number].staged.load()
        if columns is not None:
            table = table.select(columns)
        tables.append(taken(table, row[low:high]))
    return pa.concat_tables(tables)


def _partition_counts(keyed: pa.Table) -> tuple[tuple[str, int], ...]:
    counts = pc.value_counts(keyed.column(PARTITION_PATH))
    return tuple(
        sorted((str(c["values"]), int(c["counts"])) for c in counts.to_pylist() if c["counts"])
    )


def _deleted_mask(rows: pa.Table, marks: tuple[DeleteMark, ...]) -> npt.NDArray[np.bool_] | None:
    if IS_DELETED in rows.schema.names:
        kind = rows.schema.field(IS_DELETED).type
        if not pa.types.is_boolean(kind):
            raise SchemaError(f"{IS_DELETED} must be boolean", type=str(kind))
    return delete_mask(rows, marks)


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows in memory."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        cuts = [_Cut(rows, plan, staging, first) for first, rows in _bounded(self.table, 0)]
        return engine.run(_stage_cut, cuts, label="key")


def _bounded(table: pa.Table, first: int) -> Iterator[tuple[int, pa.Table]]:
    """Slices of a table that starts at row `first`, each with its first row: rows are taken from a
    chunk by number, which for text ends at 2 GiB.  An empty table is one slice."""
    count = table.num_rows
    if count > PART_ROWS:
        cut = PART_ROWS
    elif count > 1 and table.nbytes > _PART_BYTES:
        cut = count // 2
    else:
        yield first, table
        return
    for start in range(0, count, cut):
        yield from _bounded(table.slice(start, cut), first + start)


def in_bounded_batches(
    batches: Iterable[pa.RecordBatch], *, rows_max: int = PART_ROWS, bytes_max: int = _PART_BYTES
) -> Iterator[pa.Table]:
    """Batches combined into tables of bounded size, each contiguous: taking rows by number from
    many chunks would copy all of them.  No table is empty."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= rows_max or size >= bytes_max:
            yield pa.Table.from_batches(pending).combine_chunks()
            pending, rows, size = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending).combine_chunks()


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Rows from a stream of batches, possibly larger than memory; read once.

    Memory: a few chunks of some tens of megabytes, if they are staged in files.
    """

    reader: pa.RecordBatchReader

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        tables = in_bounded_batches(self.reader, bytes_max=_STREAM_BYTES)
        parts: list[BatchChunk] = []
        first = 0
        while window := list(islice(tables, max(1, min(engine.parallelism, 8)))):
            cuts = []
            for rows in window:
                cuts.append(_Cut(rows, plan, staging, first))
                first += rows.num_rows
            parts += engine.run(_stage_cut, cuts, label="key")
        return parts


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Keys to delete: record keys as text, in memory.

    paths: the partition path of each key, if known; an index that is not global deletes a key
    without a path in every partition that has it.
    """

    keys: pa.ChunkedArray
    paths: pa.ChunkedArray | None = None

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([])

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        keys = self.keys
        bad = pc.index(pc.equal(pc.fill_null(keys, ""), ""), True).as_py()
        if bad >= 0:
            raise UserError("a key to delete is null or empty", row=bad)
        return [key_part(keys, plan.hash, staging, paths=self.paths)]


def key_part(
    keys: pa.ChunkedArray,
    hash: KeyHash,
    staging: Staging,
    *,
    paths: pa.ChunkedArray | None = None,
    file_ids: pa.ChunkedArray | None = None,
) -> BatchChunk:
    """Stage record keys as a chunk of rows to delete.  paths: their partitions; file_ids: their
    file groups, only together with paths."""
    count = len(keys)
    nowhere = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([""]))
    columns: dict[str, Any] = {
        RECORD_KEY: keys,
        PARTITION_PATH: nowhere if paths is None else paths,
    }
    if file_ids is not None:
        columns[FILE_ID] = file_ids
    table = pa.table(columns).combine_chunks()
    order = staging.put("order", bucket_order(keys, hash))
    staged = staging.put("rows", table)
    counts = _partition_counts(table)
    has_paths, has_groups = paths is not None, file_ids is not None
    return BatchChunk(staged, order, count, table.nbytes, counts, True, has_paths, has_groups)


@dataclass(frozen=True, slots=True)
class NoRows:
    """No rows: the input of a write without a batch."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([])

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        return []


@dataclass(frozen=True, slots=True)
class _Cut:
    rows: pa.Table
    plan: KeyPlan
    staging: Staging
    first_row: int


def _stage_cut(cut: _Cut) -> BatchChunk:
    return stage_rows(cut.rows, cut.plan, cut.staging, first_row=cut.first_row)
