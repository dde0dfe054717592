"""Partial updates: writes that log only some columns of their rows.

`hoodie.write.partial.update.schema` is an Avro record with these columns.  The other columns keep
the stored values when readers merge; the batch may leave them out.  Such a write updates existing
records of a merge-on-read table of version 8 or newer and can neither insert nor move one.
Source: writer_v8_v9 3.3.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi._native import AvroCodec
from pyhudi.errors import (
    CorruptFileError,
    OptionError,
    PyhudiError,
    SchemaError,
    UnsupportedTableError,
    UserError,
)
from pyhudi.formats.avro_schema import with_meta_fields
from pyhudi.formats.nested_fields import root_of
from pyhudi.merge.partial_updates import partial_rules
from pyhudi.options import SchemaMode
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import IS_DELETED, without_meta
from pyhudi.write.input.schema_check import SchemaRules, fit_schema, plain_schema
from pyhudi.write.write_context import Operation, WriteRequest

OPTION = "hoodie.write.partial.update.schema"


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """columns: those that the write sets, in table order.  optional: those that the batch may leave
    out."""

    columns: tuple[str, ...]
    optional: frozenset[str]

    def schema_rules(self, rules: SchemaRules) -> SchemaRules:
        """The rules for the batch: it cannot change the table's schema."""
        return replace(rules, mode=SchemaMode.STRICT, optional=self.optional)

    def log_schema(self, avro_schema: str) -> str:
        """The schema of the log blocks.  avro_schema: of the table, without meta fields."""
        record = json.loads(avro_schema)
        record["fields"] = [f for f in record["fields"] if f["name"] in self.columns]
        text = with_meta_fields(json.dumps(record))
        try:
            AvroCodec(text)
        except PyhudiError as broken:  # a type that a column left out defines
            raise UnsupportedTableError(
                "a partial update cannot set these columns without those that define their types",
                columns=", ".join(self.columns),
            ) from broken
        return text


def partial_update(
    state: TableState, request: WriteRequest, stored: pa.Schema
) -> PartialUpdate | None:
    """The partial update that the options request; None for a write of whole rows.

    stored: the user columns of the table.  Raises OptionError, UserError, UnsupportedTableError.
    """
    text = request.options.write.partial_schema
    if not text or not request.operation.brings_rows:
        return None
    config = state.config
    if request.operation is not Operation.UPSERT or request.skip_unchanged:
        raise UserError(
            "only an upsert of all its rows can be a partial update",
            option=OPTION,
            operation=request.operation.value.lower(),
        )
    if not (config.is_merge_on_read and config.layout.has_partial_logs):
        raise UnsupportedTableError(
            "partial updates need a merge-on-read table of version 8 or newer",
            option=OPTION,
            table_type=config.table_type.value,
            version=config.version,
        )
    partial_rules(state.rules, path=state.fs.url)
    columns = _columns(text, stored)
    lacking = [name for name in state.rules.ordering if root_of(name) not in columns]
    if lacking:
        raise OptionError(
            "a partial update must set the ordering columns",
            option=OPTION,
            missing=", ".join(lacking),
        )
    marking = {IS_DELETED, *(mark.column for mark in state.rules.marks)} - set(columns)
    if marking & set(request.rows.schema.names):
        raise OptionError(
            "a partial update with deletes must set the columns that mark them",
            option=OPTION,
            missing=", ".join(sorted(marking)),
        )
    keys = (*config.record_key_fields, *config.partition_fields)
    needed = {*columns, *map(root_of, keys)}
    return PartialUpdate(columns, frozenset(stored.names) - needed)


def _columns(text: str, stored: pa.Schema) -> tuple[str, ...]:
    """The columns of the option's schema, in table order.  Raises OptionError."""
    try:
        given = plain_schema(without_meta(AvroCodec(text).arrow_schema))
        fit_schema(given, stored, SchemaRules(SchemaMode.STRICT, optional=frozenset(stored.names)))
    except (CorruptFileError, SchemaError, UserError, UnsupportedTableError) as unfit:
        raise OptionError(
            "the schema of a partial update is not an Avro record of columns of the table",
            option=OPTION,
            reason=unfit.what,
        ) from unfit
    columns = tuple(name for name in stored.names if name in given.names)
    if not columns:
        raise OptionError("a partial update sets no column", option=OPTION)
    return columns
