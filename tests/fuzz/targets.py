"""What is fuzzed: for each format some good files, and how each is read.

`protected`: checksums cover every byte, so a changed file may never give other values.  Of the
others some changes cannot be seen: a letter in a row is as good as any other letter.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa

from pyhudi._native import AvroCodec, HFileReader
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import METADATA_TABLE, PROPERTIES, TEMP
from pyhudi.formats.base_file import read_parquet
from pyhudi.formats.delete_block import decode_deletes
from pyhudi.formats.log_block import (
    data_batches,
    data_block,
    delete_block,
    read_content,
    rollback_block,
)
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFile, MemoryFileSystem
from pyhudi.table.listing import partition_metafile
from pyhudi.table.properties import (
    TableType,
    checksum,
    format_properties,
    load_config,
    parse_properties,
)
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.service_payloads import ROLLBACK_PLAN, read_avro, read_commit, write_avro
from pyhudi.transaction.markers import list_markers
from tests.fuzz import completion_layout, regions, tables
from tests.fuzz.regions import Regions
from tests.fuzz.target import Target
from tests.support.hfiles import N1, H, build, with_

T = InstantTime("20260101000000000")
CELLS = [(b"key-%05d" % (3 * i), b"value-%d" % i * (i % 4)) for i in range(120)]
AVRO = json.dumps({
    "type": "record", "name": "r",
    "fields": [
        {"name": "id", "type": ["null", "string"]},
        {"name": "n", "type": ["null", "long"]},
        {"name": "x", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "facts", "type": {"type": "map", "values": ["null", "int"]}},
    ],
})  # fmt: skip
ROWS = [
    {"id": f"k{i}" if i % 5 else None, "n": i * 10**6, "x": i / 3, "tags": ["t"] * (i % 3),
     "facts": {"a": i} if i % 2 else {}}
    for i in range(30)
]  # fmt: skip


def _hfile(data: bytes) -> Any:
    probes = pa.array([key for key, _ in CELLS] + [b"", b"absent", b"z"], pa.binary())
    sought = HFileReader(data, cache_bytes=0).get_many(probes, method="seek").to_pylist()
    table = HFileReader(data, cache_bytes=0).scan().read_all()
    return sought, table.to_pydict()


def _log(data: bytes) -> Any:
    file = MemoryFile(data, "x.log")
    found: list[Any] = []
    for block in read_blocks(file, path="x.log"):
        if block.kind is BlockKind.CORRUPT:  # what a reader does about it is seen in a table
            raise CorruptFileError("a block is not whole", path="x.log")
        found.append((block.kind.name, block.instant, block.target_instant))
        if block.kind is BlockKind.DELETE:
            found.append(decode_deletes(read_content(block, file), path="x.log").to_pylist())
        elif block.kind in (BlockKind.AVRO, BlockKind.PARQUET):
            found.append(data_batches(block, file, path="x.log").to_pylist())
    return found


def _logs() -> tuple[bytes, ...]:
    rows = pa.table({"id": [f"k{i}" for i in range(40)], "n": list(range(40))})
    schema = json.dumps({
        "type": "record", "name": "r",
        "fields": [{"name": "id", "type": ["null", "string"]},
                   {"name": "n", "type": ["null", "long"]}],
    })  # fmt: skip
    tail = delete_block(
        pa.array(["k1", "k2"]), pa.array(["p", "p"]), None, instant="2"
    ) + rollback_block("3", "2")
    return tuple(
        data_block(rows, kind=kind, instant="1", avro_schema=schema) + tail
        for kind in (BlockKind.AVRO, BlockKind.PARQUET)
    )


def _commit_json() -> bytes:
    stats = tuple(
        WriteStat("p", f"f{i}-0", f"p/f{i}-0_0-0-1_{T}.parquet", None, 5, 0, 0, 5, 100, 100)
        for i in range(4)
    )
    return CommitMetadata(stats, "UPSERT", extra={"schema": AVRO}, replaced={"p": ("a",)}).to_json()


def _plan() -> bytes:
    request = {
        "partitionPath": "p", "fileId": "f", "latestBaseInstant": T,
        "filesToBeDeleted": [f"/t/p/f_0-0-1_{T}.parquet"] * 3, "logBlocksToBeDeleted": {"a": 1},
    }  # fmt: skip
    record = {"instantToRollback": {"commitTime": T, "action": "commit"},
              "RollbackRequests": [request]}  # fmt: skip
    return write_avro(ROLLBACK_PLAN, record)


def _avro_commit() -> bytes:
    """A commit of layout 2, with some of its fields."""
    stat = {"type": "record", "name": "HoodieWriteStat", "fields": [
        {"name": "fileId", "type": ["null", "string"]},
        {"name": "path", "type": ["null", "string"]},
        {"name": "numWrites", "type": ["null", "long"]},
        {"name": "fileSizeInBytes", "type": ["null", "long"]},
    ]}  # fmt: skip
    stats = {"type": "map", "values": {"type": "array", "items": stat}}
    schema = {"type": "record", "name": "HoodieCommitMetadata", "fields": [
        {"name": "partitionToWriteStats", "type": ["null", stats]},
        {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "operationType", "type": ["null", "string"]},
    ]}  # fmt: skip
    found = {"p": [{"fileId": f"f{i}-0", "path": f"p/f{i}-0_0-0-1_{T}.parquet", "numWrites": 5,
                    "fileSizeInBytes": 100} for i in range(4)]}  # fmt: skip
    record = {"partitionToWriteStats": found, "extraMetadata": {"schema": AVRO},
              "operationType": "UPSERT"}  # fmt: skip
    return write_avro(schema, record)


def _properties() -> bytes:
    return format_properties({
        "hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6", "hoodie.table.recordkey.fields": "id",
        "hoodie.table.checksum": str(checksum("", "t")), "hoodie.table.create.schema": AVRO,
    })  # fmt: skip


def _config(data: bytes) -> Any:
    fs = MemoryFileSystem()
    fs.create(PROPERTIES, data)
    config = load_config(fs)
    kind: TableType = config.table_type
    return (config.properties, config.version, config.layout, kind, config.merge_mode,
            config.key_generator, config.metadata_partitions)  # fmt: skip


def _markers(data: bytes) -> Any:
    fs = MemoryFileSystem()
    fs.create(f"{TEMP}/{T}/MARKERS0", data)
    return [(m.path, m.kind.name) for m in list_markers(fs, T)]


def _datums() -> bytes:
    out = io.BytesIO()
    schema = fastavro.parse_schema(json.loads(AVRO))
    for row in ROWS:
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, schema, row)
        out.write(len(datum.getvalue()).to_bytes(4, "big") + datum.getvalue())
    return out.getvalue()


def _parquet() -> bytes:
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table({"id": [f"k{i}" for i in range(50)], "n": list(range(50))}), out)
    return out.getvalue()


def _base_file(data: bytes) -> Any:
    found = read_parquet(pa.BufferReader(data), path="x")
    # Arrow does not look whether text is UTF-8; a changed byte is told only where it is decoded
    columns = [c.cast(pa.binary()) if pa.types.is_string(c.type) else c for c in found.columns]
    values = [column.to_pylist() for column in columns]
    return values, found.column_names, found.slice(0, 0).schema, found.num_rows


def targets() -> list[Target]:
    """Every format, the cheapest first."""
    hfiles = (H, with_(H, levels=2, gz=False), with_(H, checksum=1, gz=False), with_(H, levels=3))
    commit = CommitMetadata(extra={"schema": AVRO}).to_json()
    return [
        Target("properties", (_properties(),), _config, regions.properties),
        Target(
            "partition metadata",
            (partition_metafile(T, "a/b"),),
            lambda data: parse_properties(data),
            regions.properties,
        ),
        Target(
            "markers",
            (b"p/f-0_0-0-1_%s.parquet.marker.CREATE\n" % T.encode() * 3,),
            _markers,
            regions.lines,
        ),
        Target(
            "commit (JSON)",
            (_commit_json(), commit),
            lambda data: CommitMetadata.from_json(data, path="x"),
            regions.json_text,
        ),
        Target(
            "plan (Avro)", (_plan(),), lambda data: read_avro(data, path="x"), regions.container
        ),
        Target(
            "commit (Avro)", (_avro_commit(),), lambda data: read_commit(data, path="x"),
            regions.container,
        ),
        Target(
            "Avro block",
            (_datums(),),
            lambda data: AvroCodec(AVRO).decode_framed(data, len(ROWS)).to_pylist(),
            regions.datums,
        ),
        Target("log", _logs(), _log, regions.log),
        Target("base file", (_parquet(),), _base_file, regions.whole("pages and footer")),
        Target(
            "HFile", tuple(build(CELLS, d) for d in hfiles), _hfile, regions.whole("block"),
            protected=True,
        ),
        Target("HFile, no checksums", (build(CELLS, with_(N1, gz=False)),), _hfile, regions.hfile),
        *_of_a_table(),
        *completion_layout.targets(),
    ]  # fmt: skip


def _of_a_table() -> list[Target]:
    """A file of a table each; the table is read."""
    index = METADATA_TABLE
    kinds: dict[str, tuple[Callable[[str], bool], Regions]] = {
        "properties": (lambda name: name == PROPERTIES, regions.properties),
        "commit": (
            lambda name: name.count("/") == 1 and name.endswith(".deltacommit"),
            regions.json_text,
        ),
        "log": (lambda name: ".log." in name and "/" not in name, regions.log),
        "listing": (lambda name: name.endswith(".hfile"), regions.whole("HFile")),
        "listing's logs": (lambda name: f"{index}/files/.files" in name, regions.log),
        "index's logs": (lambda name: f"{index}/record_index/.record" in name, regions.log),
    }
    return tables.targets_of(6, kinds)
