"""Option names of a table's definition: name, type, keys, partitions, properties."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured
from pyhudi.options.settings import DEFAULT_TABLE_VERSION
from pyhudi.options.value_types import FLAG, NAMES, TEXT, choice, class_name, only, words

_OPERATIONS: Final = ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite",
                      "insert_overwrite_table", "delete_partition")  # fmt: skip
_KINDS: Final = ("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM", "GLOBAL_DELETE")
_CLASSES: Final = {
    "SIMPLE": "Simple",
    "COMPLEX": "Complex",
    "NON_PARTITION": "Nonpartitioned",
    "TIMESTAMP": "TimestampBased",
    "CUSTOM": "Custom",
    "GLOBAL_DELETE": "GlobalDelete",
}
_GENERATORS: Final = {
    f"{start}{avro}KeyGenerator": kind for kind, start in _CLASSES.items() for avro in ("", "Avro")
}
_PARSER: Final = {"HoodieDateTimeParser": "HoodieDateTimeParser"}

ROWS: Final[tuple[Row, ...]] = (
    honoured(
        "hoodie.table.name", TEXT, "request.name",
        aliases=("hoodie.datasource.write.table.name",),
    ),
    honoured(
        "hoodie.datasource.write.table.type", words("COPY_ON_WRITE", "MERGE_ON_READ"),
        "request.table_type",
        aliases=("hoodie.datasource.write.storage.type", "hoodie.table.type"),
    ),
    honoured("hoodie.datasource.write.operation", words(*_OPERATIONS), "request.operation"),
    honoured(
        "hoodie.datasource.write.recordkey.field", NAMES, "request.record_key",
        aliases=("hoodie.table.recordkey.fields",),
    ),
    honoured(
        "hoodie.datasource.write.partitionpath.field", NAMES, "request.partition_by",
        "`field:simple,other:timestamp` for the custom key generator",
        aliases=("hoodie.table.partition.fields",),
    ),
    honoured(
        "hoodie.table.ordering.fields", NAMES, "request.ordering",
        aliases=(
            "hoodie.table.precombine.field", "hoodie.datasource.write.precombine.field",
            "hoodie.payload.ordering.field",
        ),
    ),
    honoured(
        "hoodie.datasource.write.keygenerator.class",
        class_name(
            _GENERATORS,
            allowed="Simple, Complex, Nonpartitioned, TimestampBased, Custom or GlobalDelete, "
            "each followed by KeyGenerator; pass a custom function as an argument",
        ),
        "request.key_generator",
        aliases=("hoodie.table.keygenerator.class",),
    ),
    honoured(
        "hoodie.datasource.write.keygenerator.type", words(*_KINDS), "request.key_generator",
        aliases=("hoodie.table.keygenerator.type",),
    ),
    honoured("hoodie.datasource.write.hive_style_partitioning", FLAG, "table.hive_style"),
    honoured("hoodie.datasource.write.partitionpath.urlencode", FLAG, "table.url_encoded"),
    honoured(
        "hoodie.table.timeline.timezone", words("UTC", "LOCAL"), "table.timezone",
        "default: UTC for new tables",
    ),
    honoured(
        "hoodie.write.table.version",
        choice({"6": 6, "SIX": 6, "8": 8, "EIGHT": 8, "9": 9, "NINE": 9}), "table.version",
        f"of a new table, default {DEFAULT_TABLE_VERSION}; a table of a higher version keeps it, "
        "one of a lower version needs `table.upgrade()` or `hoodie.write.auto.upgrade`",
        aliases=("hoodie.table.version",),
    ),
    honoured(
        "hoodie.timeline.layout.version", choice({"1": 1, "2": 2}), "table.timeline_layout",
        "must be that of the table version",
    ),
    honoured(
        "hoodie.write.auto.upgrade", FLAG, "table.auto_upgrade",
        "default false; true: a write upgrades a table of a lower version to "
        "`hoodie.write.table.version`, if that is set, and its report says so",
    ),
    honoured(
        "hoodie.skip.default.partition.validation", FLAG, "table.default_partition",
        "default false; true: a table before version 5 with a partition `default` is upgraded, and "
        "its rows stay there",
    ),
    honoured("hoodie.base.file.format", only("PARQUET"), None, aliases=(
        "hoodie.table.base.file.format", "hoodie.table.ro.file.format",
    )),
    honoured(
        "hoodie.table.log.file.format", only("HOODIE_LOG"), None,
        aliases=("hoodie.table.rt.file.format",),
    ),
    honoured("hoodie.table.format", only("native"), None),
    honoured("hoodie.archivelog.folder", only("archived", "history"), None),
    honoured("hoodie.database.name", TEXT, "table.database"),
    honoured(
        "hoodie.keygen.timebased.timestamp.type",
        words(
            "UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "SCALAR", "DATE_STRING",
            "MIXED",
        ),
        "keygen.timestamp_type",
        aliases=("hoodie.deltastreamer.keygen.timebased.timestamp.type",),
    ),
    honoured(
        "hoodie.keygen.timebased.input.dateformat", TEXT, "keygen.input_formats",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.dateformat",),
    ),
    honoured(
        "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex", TEXT,
        "keygen.input_delimiter",
        aliases=(
            "hoodie.deltastreamer.keygen.timebased.input.dateformat.list.delimiter.regex",
        ),
    ),
    honoured(
        "hoodie.keygen.timebased.output.dateformat", TEXT, "keygen.output_format",
        aliases=("hoodie.deltastreamer.keygen.timebased.output.dateformat",),
    ),
    honoured(
        "hoodie.keygen.timebased.timestamp.scalar.time.unit",
        words("DAYS", "HOURS", "MINUTES", "SECONDS", "MILLISECONDS", "MICROSECONDS",
              "NANOSECONDS"),
        "keygen.scalar_unit",
        aliases=("hoodie.deltastreamer.keygen.timebased.timestamp.scalar.time.unit",),
    ),
    honoured(
        "hoodie.keygen.timebased.timezone", TEXT, "keygen.timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.timezone",),
    ),
    honoured(
        "hoodie.keygen.timebased.input.timezone", TEXT, "keygen.input_timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.timezone",),
    ),
    honoured(
        "hoodie.keygen.timebased.output.timezone", TEXT, "keygen.output_timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.output.timezone",),
    ),
    honoured(
        "hoodie.keygen.datetime.parser.class",
        class_name(_PARSER, allowed="HoodieDateTimeParser"), None,
        aliases=("hoodie.deltastreamer.keygen.datetime.parser.class",),
    ),
    honoured(
        "hoodie.write.complex.keygen.new.encoding", FLAG, "table.bare_complex_keys",
        "complex key generator with one key field: values only; existing rows decide",
    ),
    honoured(
        "hoodie.datasource.write.slash.separated.date.partitioning", FLAG, "table.slashes",
        "one partition column, without hive style: `2026/11/21` is the path of `2026-11-21`",
    ),
    honoured("hoodie.table.cdc.enabled", FLAG, "table.cdc", "for new tables"),
    honoured(
        "hoodie.table.cdc.supplemental.logging.mode",
        words("DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"), "table.cdc_mode",
        "for new tables",
    ),
)  # fmt: skip
