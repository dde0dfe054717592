"""Support for each property that hoodie.properties may contain.

The list is closed: it has every property of `HoodieTableConfig` of Apache Hudi 1.2.0 and the
properties of earlier releases.  A property that is not in it may change the meaning of files, so
a table with one is read, but not written.  Names that are options of a writer are no properties:
they are refused where they would change keys, paths or values, and have no effect otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyhudi.errors import UnsupportedTableError
from pyhudi.filenames import PROPERTIES
from pyhudi.options.option_row import Fate, Row
from pyhudi.options.parse import row_of
from pyhudi.table.properties import SLASHES, KeyGeneratorKind, TableConfig

MERGE_PROPERTIES: Final = "hoodie.record.merge.property."
"""Begins the names of properties of merging, which are honoured."""
_EXTRACTOR: Final = "hoodie.table.partition_extractor_class"
_DEFINITIONS: Final = ("request.", "table.", "keygen.", "read.merging.")
"""Options that define a table, by the field that gets their value."""
_SLASHED: Final = frozenset({KeyGeneratorKind.SIMPLE, KeyGeneratorKind.COMPLEX})
_OLD_TIMES: Final = tuple(
    f"hoodie.deltastreamer.keygen.timebased.{setting}"
    for setting in (
        "input.dateformat", "input.dateformat.list.delimiter.regex", "input.timezone",
        "output.dateformat", "output.timezone", "timestamp.scalar.time.unit", "timestamp.type",
        "timezone",
    )
)  # fmt: skip
"""Settings of the timestamp key generator as releases before 0.13 store them."""


class Support(Enum):
    """Support for a property."""

    HONOURED = "honoured"
    WITHOUT_EFFECT = "without effect"
    LIMITED = "a table with another value is not written"


@dataclass(frozen=True, slots=True)
class StoredProperty:
    """One property.  note: why it has no effect, or why other values are refused.

    allowed: the values of a limited property, in lower case; a missing or empty value is allowed.
    """

    name: str
    support: Support
    note: str = ""
    allowed: tuple[str, ...] = ()


def _honoured(*names: str) -> tuple[StoredProperty, ...]:
    return tuple(StoredProperty(name, Support.HONOURED) for name in names)


def _without_effect(note: str, *names: str) -> tuple[StoredProperty, ...]:
    return tuple(StoredProperty(name, Support.WITHOUT_EFFECT, note) for name in names)


def _limited(name: str, note: str, *allowed: str) -> StoredProperty:
    return StoredProperty(name, Support.LIMITED, note, allowed)


_ROWS: Final = (
    *_honoured(
        "hoodie.archivelog.folder",
        "hoodie.bootstrap.base.path",
        "hoodie.bucket.index.hash.field",
        "hoodie.bucket.index.num.buckets",
        "hoodie.compaction.payload.class",
        "hoodie.compaction.record.merger.strategy",
        "hoodie.database.name",
        "hoodie.datasource.write.hive_style_partitioning",
        "hoodie.datasource.write.partitionpath.field",
        "hoodie.datasource.write.partitionpath.urlencode",
        SLASHES,
        *_OLD_TIMES,
        "hoodie.index.bucket.engine",
        "hoodie.index.type",
        "hoodie.keygen.timebased.input.dateformat",
        "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex",
        "hoodie.keygen.timebased.input.timezone",
        "hoodie.keygen.timebased.output.dateformat",
        "hoodie.keygen.timebased.output.timezone",
        "hoodie.keygen.timebased.timestamp.scalar.time.unit",
        "hoodie.keygen.timebased.timestamp.type",
        "hoodie.keygen.timebased.timezone",
        "hoodie.record.merge.mode",
        "hoodie.record.merge.strategy.id",
        "hoodie.table.cdc.enabled",
        "hoodie.table.cdc.supplemental.logging.mode",
        "hoodie.table.checksum",
        "hoodie.table.create.schema",
        "hoodie.table.index.defs.path",
        "hoodie.table.keygenerator.class",
        "hoodie.table.keygenerator.type",
        "hoodie.table.legacy.payload.class",
        "hoodie.table.metadata.partitions",
        "hoodie.table.metadata.partitions.inflight",
        "hoodie.table.name",
        "hoodie.table.ordering.fields",
        "hoodie.table.partial.update.mode",
        "hoodie.table.partition.fields",
        "hoodie.table.precombine.field",
        "hoodie.table.recordkey.fields",
        "hoodie.table.timeline.timezone",
        "hoodie.table.type",
        "hoodie.table.version",
        "hoodie.timeline.layout.version",
    ),
    *_without_effect(
        "a note of the release that created the table", "hoodie.table.initial.version"
    ),
    *_without_effect(
        "a sync uses hoodie.datasource.hive_sync.partition_extractor_class, and reads take the "
        "values as the key generator writes them",
        _EXTRACTOR,
    ),
    *_without_effect(
        "bootstrapped tables are read only, by their HFile index",
        "hoodie.bootstrap.index.class",
        "hoodie.bootstrap.index.enable",
        "hoodie.bootstrap.index.type",
    ),
    *_without_effect(
        "indexes are defined by their definition file", "hoodie.table.secondary.indexes.metadata"
    ),
    _limited("hoodie.populate.meta.fields", "a table without meta columns cannot be written",
             "true"),
    _limited("hoodie.datasource.write.drop.partition.columns",
             "a table that drops partition columns cannot be written", "false"),
    _limited("hoodie.partition.metafile.use.base.format",
             "writing partition metafiles in Parquet is not supported", "false"),
    _limited("hoodie.table.base.file.format", "base files are written as Parquet", "parquet"),
    _limited("hoodie.table.ro.file.format", "base files are written as Parquet", "parquet"),
    _limited("hoodie.table.log.file.format", "log files have the format of Apache Hudi",
             "hoodie_log"),
    _limited("hoodie.table.rt.file.format", "log files have the format of Apache Hudi",
             "hoodie_log"),
    _limited("hoodie.table.multiple.base.file.formats.enable",
             "base files are written as Parquet", "false"),
    _limited("hoodie.table.format", "tables of other formats are not supported", "native"),
    _limited("hoodie.timeline.path", "the folders of the timeline are fixed", "timeline"),
    _limited("hoodie.timeline.history.path", "the folders of the timeline are fixed", "history"),
    _limited("hoodie.keygen.datetime.parser.class", "times are parsed as Apache Hudi parses them",
             "org.apache.hudi.keygen.parser.hoodiedatetimeparser"),
)  # fmt: skip

STORED: Final[Mapping[str, StoredProperty]] = {row.name: row for row in _ROWS}


def check_writable_properties(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a property that a writer would have to follow and this
    package does not."""
    for name, value in config.properties.items():
        row = STORED.get(name)
        if row is not None:
            if value.strip() and row.allowed and value.strip().lower() not in row.allowed:
                raise _refusal(row.note, name, value, f"supported: {', '.join(row.allowed)}")
        elif name.startswith("hoodie.") and not name.startswith(MERGE_PROPERTIES):
            why = _why_refused(config, name, value)
            if why:
                raise _refusal(why, name, value, _HINT)
    _check_slashes(config)


