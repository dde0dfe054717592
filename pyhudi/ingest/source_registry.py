"""Sources by name, made from properties: those of this package, and entry points of others.

An installed package adds a source with an entry point of the group `pyhudi.sources`: its name, and
a function that takes the properties and returns a RowSource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from pyhudi.errors import OptionError
from pyhudi.ingest.files.csv_rows import CsvDialect
from pyhudi.ingest.source import RowSource

GROUP: Final = "pyhudi.sources"

_WITHOUT_PREFIX: Final = ("pyhudi.", "bootstrap.", "group.", "schema.registry.")

SourceFactory = Callable[[Mapping[str, str]], RowSource]
"""Makes a source from properties.

Names of Apache Hudi's streamer come without their prefix `hoodie.streamer.` (or
`hoodie.deltastreamer.`): `source.dfs.root`, `source.kafka.topic`.  Other names that do not begin
with `hoodie.` are for the client of the source: `bootstrap.servers`, `auto.offset.reset`,
`schema.registry.url`.  `format` is the format of the rows and `envelope` that of changes, as the
class of the source implies.  A factory raises OptionError for a property that it needs.
"""

_BUILT_IN: Final[Mapping[str, str]] = {
    "query": "pyhudi.ingest.source_factories:query_from",
    "table": "pyhudi.ingest.source_factories:table_from",
    "files": "pyhudi.ingest.source_registry:files_from",
    "postgres-changes": "pyhudi.ingest.source_factories:postgres_changes_from",
    "s3-events": "pyhudi.ingest.source_factories:s3_events_from",
    "kafka": "pyhudi.ingest.kafka.kafka_properties:kafka_from",
}


def source_from(name: str, properties: Mapping[str, str]) -> RowSource:
    """The source with this name, made from properties.

    name: one of `source_names()`, or `module:function`.
    Raises OptionError for an unknown name, and for properties that are missing or invalid.
    """
    return _factory(name)(properties)


def source_names() -> list[str]:
    """The names of all sources, sorted."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def needed(properties: Mapping[str, str], name: str, *, of: str) -> str:
    """A property.  of: the source that needs it.  Raises OptionError if it is missing or empty."""
    value = properties.get(name, "").strip()
    if not value:
        is_whole = name.startswith(_WITHOUT_PREFIX)
        raise OptionError(
            f"the source {of} needs a property",
            option=name if is_whole else f"hoodie.streamer.{name}",
            hint="state it in --props or --hoodie-conf",
        )
    return value


_SEPARATORS: Final = {r"\t": "\t", r"\\": "\\"}
"""Separators that Spark's reader has escapes for."""


def csv_dialect(properties: Mapping[str, str]) -> CsvDialect:
    """The names `csv.*`."""

    def flag(name: str, default: str) -> bool:
        return properties.get("csv." + name, default).strip().lower() == "true"

    separator = properties.get("csv.sep", properties.get("csv.delimiter", ","))
    return CsvDialect(
        delimiter=_SEPARATORS.get(separator, separator),
        header=flag("header", "true"),
        quote=properties.get("csv.quote", '"'),
        escape=properties.get("csv.escape") or None,
        comment=properties.get("csv.comment") or None,
        null_value=properties.get("csv.nullValue"),
        empty_value=properties.get("csv.emptyValue", ""),
        encoding=properties.get("csv.encoding") or properties.get("csv.charset") or "utf-8",
        multi_line=flag("multiLine", "true"),
        trims_left=flag("ignoreLeadingWhiteSpace", "false"),
        trims_right=flag("ignoreTrailingWhiteSpace", "false"),
    )


def files_from(properties: Mapping[str, str]) -> RowSource:
    """The source `files`: `source.dfs.root`, and the other names of files in docs/options.md."""
    from pyhudi.ingest import FileSource

    own = "pyhudi.ingest.files."
    prefixes = properties.get("source.dfs.ignore.prefixes", "").split(",")
    return FileSource(
        needed(properties, "source.dfs.root", of="files"),
        format=properties.get("format"),
        pattern=properties.get(own + "pattern", "*"),
        ignored=(".", "_", *(p.strip() for p in prefixes if p.strip())),
        order=properties.get(own + "order", "time"),
        quiet_seconds=float(properties.get(own + "quiet.seconds", "2")),
        late_seconds=float(properties.get(own + "late.seconds", "0")),
        csv=csv_dialect(properties),
    )


def _factory(name: str) -> SourceFactory:
    place = _BUILT_IN.get(name, name)
    if name not in _BUILT_IN:
        for point in entry_points(group=GROUP, name=name):
            made: SourceFactory = point.load()
            return made
    module, separator, function = place.partition(":")
    if not separator:
        raise OptionError(
            "unknown source",
            source=name,
            hint="use " + ", ".join(source_names()) + ", or module:function",
        )
    try:
        found: Any = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError("the source cannot be imported", source=name, reason=str(error)) from None
    factory: SourceFactory = found
    return factory
