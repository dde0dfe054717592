"""Option names of an ingest: those of Apache Hudi's streamer, its sources, schemas and transforms.

Each name `hoodie.streamer.X` has the alias `hoodie.deltastreamer.X`.
"""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, of_ingest
from pyhudi.options.value_types import (
    BYTES,
    FLAG,
    NAMES,
    TEXT,
    Value,
    count,
    duration,
    number,
    words,
)

STREAMER_PREFIX: Final = "hoodie.streamer."
OLD_STREAMER_PREFIX: Final = "hoodie.deltastreamer."


def _name(suffix: str) -> tuple[str, tuple[str, ...]]:
    return STREAMER_PREFIX + suffix, (OLD_STREAMER_PREFIX + suffix,)


def _row(suffix: str, value: Value, note: str) -> Row:
    name, aliases = _name(suffix)
    return of_ingest(name, value, note, aliases=aliases)


def _rows(value: Value, note: str, *suffixes: str) -> tuple[Row, ...]:
    return tuple(_row(suffix, value, note) for suffix in suffixes)


_KAFKA: Final = "source.kafka."
_DFS: Final = "source.dfs."
_INCR: Final = "source.hoodieincr."
_CLOUD: Final = "source.cloud."
_S3: Final = "s3.source.queue."
_S3INCR: Final = "source.s3incr."
_SCHEMA: Final = "schemaprovider."

