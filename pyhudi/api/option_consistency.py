"""Consistency checks of options against the arguments of a call and the table's configuration.

APIs without arguments (a Spark data source) build their request from options.  APIs with arguments
accept the same options, provided that they do not conflict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyhudi.errors import OptionError, UserError
from pyhudi.keygen.key_generator_config import (
    is_encoding_open,
    stored_partition_types,
    typed_partitions,
)
from pyhudi.merge.merge_rules import MergeFunction, python_function
from pyhudi.merge.payload_classes import STRATEGIES, STRATEGY, function_name
from pyhudi.options import Options, QueryRequest, TimestampSettings
from pyhudi.table.cdc_properties import CDC_MODE, cdc_mode
from pyhudi.table.new_table import CREATABLE_VERSIONS
from pyhudi.table.properties import EVENT_TIME_ID, SLASHES, TableConfig

_KEY_FIELDS = "hoodie.datasource.write.recordkey.field"
_VERSION = "hoodie.write.table.version"
_BARE = "hoodie.write.complex.keygen.new.encoding"
_PARTITIONS = "hoodie.datasource.write.partitionpath.field"


def agreed(options: Options, config: TableConfig) -> Options:
    """The options for an existing table, checked against its configuration.

    Raises OptionError where an option conflicts with the table's configuration or belongs to a
    single read.
    """
    request = options.request
    _same("hoodie.table.name", request.name, config.name)
    _same("hoodie.datasource.write.table.type", request.table_type, config.table_type.value)
    _same(_KEY_FIELDS, request.record_key or None, config.record_key_fields)
    if request.partition_by is not None:
        names = tuple(name.split(":")[0] for name in request.partition_by)
        _same(_PARTITIONS, names, config.partition_fields)
        _check_partition_types(request.partition_by, config)
    _same("hoodie.table.ordering.fields", request.ordering or None, config.ordering_fields)
    payload = (options.table.payload_class or "").rsplit(".", 1)[-1]
    _same("hoodie.datasource.write.payload.class", payload or None, config.payload_class)
    given = options.table
    _same("hoodie.datasource.write.hive_style_partitioning", given.hive_style, config.hive_style)
    _same("hoodie.datasource.write.partitionpath.urlencode", given.url_encoded, config.url_encoded)
    _same(SLASHES, given.slashes, config.has_slashes)
    _same("hoodie.table.timeline.timezone", given.timezone, config.timezone)
    _same("hoodie.timeline.layout.version", given.timeline_layout, config.layout.timeline_version)
    _same("hoodie.table.partial.update.mode", given.partial_update, config.partial_update_mode)
    _same("hoodie.table.cdc.enabled", given.cdc, config.cdc_enabled)
    mode = cdc_mode(config)
    _same(CDC_MODE, given.cdc_mode, mode.value if mode else None)
    _same("hoodie.database.name", given.database or None, config.database)
    _same("hoodie.record.merge.mode", options.table.merge_mode, config.merge_mode.value)
    _check_strategy(given.merge_strategy, config)
    kind = request.key_generator
    if kind != "GLOBAL_DELETE":  # its requirements on deletes always hold
        _same("hoodie.datasource.write.keygenerator.type", kind, config.key_generator.value)
    if options.query != QueryRequest(query_type=options.query.query_type):
        raise _of_a_read("as.of.instant and the instants of a read")
    if options.query.query_type not in (None, "snapshot"):
        raise _of_a_read("hoodie.datasource.query.type")
    ignored = list(_of_higher_version(given.version, config, upgrades=given.auto_upgrade))
    types = stored_partition_types(config)
    if options.keygen != TimestampSettings() and types is not None and not any(types.values()):
        ignored.append("hoodie.keygen.timebased.* (the table has no partitions of timestamps)")
    if given.bare_complex_keys is not None and not is_encoding_open(config):
        ignored.append(f"{_BARE} (only for a complex key generator with one key field)")
    if request.operation is not None:
        ignored.append("hoodie.datasource.write.operation (the method sets it)")
    return replace(options, ignored=(*options.ignored, *ignored)) if ignored else options


def _check_partition_types(given: tuple[str, ...], config: TableConfig) -> None:
    """Raise OptionError for types of partition fields that are not the table's."""
    stored = stored_partition_types(config)
    if stored is not None and any(":" in name for name in given):
        found = typed_partitions(given)
        _same(_PARTITIONS, *(tuple(map(_typed, each.items())) for each in (found, stored)))


