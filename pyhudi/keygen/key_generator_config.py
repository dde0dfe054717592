"""The key rule of a table, from its properties and options.

Properties of version 6 omit most settings of the timestamp and custom key generators, so writers
pass them as options each time.  Options and properties must agree.  Source: table_format 1.2, 5.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from pyhudi.errors import OptionError, UnsupportedTableError, UserError
from pyhudi.keygen.generators import KeyRule, PythonKeys
from pyhudi.keygen.timestamp_generator import TimeRule, time_rule
from pyhudi.options import Options, TimestampSettings, parse_options
from pyhudi.table.new_table import PATH_FIELDS
from pyhudi.table.properties import KeyGeneratorKind, TableConfig
from pyhudi.table.stored_properties import can_have_slashes

_TIMEBASED: Final = "hoodie.keygen.timebased."
_STORED: Final = (_TIMEBASED, "hoodie.deltastreamer.keygen.timebased.")
_NAMES: Final = {
    "timestamp_type": "timestamp.type",
    "input_formats": "input.dateformat",
    "input_delimiter": "input.dateformat.list.delimiter.regex",
    "output_format": "output.dateformat",
    "scalar_unit": "timestamp.scalar.time.unit",
    "timezone": "timezone",
    "input_timezone": "input.timezone",
    "output_timezone": "output.timezone",
}


def key_rule(
    config: TableConfig,
    options: Options,
    *,
    functions: PythonKeys | None = None,
    bare: bool | None = None,
    with_paths: bool = True,
) -> KeyRule:
    """The rule that properties and options define.

    bare: for a complex key generator with one key field, whether the key is the bare value; None
    or False: `field:value`.  Raises UnsupportedTableError, OptionError, UserError.
    """
    kind = config.key_generator
    fields = config.record_key_fields
    if kind is KeyGeneratorKind.USER_PROVIDED and functions is None:
        raise UnsupportedTableError(
            "the table uses a custom key generator",
            key_generator=config.key_generator_name,
            hint="open it with key_generator=PythonKeys(...) that makes the same keys and paths",
        )
    if not fields and (functions is None or functions.keys is None):
        raise UnsupportedTableError(
            "the table has no record key columns, so its rows and columns cannot be changed here",
            table=config.name,
            hint="Apache Hudi makes keys of such rows as it writes them; copy the rows into a "
            "table with a record key, or write by Apache Hudi",
        )
    partitions = config.partition_fields
    if kind in (KeyGeneratorKind.NON_PARTITION, KeyGeneratorKind.GLOBAL_DELETE) or not with_paths:
        partitions = ()
    composite = len(fields) > 1 or kind is KeyGeneratorKind.GLOBAL_DELETE
    if is_encoding_open(config):
        composite = not bare
    return KeyRule(
        fields,
        partitions,
        composite,
        config.hive_style,
        config.url_encoded,
        config.has_slashes and can_have_slashes(config),
        times=_times(kind, partitions, config, options),
        functions=functions or PythonKeys(),
    )


def is_encoding_open(config: TableConfig) -> bool:
    """Whether the encoding of this table's keys depends on the release that wrote it."""
    return config.key_generator is KeyGeneratorKind.COMPLEX and len(config.record_key_fields) == 1


def may_have_names(config: TableConfig) -> bool:
    """Whether record keys of one column can be `name:value`."""
    composite = (KeyGeneratorKind.COMPLEX, KeyGeneratorKind.GLOBAL_DELETE)
    return config.key_generator in composite and len(config.record_key_fields) == 1


def timestamp_properties(settings: TimestampSettings) -> dict[str, str]:
    """Settings of the timestamp key generator as table properties."""
    return {
        _TIMEBASED + _NAMES[field]: str(value)
        for field, value in asdict(settings).items()
        if value is not None
    }


def typed_partitions(names: tuple[str, ...]) -> dict[str, bool]:
    """For each `field`, `field:SIMPLE` or `field:TIMESTAMP`, whether it is a timestamp."""
    types = {}
    for text in names:
        name, _, kind = text.partition(":")
        if kind.upper() not in ("", "SIMPLE", "TIMESTAMP"):
            raise UserError(
                "unknown type of a partition field", field=text, hint="use SIMPLE or TIMESTAMP"
            )
        types[name] = kind.upper() == "TIMESTAMP"
    return types


def stored_partition_types(config: TableConfig) -> dict[str, bool] | None:
    """As `typed_partitions`, by the table's properties; None if they do not state it."""
    kind = config.key_generator
    if kind is KeyGeneratorKind.CUSTOM:
        for name in (PATH_FIELDS, "hoodie.table.partition.fields"):
            stated = config.properties.get(name, "")
            if ":" in stated:
                return typed_partitions(tuple(field.strip() for field in stated.split(",")))
    if kind in (KeyGeneratorKind.CUSTOM, KeyGeneratorKind.USER_PROVIDED):
        return None
    return dict.fromkeys(config.partition_fields, kind is KeyGeneratorKind.TIMESTAMP)


def _times(
    kind: KeyGeneratorKind, partitions: tuple[str, ...], config: TableConfig, options: Options
) -> tuple[TimeRule | None, ...]:
    if not partitions:
        return ()
    if kind is KeyGeneratorKind.TIMESTAMP:
        return (time_rule(_settings(config.properties, options)),) * len(partitions)
    if kind is not KeyGeneratorKind.CUSTOM:
        return ()
    types = stored_partition_types(config) or _passed_types(options)
    if not any(types.values()):
        return ()
    rule = time_rule(_settings(config.properties, options))
    return tuple(rule if types[name] else None for name in partitions)


def _passed_types(options: Options) -> dict[str, bool]:
    """As `typed_partitions`, by the option.  Raises OptionError if it states none."""
    names = options.request.partition_by or ()
    if any(":" in name for name in names):
        return typed_partitions(names)
    raise OptionError(
        "the table does not state the types of its partition fields",
        option=PATH_FIELDS,
        hint="pass them with their types, as in `city:SIMPLE,day:TIMESTAMP`",
    )


def _settings(properties: Mapping[str, str], options: Options) -> TimestampSettings:
    """The settings of properties and options.  Raises OptionError where they disagree."""
    stored = {name: text for name, text in properties.items() if name.startswith(_STORED)}
    configured = asdict(parse_options(stored).keygen)
    passed = asdict(options.keygen)
    for field, value in passed.items():
        if value is not None and configured[field] not in (None, value):
            raise OptionError(
                "option conflicts with the table's configuration",
                option=_TIMEBASED + _NAMES[field],
                value=value,
                table=configured[field],
            )
    return TimestampSettings(
        **{f: configured[f] if value is None else value for f, value in passed.items()}
    )
