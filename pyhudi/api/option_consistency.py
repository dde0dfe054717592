"""Options that describe a table or a read, held against what the call and the table say.

Doors without arguments (a Spark data source) build their request from these options.  Doors with
arguments take them too, so that one set of options serves both, as long as nothing differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyhudi.errors import OptionError
from pyhudi.merge.merge_rules import MergeFunction, python_function
from pyhudi.merge.payload_classes import function_name
from pyhudi.options import Options, QueryRequest
from pyhudi.table.cdc_properties import CDC_MODE, cdc_mode
from pyhudi.table.properties import TableConfig

_KEY_FIELDS = "hoodie.datasource.write.recordkey.field"
_PARTITIONS = "hoodie.datasource.write.partitionpath.field"


def agreed(options: Options, config: TableConfig) -> Options:
    """The options for a table that is there, without what only repeats its properties.

    Raises OptionError where an option says something else than the table, or describes one read.
    """
    request = options.request
    _same("hoodie.table.name", request.name, config.name)
    _same("hoodie.datasource.write.table.type", request.table_type, config.table_type.value)
    _same(_KEY_FIELDS, request.record_key or None, config.record_key_fields)
    if request.partition_by is not None:
        names = tuple(name.split(":")[0] for name in request.partition_by)
        _same(_PARTITIONS, names, config.partition_fields)
    _same("hoodie.table.ordering.fields", request.ordering or None, config.ordering_fields)
    payload = (options.table.payload_class or "").rsplit(".", 1)[-1]
    _same("hoodie.datasource.write.payload.class", payload or None, config.payload_class)
    said = options.table
    _same("hoodie.datasource.write.hive_style_partitioning", said.hive_style, config.hive_style)
    _same("hoodie.datasource.write.partitionpath.urlencode", said.url_encoded, config.url_encoded)
    _same("hoodie.table.timeline.timezone", said.timezone, config.timezone)
    _same("hoodie.table.cdc.enabled", said.cdc, config.cdc_enabled)
    mode = cdc_mode(config)
    _same(CDC_MODE, said.cdc_mode, mode.value if mode else None)
    _same("hoodie.database.name", said.database or None, config.database)
    _same("hoodie.record.merge.mode", options.table.merge_mode, config.merge_mode.value)
    kind = request.key_generator
    if kind != "GLOBAL_DELETE":  # what it asks of a delete holds anyway
        _same("hoodie.datasource.write.keygenerator.type", kind, config.key_generator.value)
    if options.query != QueryRequest(query_type=options.query.query_type):
        raise _of_a_read("as.of.instant and the instants of a read")
    if options.query.query_type not in (None, "snapshot"):
        raise _of_a_read("hoodie.datasource.query.type")
    if request.operation is not None:
        ignored = (*options.ignored, "hoodie.datasource.write.operation (the verb says it)")
        return replace(options, ignored=ignored)
    return options


def with_merge(options: Options, function: MergeFunction | None) -> Options:
    """The options, with a function to merge records by."""
    if function is None:
        return options
    merging = replace(options.read.merging, function=function)
    return replace(options, read=replace(options.read, merging=merging))


def check_function(function: MergeFunction | None, config: TableConfig) -> None:
    """Raise OptionError for a merge function that is not the table's."""
    if function is None:
        return
    held = python_function(config)
    if held != function_name(function):
        raise OptionError(
            "the table's records are not merged by this function", merge=function_name(function),
            table=held or config.payload_class, hint="leave merge= out" if held is None else None,
        )  # fmt: skip


def _of_a_read(option: str) -> OptionError:
    return OptionError(
        "the option belongs to one read", option=option,
        hint="pass as_of, mode or since to scan() or changes()",
    )  # fmt: skip


def _same(option: str, said: object, held: object) -> None:
    if said is not None and said != held:
        raise OptionError(
            "the option says something else than the table", option=option, value=_text(said),
            table=_text(held), hint="leave the option out",
        )  # fmt: skip


def _text(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(str(item) for item in value) or "nothing"
    return str(value)
