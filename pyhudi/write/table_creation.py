"""Definition of a new table and the table properties derived from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import OptionError, SchemaError, UserError
from pyhudi.formats.avro_schema import arrow_to_avro, comments_of, table_record_name, with_docs
from pyhudi.formats.column_names import check_names
from pyhudi.formats.nested_fields import type_at
from pyhudi.index.selection import bucket_rule, index_properties
from pyhudi.keygen.generators import PythonKeys
from pyhudi.keygen.key_generator_config import key_rule
from pyhudi.keygen.new_table_keys import new_keys
from pyhudi.merge.merge_choice import merge_choice
from pyhudi.options import DEFAULT_TABLE_VERSION, IndexKind, Options
from pyhudi.table.cdc_properties import CDC_MODE, CdcMode
from pyhudi.table.new_table import new_table_properties
from pyhudi.table.properties import SLASHES, TableConfig, TableType
from pyhudi.table.stored_properties import can_have_slashes
from pyhudi.write.input.schema_check import plain_schema

_WITHOUT_TEXT: Final = (
    pt.is_nested, pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary,
    pt.is_time,
)  # fmt: skip


@dataclass(frozen=True)
class NewTable:
    """Definition of a new table.

    schema: user columns; the metadata of a field may have a comment.
    partition_by: columns; for the custom key generator with their types
    (`city:SIMPLE`).  options: include the key generator (`request`) and its time formats
    (`keygen`).
    """

    schema: pa.Schema
    name: str
    table_type: TableType
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    options: Options = field(default_factory=Options)
    index: IndexKind = IndexKind.RECORD
    functions: PythonKeys | None = None


def config_of(table: NewTable) -> TableConfig:
    """The properties of a new table.  Raises SchemaError, UserError, OptionError."""
    check_names(table.schema)
    check_names(table.schema, folded=True)
    schema = plain_schema(table.schema)
    keys = new_keys(
        table.record_key, table.partition_by, options=table.options, functions=table.functions
    )
    _check_columns("record_key", table.record_key, schema)
    _check_columns("partition_by", keys.partition_fields, schema)
    _check_columns("ordering", table.ordering, schema)
    if not table.record_key:
        raise UserError("a table needs a record key", hint="record_key='id'")
    options = table.options
    version = options.table.version or DEFAULT_TABLE_VERSION
    choice = merge_choice(
        options.table, options.read.merging, table.ordering, schema.names, version=version
    )
    _check_comparable(schema, choice.ordering)
    if table.functions is None:
        _check_keyable(schema, (*table.record_key, *keys.partition_fields))
    record_name, namespace = table_record_name(table.name)
    text = arrow_to_avro(schema, name=record_name, namespace=namespace)
    config = new_table_properties(
        name=table.name,
        table_type=table.table_type,
        record_key=table.record_key,
        partition_by=keys.partition_fields,
        ordering=choice.ordering,
        create_schema=with_docs(text, comments_of(table.schema)),
        merge_properties=choice.properties,
        hive_style=bool(options.table.hive_style),
        url_encoded=bool(options.table.url_encoded),
        timezone=options.table.timezone or "UTC",
        key_generator=keys.kind,
        database=options.table.database or "",
        more={**keys.properties, **_slashes(options), **_capture(options)},
        version=version,
    )
    key_rule(config, table.options, functions=table.functions)
    _check_slashes(config)
    rules = table.options.write.index_rules
    config = config.with_properties(index_properties(table.index, rules))
    if table.index.traits.names_places:
        bucket_rule(config, rules)
    return config


def _check_columns(argument: str, names: tuple[str, ...], schema: pa.Schema) -> None:
    """Raise SchemaError for an argument with columns that the schema does not have, UserError for
    one that names a column several times."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"{argument} names a column several times", columns=", ".join(twice))
    absent = [name for name in names if type_at(schema, name) is None]
    if absent:
        raise SchemaError(
            f"{argument} names columns that are not in the schema",
            columns=", ".join(absent),
            hint=f"the schema has {', '.join(schema.names)}",
        )


def _check_comparable(schema: pa.Schema, ordering: tuple[str, ...]) -> None:
    """Raise SchemaError for an ordering column whose values cannot be ordered."""
    for name in ordering:
        kind = type_at(schema, name)
        if kind is not None and pt.is_nested(kind):
            raise SchemaError(
                "records cannot be ordered by a column of this type",
                column=name,
                type=str(kind),
                hint="use a numeric, string or time column",
            )


def _check_keyable(schema: pa.Schema, columns: tuple[str, ...]) -> None:
    """Raise SchemaError for a key or partition column whose values have no text form."""
    for name in columns:
        kind = type_at(schema, name)
        if any(is_without(kind) for is_without in _WITHOUT_TEXT):
            raise SchemaError(
                "a column of this type cannot be a key or partition value",
                column=name,
                type=str(kind),
            )


def _slashes(options: Options) -> dict[str, str]:
    return {SLASHES: "true"} if options.table.slashes else {}


def _check_slashes(config: TableConfig) -> None:
    if config.has_slashes and not can_have_slashes(config):
        raise OptionError(
            "dates can be separated by slashes in partitions of one column only, whose names have "
            "no column name",
            option=SLASHES,
            value="true",
            partition_by=",".join(config.partition_fields),
            hint="omit the option",
        )


def _capture(options: Options) -> dict[str, str]:
    """The properties of change data capture, if it is enabled.  Raises OptionError."""
    mode = options.table.cdc_mode
    if not options.table.cdc:
        if mode is not None:
            raise OptionError(
                "change data capture is not enabled",
                option=CDC_MODE,
                value=mode,
                hint="also set hoodie.table.cdc.enabled=true",
            )
        return {}
    return {
        "hoodie.table.cdc.enabled": "true",
        CDC_MODE: mode or CdcMode.DATA_BEFORE_AFTER.value,
    }
