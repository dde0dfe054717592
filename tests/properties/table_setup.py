"""The tables that the machine of `table_machine` draws: one of each kind, with random options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import BucketEngine, IndexKind, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("part", pa.string()),
        ("value", pa.int32()),
        ("tags", pa.list_(pa.string())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
EVOLUTIONS = {
    "a wider integer": pa.field("value", pa.int64()),
    "a new column": pa.field("note", pa.string()),
    "a new float": pa.field("ratio", pa.float32()),
    "a wider float": pa.field("ratio", pa.float64()),
    "a new list": pa.field("more", pa.list_(pa.int32())),
    "a list of wider integers": pa.field("more", pa.list_(pa.int64())),
}
"""Columns that later rows have: new ones, and types that hold more values.  In any order, but for
columns that are wider than they were; null now and then."""
NEW = ("note", "ratio", "more")
KEYS = [f"k{i:02d}" for i in range(24)] + ["ключ", "key:with,marks", "\U0001f511"]
PARTITIONS = ["a", "b", "c"]
VERSION = "hoodie.write.table.version"
VERSIONS = [6, 8, 9]
CONSISTENT = BucketEngine.CONSISTENT_HASHING

Row = dict[str, Any]


def evolved(schema: pa.Schema, field: pa.Field) -> pa.Schema:
    """With a column added or, where it is there, its type replaced."""
    at = schema.get_field_index(field.name)
    return schema.append(field) if at < 0 else schema.set(at, field)


def filled(row: Row, schema: pa.Schema) -> Row:
    """The row with values of new columns and types, made from what it has."""
    ts, value = row["ts"], row["value"]
    new = {
        "note": f"{row['id']} {ts}" if ts % 3 else None,
        "ratio": ts / 4 if ts % 2 else None,
        "more": [ts, None] if ts % 4 else None,
    }
    if value is not None and schema.field("value").type == pa.int64():
        value = value * (1 << 33)
    return {**row, "value": value, **{name: new[name] for name in NEW if name in schema.names}}


rows: st.SearchStrategy[list[Row]] = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(KEYS),
            "ts": st.integers(0, 6),
            "part": st.sampled_from(PARTITIONS),
            "value": st.none() | st.integers(-5, 5),
            "tags": st.none() | st.lists(st.none() | st.sampled_from(["x", "y"]), max_size=2),
            "_hoodie_is_deleted": st.sampled_from([None, False, False, True]),
        }
    ),
    min_size=1,
    max_size=12,
)


@dataclass(frozen=True)
class Setup:
    """What a table is.  options: of its writers."""

    kind: TableType
    index: IndexKind
    event_time: bool
    moves: bool
    options: dict[str, str]
    version: int = 9

    @property
    def merges(self) -> bool:
        return self.kind is TableType.MERGE_ON_READ

    @property
    def remembers_deletes(self) -> bool:
        """Whether a delete may win over an older row of its key that comes after it: they meet in
        one file group's logs.  See docs/compatibility.md."""
        return self.merges and self.event_time and not self.index.is_global

    def create(self) -> Table:
        fs = MemoryFileSystem()
        options = parse_options(self.options)
        created = parse_options({**self.options, VERSION: str(self.version)})
        ordering = ("ts",) if self.event_time else ()
        definition = NewTable(
            SCHEMA, "t", self.kind, ("id",), ("part",), ordering, created, self.index
        )
        create(fs, definition)
        return Table(fs, options=options, engine=LocalEngine(1))

    def reopened(self, table: Table, **more: Any) -> Table:
        options = self.options | {f"hoodie.{k.replace('__', '.')}": v for k, v in more.items()}
        return Table(table._fs, options=parse_options(options), engine=LocalEngine(1))


def of_index(index: IndexKind, *, kind: TableType, facts: bool, has_record_index: bool) -> Row:
    """Options that go with an index only."""
    blooms = index in (IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM)
    with_records = index is IndexKind.RECORD or (
        has_record_index and index.is_global and index is not IndexKind.ELASTIC
    )
    consistent = has_record_index and index is IndexKind.BUCKET and kind is TableType.MERGE_ON_READ
    return {
        "pyhudi.record.index.inserts.to.logs": has_record_index and index is IndexKind.RECORD,
        "hoodie.bloom.index.use.metadata": blooms and facts,
        "hoodie.metadata.record.index.enable": with_records,
        "hoodie.index.bucket.engine": CONSISTENT.value if consistent else "SIMPLE",
        "pyhudi.index.elastic.growth": "GROUPS" if has_record_index else "SEAL",
        "pyhudi.index.elastic.hash": "murmur3" if facts else "java",
    }


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """has_record_index: in addition to a global index; consistent hashing for a bucket index."""
    kind = draw(st.sampled_from(list(TableType)))
    apart = (IndexKind.HBASE, IndexKind.PARTITIONED_RECORD)
    index = draw(st.sampled_from([kind for kind in IndexKind if kind not in apart]))
    moves, facts = draw(st.booleans()), draw(st.booleans())
    given = {
        "hoodie.record.index.update.partition.path": moves,
        "pyhudi.index.rocksdb.update.partition.path": moves,
        "pyhudi.index.rocksdb.buckets": 2,
        "hoodie.bloom.index.update.partition.path": moves,
        "hoodie.simple.index.update.partition.path": moves,
        "hoodie.bucket.index.num.buckets": draw(st.integers(1, 3)),
        "hoodie.metadata.record.index.min.filegroup.count": draw(st.integers(1, 3)),
        "pyhudi.index.elastic.bucket.entries": draw(st.sampled_from([1, 4, 1000])),
        "hoodie.index.bloom.num_entries": draw(st.sampled_from([1, 100])),
        "hoodie.bloom.index.prune.by.ranges": draw(st.booleans()),
        "hoodie.metadata.index.column.stats.enable": facts,
        "hoodie.metadata.index.bloom.filter.enable": facts,
        "hoodie.logfile.data.block.format": draw(st.sampled_from(["parquet", "avro"])),
        "hoodie.logfile.max.size": draw(st.sampled_from(["1kb", "1gb"])),
        "hoodie.parquet.compression.codec": draw(st.sampled_from(["zstd", "gzip", "snappy"])),
        "hoodie.parquet.max.file.size": draw(st.sampled_from(["9kb", "120mb"])),
        "hoodie.parquet.small.file.limit": draw(st.sampled_from(["0", "7kb"])),
        "hoodie.compact.inline": kind is TableType.MERGE_ON_READ and draw(st.booleans()),
        "hoodie.compact.inline.max.delta.commits": draw(st.integers(1, 4)),
        "hoodie.clean.automatic": draw(st.booleans()),
        "hoodie.clean.commits.retained": draw(st.integers(1, 3)),
        "hoodie.datasource.write.hive_style_partitioning": draw(st.booleans()),
        **of_index(index, kind=kind, facts=facts, has_record_index=draw(st.booleans())),
    }
    options = {name: str(value).lower() if isinstance(value, bool) else str(value)
               for name, value in given.items()}  # fmt: skip
    event_time, version = draw(st.booleans()), draw(st.sampled_from(VERSIONS))
    return Setup(kind, index, event_time, moves, options, version)