_HINT: Final = f"write it with Apache Hudi; or remove the property from {PROPERTIES}, if no writer \
has followed it"


def without_effect(config: TableConfig) -> Iterator[tuple[str, str]]:
    """Names of properties of `hoodie.*` that are options of a writer, each with its value."""
    for name, value in config.properties.items():
        is_known = name in STORED or name.startswith(MERGE_PROPERTIES)
        if name.startswith("hoodie.") and not is_known and not _why_refused(config, name, value):
            yield name, value


def hints_at_slashes(config: TableConfig) -> str | None:
    """The extractor of partition values, if it alone says that slashes separate parts of a date
    in the paths of the partitions."""
    extractor = config.properties.get(_EXTRACTOR, "").strip()
    is_hint = extractor.rsplit(".", 1)[-1].startswith("SlashEncoded")
    is_from_path = config.key_generator in _SLASHED and len(config.partition_fields) == 1
    return extractor if is_hint and is_from_path and not config.has_slashes else None


def _why_refused(config: TableConfig, name: str, value: str) -> str:
    """Why a table with a property that is not in the list is not written; empty if it is."""
    option = row_of(name)
    if option is None:
        return "the table has a property that is not known"
    if option.fate is Fate.REFUSED:
        is_harmless = value.strip().lower() in (text.lower() for text in option.harmless)
        return "" if is_harmless else option.note
    if (option.to or "").startswith(_DEFINITIONS) and not _is_stated(config, option, value):
        return "the table has an option of a writer as a property that contradicts its definition"
    return ""


def _is_stated(config: TableConfig, option: Row, value: str) -> bool:
    """Whether a property of the table has the same value as the option."""
    names = [name for name in (option.name, *option.aliases) if name in STORED]
    return any(config.properties.get(name, "").strip() == value.strip() for name in names)


def _check_slashes(config: TableConfig) -> None:
    """Apache Hudi's writers differ on the paths of these tables: one replaces the dashes of each
    value, another those of the whole path, the third none."""
    if not config.has_slashes or not config.partition_fields or can_have_slashes(config):
        return
    raise _refusal(
        "dates are separated by slashes in partitions of one column only, whose names have no "
        "column name",
        SLASHES,
        "true",
        "write it with Apache Hudi",
    )


def can_have_slashes(config: TableConfig) -> bool:
    """Whether all writers make the same paths of dates that slashes separate."""
    is_plain = config.key_generator in _SLASHED and not config.hive_style
    return is_plain and len(config.partition_fields) == 1


def _refusal(why: str, name: str, value: str, hint: str) -> UnsupportedTableError:
    return UnsupportedTableError(why, property=name, found=value, hint=hint)
