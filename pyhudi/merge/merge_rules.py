"""Merge rules of a table, derived from its properties.

The same rules apply to a batch, a rewrite, a log and its reader.  Source: table_format 7.3, 11.1;
behaviour of Apache Hudi 1.2.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UnsupportedTableError
from pyhudi.formats.nested_fields import values_at
from pyhudi.merge.ordering_values import sequence_columns
from pyhudi.merge.payload_classes import (
    DELETE_FIELD,
    DELETE_MARKER,
    PARTIAL_MODE,
    PAYLOADS,
    PROPERTY,
    PYTHON,
    STRATEGIES,
    STRATEGY,
    UNAVAILABLE_TEXT,
    UNAVAILABLE_VALUE,
    DeleteMark,
    Keeps,
    Payload,
    function_name,
)
from pyhudi.options import Merging
from pyhudi.records import IS_DELETED, RECORD_KEY
from pyhudi.table.properties import MergeMode, TableConfig

_ORDERING_FIELD: Final = "hoodie.payload.ordering.field"

RowBatch: TypeAlias = pa.RecordBatch
MergeFunction: TypeAlias = Callable[[RowBatch, RowBatch], RowBatch]


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How records of one key are merged.

    key_column: the column of the record key: the meta column, or the key field of a table without
    meta columns.  ordering: columns whose values are compared; empty where the later record wins.
    marks: conditions that make a row a delete, in addition to `_hoodie_is_deleted`.
    batch_ordering: columns compared among rows of one batch, where `ordering` is empty.
    sequence: the ordering column contains `file.position`, compared as two numbers.
    first_of_equals: among records with equal ordering values the first wins, not the last.
    keeps, unavailable: values of the greater record that are replaced by the other record's.
    beneath: the lesser record still supplies its values for these; else it is ignored.
    tombstones: a delete retains its ordering value, and later records are compared with it; else
    it is dropped after removing earlier log entries, and the next record is compared with the base
    file's.
    function: merges the stored and the new record of a key.
    refused: why records cannot be merged, or None.
    """

    key_column: str
    ordering: tuple[str, ...] = ()
    marks: tuple[DeleteMark, ...] = ()
    batch_ordering: tuple[str, ...] = ()
    sequence: bool = False
    first_of_equals: bool = False
    keeps: Keeps = Keeps.NOTHING
    unavailable: str = ""
    beneath: bool = False
    tombstones: bool = True
    function: MergeFunction | None = None
    refused: str | None = None

    @property
    def is_event_time(self) -> bool:
        return bool(self.ordering)

    @property
    def picks(self) -> bool:
        """Whether the result is always one of the two records, unchanged."""
        return self.function is None and self.keeps is Keeps.NOTHING

    @property
    def takes_stored_values(self) -> bool:
        """Whether each value of a result is that of one of the two records."""
        return self.refused is None and self.function is None

    @property
    def deletes_always_win(self) -> bool:
        """Whether a delete removes its record whatever their ordering values: payload classes that
        merge a lesser record.  The partial update modes of version 9 compare them."""
        return self.beneath and not self.tombstones

    @property
    def is_plain(self) -> bool:
        """Whether the native merge supports the rules: whole records, the later of equals wins."""
        forgets = self.is_event_time and not self.tombstones
        return self.picks and not self.first_of_equals and not forgets

    @property
    def fills_before_logging(self) -> bool:
        """Whether values of the stored record are filled into a row before it is logged.

        Apache Hudi merges log entries with each other by whole rows (0.15.0) or loses such values
        (1.2.0, Debezium for PostgreSQL).
        """
        by_arrival = self.keeps is Keeps.NULLS and not self.is_event_time
        return by_arrival or self.keeps is Keeps.UNAVAILABLE

    @property
    def folds_batches(self) -> bool:
        """Whether the rows of one key in a batch are merged; else one of them is selected."""
        return not self.picks and not self.batch_ordering

    def check(self) -> None:
        """Raise UnsupportedTableError if records of this table cannot be merged."""
        if self.refused is not None:
            raise UnsupportedTableError(
                self.refused, hint="mode='read_optimized' reads its base files"
            )


def merge_rules(config: TableConfig, merging: Merging | None = None) -> MergeRules:
    """The rules of a table; never raises, because a table may have no records to merge.

    merging: options given when the table was opened, in addition to its properties.
    """
    merging = merging or Merging()
    key_column, keyless = _key_column(config)
    if keyless is not None:
        return MergeRules(key_column, refused=keyless)
    given = _Given(config, merging, key_column)
    name = python_function(config)
    if name is not None:
        return given.by_function(name)
    partial = (config.properties.get(PARTIAL_MODE) or "NONE").upper()
    mode = config.merge_mode
    if mode is MergeMode.CUSTOM and config.payload_class in PAYLOADS:
        return given.by_payload(PAYLOADS[config.payload_class])
    strategy = config.properties.get(STRATEGY) or ""
    if mode is MergeMode.CUSTOM and not config.payload_class:
        mode = STRATEGIES.get(strategy, mode)
    if mode is MergeMode.CUSTOM:
        unknown = config.payload_class or f"merge strategy {strategy or 'CUSTOM'}"
        return MergeRules(key_column, refused=f"records merged by {unknown} are not supported")
    return given.by_mode(mode, partial)


