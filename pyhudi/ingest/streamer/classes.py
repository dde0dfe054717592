"""Classes that Apache Hudi's streamer is configured with, and what does their work here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from pyhudi.errors import OptionError
from pyhudi.ingest.stream import Transform
from pyhudi.ingest.transforms import Flatten, SqlTransform, function_of


@dataclass(frozen=True, slots=True)
class SourceClass:
    """A source of this package that does the work of a class.

    name: for `source_from`.  implied: properties that the class implies.  families: prefixes of
    properties that are for this source only.  limit_is_rows: what `--source-limit` counts.
    """

    name: str
    implied: Mapping[str, str] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    limit_is_rows: bool = False


def _files(form: str) -> SourceClass:
    return SourceClass("files", {"format": form}, ("source.dfs.",))


def _kafka(**implied: str) -> SourceClass:
    families = ("source.kafka.", "kafka.source.")
    return SourceClass("kafka", implied, families, limit_is_rows=True)


_S3_EVENTS: Final = SourceClass(
    "s3-events", {}, ("s3.source.", "source.cloud.", "source.s3incr.", "source.hoodieincr.", "csv.")
)

SOURCES: Final[Mapping[str, SourceClass]] = {
    "ParquetDFSSource": _files("parquet"),
    "JsonDFSSource": _files("json"),
    "CsvDFSSource": SourceClass("files", {"format": "csv"}, ("source.dfs.", "csv.")),
    "AvroDFSSource": _files("avro"),
    "ORCDFSSource": _files("orc"),
    "JsonKafkaSource": _kafka(format="json"),
    "AvroKafkaSource": _kafka(format="avro"),
    "ProtoKafkaSource": _kafka(format="protobuf"),
    "MysqlDebeziumSource": _kafka(format="avro", envelope="debezium"),
    "PostgresDebeziumSource": _kafka(format="avro", envelope="debezium"),
    "DebeziumSource": _kafka(format="avro", envelope="debezium"),
    "HoodieIncrSource": SourceClass("table", {}, ("source.hoodieincr.",)),
    "JdbcSource": SourceClass("query", {}, ("jdbc.",)),
    "PostgresChanges": SourceClass("postgres-changes", {}, ("jdbc.", "pyhudi.ingest.postgres.")),
    "S3EventsSource": _S3_EVENTS,
    "S3EventsHoodieIncrSource": _S3_EVENTS,
}
_OTHER_SOURCES: Final[Mapping[str, str]] = {
    "SqlSource": "JdbcSource for a query of a database, HoodieIncrSource for a table",
    "SqlFileBasedSource": "JdbcSource for a query of a database, HoodieIncrSource for a table",
    "HiveIncrPullSource": "HoodieIncrSource",
    "GcsEventsSource": "a file source on the bucket: gs://",
    "GcsEventsHoodieIncrSource": "a file source on the bucket: gs://",
    "PulsarSource": "Kafka, or a source in Python",
    "JsonKinesisSource": "a source in Python",
    "UnstructuredFileSource": "a source in Python",
}


def source_class(text: str) -> SourceClass:
    """The source for a class of Apache Hudi, or a source by its own name: `kafka`,
    `module:function`.  Raises OptionError for a class whose work no source does."""
    short = text.strip().rpartition(".")[2]
    if ":" not in text and short in SOURCES:
        return SOURCES[short]
    if ":" not in text and short in _OTHER_SOURCES:
        raise OptionError(
            "the source class is not supported",
            source_class=text,
            hint="instead: " + _OTHER_SOURCES[short],
        )
    families = next((known.families for known in SOURCES.values() if known.name == text), ())
    return SourceClass(text.strip(), {}, families, text.strip() == "kafka")


def transforms_of(classes: str | None, properties: Mapping[str, str]) -> tuple[Transform, ...]:
    """The transforms of `--transformer-class`, in order.

    classes: separated by commas.  properties: names without the prefix of the streamer.
    Raises OptionError for unknown classes and missing properties.
    """
    names = [name.strip() for name in (classes or "").split(",") if name.strip()]
    return tuple(_transform(name, properties) for name in names)


def _transform(name: str, properties: Mapping[str, str]) -> Transform:
    if ":" in name:
        return function_of(name)
    match name.rpartition(".")[2]:
        case "SqlQueryBasedTransformer":
            return SqlTransform(_property(properties, "transformer.sql", name))
        case "SqlFileBasedTransformer":
            return SqlTransform(
                _text(_property(properties, "transformer.sql.file", name)).rstrip("; \n")
            )
        case "FlatteningTransformer":
            return Flatten()
        case "AWSDmsTransformer":
            return _with_op
        case _:
            return function_of(name)


def _with_op(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Rows with the column Op: rows of a first load of AWS DMS lack it, and get an empty text."""
    if "Op" in rows.schema.names:
        return rows
    schema = rows.schema.append(pa.field("Op", pa.string()))
    batches = (
        pa.RecordBatch.from_arrays([*b.columns, pa.repeat("", b.num_rows)], schema=schema)
        for b in rows
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


@dataclass(frozen=True, slots=True)
class GivenSchemas:
    """Schemas that properties state.  source: of the rows that are read; target: of a new table."""

    source: pa.Schema | None = None
    target: pa.Schema | None = None


_OF_ROWS: Final = frozenset(
    {"", "RowBasedSchemaProvider", "SchemaRegistryProvider", "NullTargetSchemaRegistryProvider",
     "ProtoClassBasedSchemaProvider"}
)  # fmt: skip
"""Providers whose schemas come with the rows: the source reads the registry or the class."""


def schemas_of(provider: str | None, properties: Mapping[str, str]) -> GivenSchemas:
    """The schemas of `--schemaprovider-class`.  Raises OptionError for an unknown class."""
    from pyhudi.formats.avro_schema import avro_to_arrow

    short = (provider or "").rpartition(".")[2]
    if short == "FilebasedSchemaProvider":
        source = _property(properties, "schemaprovider.source.schema.file", short)
        target = properties.get("schemaprovider.target.schema.file") or source
        return GivenSchemas(avro_to_arrow(_text(source)), avro_to_arrow(_text(target)))
    if short not in _OF_ROWS:
        raise OptionError(
            "the schema provider is not supported",
            schemaprovider_class=provider,
            hint="use FilebasedSchemaProvider, SchemaRegistryProvider or none",
        )
    return GivenSchemas()


def _property(properties: Mapping[str, str], name: str, what: str) -> str:
    value = properties.get(name, "").strip()
    if not value:
        raise OptionError(f"{what} needs a property", option=f"hoodie.streamer.{name}")
    return value


def _text(path: str) -> str:
    try:
        return Path(path.removeprefix("file://")).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("the file cannot be read", path=path, reason=str(error)) from None