def _typed(field: tuple[str, bool]) -> str:
    name, is_time = field
    return f"{name}:{'TIMESTAMP' if is_time else 'SIMPLE'}"


def _check_strategy(given: str | None, config: TableConfig) -> None:
    """Raise OptionError for another merge strategy than the table's.  Before version 8 every table
    has the id of event time."""
    if given is None or (config.version < 8 and given == EVENT_TIME_ID):
        return
    if STRATEGIES.get(given) is not config.merge_mode:
        _same(STRATEGY, given, config.properties.get(STRATEGY) or config.merge_mode.value)


def with_version(options: Options, version: int | None) -> Options:
    """The options with the version of a new table, from the argument or the option.

    Raises UserError for a version that cannot be created, OptionError if the two differ.
    """
    if version is None:
        return options
    if version not in CREATABLE_VERSIONS or isinstance(version, bool):
        raise UserError(
            "unsupported version of a new table",
            version=repr(version)[:80],
            hint=f"use one of {', '.join(map(str, CREATABLE_VERSIONS))}",
        )
    if options.table.version not in (None, version):
        raise OptionError(
            "option conflicts with the argument version",
            option=_VERSION,
            value=options.table.version,
            version=version,
            hint="omit the option",
        )
    return replace(options, table=replace(options.table, version=version))


def _of_higher_version(
    version: int | None, config: TableConfig, *, upgrades: bool
) -> tuple[str, ...]:
    """The note of an option that names a lower version than the table's, which has no effect, as
    in Apache Hudi.  Raises OptionError for a higher version, unless a write upgrades the table."""
    if version is None or version == config.version or (upgrades and version > config.version):
        return ()
    if version > config.version:
        raise OptionError(
            "the table has a lower version, and a write does not upgrade it",
            option=_VERSION,
            value=version,
            table=config.version,
            hint=f"call table.upgrade(to={version}), or set hoodie.write.auto.upgrade=true",
        )
    return (f"{_VERSION} (the table keeps version {config.version}; see table.downgrade())",)


def with_merge(options: Options, function: MergeFunction | None) -> Options:
    """The options with a merge function for records.  Raises UserError for something else."""
    if function is None:
        return options
    if not callable(function):
        raise UserError(
            "merge must be a function",
            given=repr(function)[:80],
            hint="merge=function, of two record batches, old and new",
        )
    merging = replace(options.read.merging, function=function)
    return replace(options, read=replace(options.read, merging=merging))


def check_function(function: MergeFunction | None, config: TableConfig) -> None:
    """Raise OptionError for a merge function that is not the table's."""
    if function is None:
        return
    stored = python_function(config)
    if stored != function_name(function):
        raise OptionError(
            "the table does not use this merge function",
            merge=function_name(function),
            table=stored or config.payload_class,
            hint="omit merge=" if stored is None else None,
        )


def _of_a_read(option: str) -> OptionError:
    return OptionError(
        "the option applies to a single read",
        option=option,
        hint="pass as_of, mode or since to scan() or changes()",
    )


def _same(option: str, given: object, stored: object) -> None:
    if given is not None and given != stored:
        raise OptionError(
            "option conflicts with the table's configuration",
            option=option,
            value=_text(given),
            table=_text(stored),
            hint="omit the option",
        )


def _text(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(str(item) for item in value) or "(none)"
    return str(value)