@dataclass(frozen=True, slots=True)
class _Given:
    """Inputs of a table's merge rules."""

    config: TableConfig
    merging: Merging
    key_column: str

    def by_mode(self, mode: MergeMode, partial: str) -> MergeRules:
        """A merge mode without a payload class, with a partial update mode (versions 8, 9)."""
        keeps = {
            "NONE": Keeps.NOTHING,
            "IGNORE_DEFAULTS": Keeps.NULLS,
            "FILL_UNAVAILABLE": Keeps.UNAVAILABLE,
        }.get(partial)
        if keeps is None:
            refused = f"partial updates of mode {partial} are not supported"
            return MergeRules(self.key_column, refused=refused)
        if keeps is Keeps.NULLS and (defaults := _refused_defaults(self.config)):
            return MergeRules(self.key_column, refused=defaults)
        return MergeRules(
            self.key_column,
            self.ordering if mode is MergeMode.EVENT_TIME else (),
            self.marks,
            keeps=keeps,
            unavailable=self.property(UNAVAILABLE_VALUE) or "",
            beneath=keeps is not Keeps.NOTHING,
        )

    def by_payload(self, payload: Payload) -> MergeRules:
        if payload.mode is not MergeMode.CUSTOM:
            return self.by_mode(payload.mode, "NONE")
        ordering = payload.ordering or self.ordering
        if payload.defaults and (refused := _refused_defaults(self.config)):
            return MergeRules(self.key_column, refused=refused)
        return MergeRules(
            self.key_column,
            ordering if payload.by_time else (),
            (*payload.marks, *self.marks),
            batch_ordering=() if payload.by_time else ordering,
            sequence=payload.sequence,
            first_of_equals=payload.first_of_equals,
            keeps=payload.keeps,
            unavailable=UNAVAILABLE_TEXT,
            beneath=payload.beneath,
            tombstones=False,
        )

    def by_function(self, name: str) -> MergeRules:
        function = self.merging.function
        refused = None
        if function is None:
            refused = f"records are merged by the Python function {name}, which was not passed"
        elif function_name(function) != name:
            refused = (
                f"records are merged by the Python function {name}, "
                f"but {function_name(function)} was passed"
            )
        return MergeRules(
            self.key_column,
            marks=self.marks,
            tombstones=False,
            function=function,
            refused=refused,
        )

    @property
    def ordering(self) -> tuple[str, ...]:
        stated = self.config.properties.get(_ORDERING_FIELD) or ""
        names = tuple(name.strip() for name in stated.split(",") if name.strip())
        return self.config.ordering_fields or names

    @property
    def marks(self) -> tuple[DeleteMark, ...]:
        column = self.merging.delete_field or self.property(DELETE_FIELD)
        value = self.merging.delete_marker or self.property(DELETE_MARKER)
        return (DeleteMark(column, value),) if column and value else ()

    def property(self, key: str) -> str | None:
        stated = self.config.properties
        return stated.get(PROPERTY + key) or stated.get(key) or None


def python_function(config: TableConfig) -> str | None:
    """The name of the Python function that merges the table's records, or None."""
    strategy = config.properties.get(STRATEGY) or ""
    return strategy.removeprefix(PYTHON) if strategy.startswith(PYTHON) else None


def order_columns(rows: pa.Table, rules: MergeRules) -> list[pa.ChunkedArray]:
    """The columns to compare, most significant first.  Null values are not comparable."""
    columns = [values_at(rows, name) for name in rules.ordering or rules.batch_ordering]
    return sequence_columns(columns[0]) if rules.sequence else columns


def delete_mask(rows: pa.Table, marks: tuple[DeleteMark, ...]) -> npt.NDArray[np.bool_] | None:
    """Which rows are marked as deletes; None if no column could mark one."""
    found = []
    if IS_DELETED in rows.column_names and pt.is_boolean(rows.column(IS_DELETED).type):
        found.append(rows.column(IS_DELETED))
    for mark in marks:
        if mark.column in rows.column_names:
            text = rows.column(mark.column).cast(pa.string())
            text = pc.utf8_lower(text) if mark.any_case else text
            value = mark.value.lower() if mark.any_case else mark.value
            found.append(pc.equal(text, value))
    if not found:
        return None
    mask = np.zeros(rows.num_rows, np.bool_)
    for flags in found:
        mask |= np.asarray(pc.fill_null(flags, False).to_numpy(), np.bool_)
    return mask


def _refused_defaults(config: TableConfig) -> str | None:
    """Why stored values cannot replace defaults: columns with a default other than null in the
    create schema, of which Apache Hudi compares some types only."""
    if config.create_schema is None:
        return None
    fields = json.loads(config.create_schema).get("fields", [])
    filled = [field["name"] for field in fields if field.get("default") is not None]
    refused = "schema defaults that are replaced by stored values are not supported"
    return f"{refused}: {', '.join(filled)}" if filled else None


def _key_column(config: TableConfig) -> tuple[str, str | None]:
    if config.has_meta_columns:
        return RECORD_KEY, None
    match config.record_key_fields:
        case (name,):
            return name, None
        case ():
            return RECORD_KEY, "the table has neither meta columns nor record key fields"
        case _:
            return RECORD_KEY, "virtual keys of several fields are not supported"