ROWS: Final[tuple[Row, ...]] = (
    # the run
    _row("transformer.class", TEXT, "as `--transformer-class`"),
    _row("transformer.sql", TEXT, "the query of SqlQueryBasedTransformer; `<SRC>` is the batch"),
    _row("transformer.sql.file", TEXT, "the file of SqlFileBasedTransformer with one query"),
    _row("source.json.skip.invalid.records", FLAG, "true skips bad rows of every format"),
    _row("checkpoint.force.skip", FLAG, "true: commits do not have a checkpoint; for backfills"),
    _row("ingestion.targetBasePath", TEXT, "as `--target-base-path`"),
    # files
    *_rows(TEXT, "the folder of a file source", _DFS + "root"),
    *_rows(NAMES, "prefixes of file names that are ignored", _DFS + "ignore.prefixes"),
    _row("source.input.selector", words("org.apache.hudi.utilities.sources.helpers.DFSPathSelector",
         "DFSPathSelector"), "by modification time"),
    _row("csv.sep", TEXT, "separator of CSV files"),
    _row("csv.header", FLAG, "whether the first line of CSV files has the names"),
    *_rows(TEXT, "the same as `csv.sep`", "csv.delimiter"),
    _row("csv.quote", TEXT, "the quote of CSV values; empty: none"),
    _row("csv.escape", TEXT, "a character before quotes in CSV values, besides a second quote"),
    _row("csv.comment", TEXT, "the first character of lines of CSV files that are left out"),
    _row("csv.nullValue", TEXT, "text of CSV values that is null, besides nothing without quotes"),
    _row("csv.emptyValue", TEXT, "what a CSV value of two quotes is; default: an empty text"),
    *_rows(TEXT, "the encoding of CSV files; default: UTF-8", "csv.encoding", "csv.charset"),
    _row("csv.multiLine", FLAG, "whether CSV values in quotes may have line breaks; default: true"),
    _row("csv.ignoreLeadingWhiteSpace", FLAG, "true: no space before CSV values without quotes"),
    _row("csv.ignoreTrailingWhiteSpace", FLAG, "true: no space after CSV values without quotes"),
    # Kafka
    *_rows(TEXT, "the topic", _KAFKA + "topic"),
    *_rows(words("string", "timestamp", "single_offset"), "form of `--checkpoint`: "
           "topic,partition:offset,...; milliseconds since 1970; or the offset of the only "
           "partition", _KAFKA + "checkpoint.type"),
    *_rows(FLAG, "adds the columns _hoodie_kafka_source_offset, _partition and _timestamp",
           _KAFKA + "append.offsets"),
    *_rows(FLAG, "true fails if offsets have expired; false reads from the earliest",
           _KAFKA + "enable.failOnDataLoss"),
    *_rows(FLAG, "true commits the offsets to group.id, which false only names; "
           "default: true if group.id is stated",
           _KAFKA + "enable.commit.offset"),
    _row("kafka.source.maxEvents", count(1, 2**62), "records of a batch at most"),
    *_rows(TEXT, "the Avro schema of the values", _KAFKA + "value.deserializer.schema"),
    *_rows(TEXT, "KafkaAvroDeserializer and KafkaAvroSchemaDeserializer: Avro with a registry; "
           "ByteArrayDeserializer: Avro with a schema file; KafkaJsonSchemaDeserializer: JSON "
           "Schema with a registry", _KAFKA + "value.deserializer.class"),
    *_rows(TEXT, "KafkaProtobufDeserializer: Protobuf with a registry; ByteArrayDeserializer: "
           "with pyhudi.ingest.proto.descriptors", _KAFKA + "proto.value.deserializer.class"),
    *_rows(duration("ms"), "of the broker's first answer", _KAFKA + "fetch_partition.time.out"),
    # tables of Apache Hudi
    *_rows(TEXT, "the path of the table that is read", _INCR + "path"),
    *_rows(count(1), "commits of a batch at most", _INCR + "num_instants"),
    *_rows(FLAG, "true: without a checkpoint, only the newest commit is read",
           _INCR + "read_latest_on_missing_ckpt"),
    *_rows(words("READ_LATEST", "READ_UPTO_LATEST_COMMIT"), "without a checkpoint",
           _INCR + "missing.checkpoint.strategy"),
    *_rows(FLAG, "meta columns are never written",
           _INCR + "drop.all.meta.fields.from.source"),
    *_rows(TEXT, "the format of files that a table of events names", _INCR + "file.format"),
    # databases
    *_rows(TEXT, "a URL of JDBC or SQLAlchemy", "jdbc.url"),
    *_rows(TEXT, "credentials of the database", "jdbc.user", "jdbc.password", "jdbc.password.file"),
    _row("jdbc.table.name", TEXT, "the table of the database"),
    _row("jdbc.table.incr.column.name", TEXT, "the column by which new rows are found"),
    _row("jdbc.incr.pull", FLAG, "true reads new rows only"),
    _row("jdbc.incr.fallback.to.full.fetch", FLAG, "true reads all rows after an error"),
    _row("source.sql.sql.query", TEXT, "a query of the database, where a source of it is used"),
    # cloud stores
    *_rows(TEXT, "URL of the queue of S3 events", _S3 + "url"),
    *_rows(TEXT, "region of the queue; default: that of its URL", _S3 + "region"),
    *_rows(TEXT, "s3, s3a or s3n", _S3 + "fs", _S3INCR + "fs.prefix"),
    *_rows(count(0, 20), "seconds to wait for a message; default 1", _S3 + "long.poll.wait"),
    *_rows(count(1), "messages of a batch at most; default 1000", _S3 + "max.messages.per.batch"),
    *_rows(count(1, 10), "a request receives as many as the batch lacks, at most 10",
           _S3 + "max.messages.per.request"),
    *_rows(count(0, 43_200), "seconds for which received messages are hidden; default: as the "
           "queue says", _S3 + "visibility.timeout"),
    *_rows(TEXT, "only objects whose keys begin with it",
           _CLOUD + "data.select.relpath.prefix", _S3INCR + "key.prefix"),
    *_rows(TEXT, "no objects whose keys begin with it",
           _CLOUD + "data.ignore.relpath.prefix", _S3INCR + "ignore.key.prefix"),
    *_rows(TEXT, "no objects whose keys contain it",
           _CLOUD + "data.ignore.relpath.substring", _S3INCR + "ignore.key.substring"),
    *_rows(TEXT, "only objects whose keys end with it", _CLOUD + "data.select.file.extension"),
    *_rows(words("parquet", "arrow", "avro", "orc", "csv", "json"),
           "format of the objects; default: by their suffixes", _CLOUD + "data.datafile.format"),
    *_rows(FLAG, "true leaves out objects that no longer exist, with a warning; false: an error",
           _CLOUD + "data.check.file.exists", _S3INCR + "check.file.exists"),
    # schemas
    *_rows(TEXT, "a file with the Avro schema of the rows", _SCHEMA + "source.schema.file"),
    *_rows(TEXT, "a file with the Avro schema of a new table", _SCHEMA + "target.schema.file"),
    *_rows(TEXT, "URL of a registry, or of a schema in it", _SCHEMA + "registry.url",
           _SCHEMA + "registry.baseUrl", _SCHEMA + "registry.urlSuffix",
           _SCHEMA + "registry.targetUrl", _SCHEMA + "registry.sourceUrlSuffix",
           _SCHEMA + "registry.targetUrlSuffix"),
    *_rows(TEXT, "a message of pyhudi.ingest.proto.descriptors, or its Java class",
           _SCHEMA + "proto.class.name"),
    *_rows(FLAG, "true: google.protobuf.Int64Value and others are structs",
           _SCHEMA + "proto.flatten.wrappers"),
    *_rows(FLAG, "true: google.protobuf.Timestamp is a struct",
           _SCHEMA + "proto.timestamps.as.records"),
    *_rows(count(1, 32), "levels of a recursive message; default 5",
           _SCHEMA + "proto.max.recursion.depth"),
    # names of pyhudi
    of_ingest("pyhudi.ingest.files.pattern", TEXT, "a glob of names, or of paths, of files"),
    of_ingest("pyhudi.ingest.files.order", words("time", "name"), "order of files; default time"),
    of_ingest("pyhudi.ingest.files.quiet.seconds", number(0, 1e9),
              "files that are younger are left for later; default 2"),
    of_ingest("pyhudi.ingest.files.late.seconds", number(0, 1e9),
              "files that appear with a time this long before the checkpoint are read; default 0"),
    of_ingest("pyhudi.ingest.postgres.publication", TEXT, "the publication with the table"),
    of_ingest("pyhudi.ingest.postgres.slot", TEXT, "the replication slot of this ingest alone"),
    of_ingest("pyhudi.ingest.postgres.snapshot", FLAG,
              "whether the first batch is the present rows; default true"),
    of_ingest("pyhudi.ingest.postgres.truncate", words("fail", "ignore"),
              "what a truncated table does; default fail"),
    of_ingest("pyhudi.ingest.proto.descriptors", TEXT,
              "a set of descriptors of Protobuf: protoc --descriptor_set_out --include_imports"),
    of_ingest("pyhudi.ingest.max.bytes", BYTES, "bytes of the source in a batch; default 1gb"),
    of_ingest("pyhudi.ingest.max.seconds", number(0.001, 1e9),
              "seconds for reading a batch; default: no limit"),
    of_ingest("pyhudi.ingest.bad.rows", TEXT, "fail, skip, or the path of an error table"),
    of_ingest("pyhudi.ingest.bad.rows.max", count(), "bad rows of a batch at most"),
    of_ingest("pyhudi.ingest.bad.rows.share.max", TEXT, "share of bad rows of a batch, 0 to 1"),
)  # fmt: skip
