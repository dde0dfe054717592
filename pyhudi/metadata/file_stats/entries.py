"""Entries of `column_stats` and `partition_stats` of index versions 1 and 2, column by column.

Entries with one wrapper are one struct array; entries of files are such arrays, joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi._native.keys import argsort
from pyhudi.metadata.file_stats.records import ColumnRange, FileIndex
from pyhudi.metadata.file_stats.value_types import ValueType
from pyhudi.metadata.payloads import COLUMN_RANGE, encode_ranges, ranges_type
from pyhudi.metadata.record_schema import RECORDS_V9

COUNTS: Final = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """Entries whose bounds have one wrapper; arrays of one length.

    names: of files, or partitions.  low, high: as the wrapper stores them; null without values.
    counts: of values and nulls, then the compressed and plain bytes; int64.
    """

    names: pa.Array
    columns: pa.Array
    wrapper: str
    low: pa.Array
    high: pa.Array
    counts: tuple[pa.Array, pa.Array, pa.Array, pa.Array]
    typed: ValueType | None
    is_tight: bool = False

    def to_entries(self) -> pa.StructArray:
        """The fields of `ranges_type()`."""
        count, kind = len(self.names), ranges_type()
        children = {
            "fileName": self.names,
            "columnName": self.columns,
            "minValue": _side(self.low, self.wrapper, kind.field("minValue").type),
            "maxValue": _side(self.high, self.wrapper, kind.field("maxValue").type),
            **dict(zip(COUNTS, self.counts, strict=True)),
            "isDeleted": pa.repeat(pa.scalar(False), count),
            "isTightBound": pa.repeat(pa.scalar(self.is_tight), count),
            "valueType": self._types(kind.field("valueType").type),
        }
        return pa.StructArray.from_arrays([children[f.name] for f in kind], fields=list(kind))

    def _types(self, kind: pa.StructType) -> pa.StructArray:
        count = len(self.names)
        if self.typed is None:
            return pa.nulls(count, kind)
        ordinals = pa.repeat(pa.scalar(self.typed.ordinal, pa.int32()), count)
        details = pa.repeat(pa.scalar(self.typed.details, pa.string()), count)
        return pa.StructArray.from_arrays([ordinals, details], fields=list(kind))


def _side(values: pa.Array, wrapper: str, kind: pa.StructType) -> pa.StructArray:
    """Bounds as the union of wrappers that has the values in this one."""
    absent = values.is_null()
    children = []
    for field in kind:
        if field.name != wrapper:
            children.append(pa.nulls(len(values), field.type))
            continue
        (value,) = field.type
        filler = pa.scalar(0).cast(pa.int32()) if _is_number(value.type) else ""
        filled = values.cast(value.type)
        if values.null_count:
            filled = filled.fill_null(pa.scalar(filler).cast(value.type))
        children.append(pa.StructArray.from_arrays([filled], fields=[value], mask=absent))
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=absent)


def _is_number(kind: pa.DataType) -> bool:
    return not (pa.types.is_binary(kind) or pa.types.is_string(kind))


def file_entries(found: Iterable[FileIndex]) -> tuple[pa.Array, pa.StructArray]:
    """(keys, entries) of files in no particular order."""
    groups: dict[tuple[str, ValueType | None], list[tuple[FileIndex, ColumnRange]]] = {}
    for index in found:
        for ranged in index.ranges:
            groups.setdefault((ranged.wrapper, ranged.typed), []).append((index, ranged))
    keys = [index.range_key(ranged.column) for rows in groups.values() for index, ranged in rows]
    parts = [_of_files(wrapper, typed, rows) for (wrapper, typed), rows in groups.items()]
    entries = pa.concat_arrays([p.to_entries() for p in parts]) if parts else pa.nulls(0)
    return pa.array(keys, pa.string()), entries.cast(ranges_type()) if not parts else entries


def _of_files(
    wrapper: str, typed: ValueType | None, rows: Sequence[tuple[FileIndex, ColumnRange]]
) -> EntryColumns:
    value = ranges_type().field("minValue").type.field(wrapper).type.field("value").type

    def column(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(list(values), kind)

    ranges = [ranged for _, ranged in rows]
    return EntryColumns(
        names=column((index.file_name for index, _ in rows), pa.string()),
        columns=column((r.column for r in ranges), pa.string()),
        wrapper=wrapper,
        low=column((r.low for r in ranges), value),
        high=column((r.high for r in ranges), value),
        counts=(
            column((r.value_count for r in ranges), pa.int64()),
            column((r.null_count for r in ranges), pa.int64()),
            column((r.size_bytes for r in ranges), pa.int64()),
            column((r.plain_bytes for r in ranges), pa.int64()),
        ),
        typed=typed,
    )


def encoded(
    keys: pa.Array, entries: pa.StructArray, kind: int = COLUMN_RANGE
) -> tuple[pa.Array, pa.Array]:
    """(keys in byte order, their values).  kind: of the records."""
    if not len(keys):
        return keys, pa.array([], pa.binary())
    order = pa.array(argsort(keys))
    return keys.take(order), encode_ranges(entries.take(order), RECORDS_V9.stored, kind=kind)
