"""Avro rows for tests: written and read by fastavro, and taken from real files by hand.

The walkers here are plain on purpose: they read sound files without the project's own readers, so
that those and the codec are tested apart from each other.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro

from pyhudi._native.avro.types import Kind, Node

GOLDEN = Path(__file__).parents[1] / "golden" / "avro"
AVRO_BLOCK, DELETE_BLOCK = 3, 1


def text(*fields: tuple[str, Any]) -> str:
    """Schema text of a record `r` of (name, type)."""
    return json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields]}
    )


def datum(schema_json: str, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema_json)), row)
    return out.getvalue()


def frames(datums: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(d)) + d for d in datums)


def unframed(data: bytes) -> list[bytes]:
    datums, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        datums.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return datums


def read_rows(schema_json: str, node: Node, datums: list[bytes]) -> list[Any]:
    """What fastavro reads, in the shape that `to_pylist` gives decoded columns."""
    schema = fastavro.parse_schema(json.loads(schema_json))
    return [
        _shaped(
            fastavro.schemaless_reader(
                io.BytesIO(d), schema, return_record_name=True, return_record_name_override=True
            ),
            node,
        )
        for d in datums
    ]


def _shaped(value: Any, node: Node) -> Any:
    if value is None:
        return None
    match node.kind:
        case Kind.RECORD:
            return {f.name: _shaped(value[f.name], f.node) for f in node.fields}
        case Kind.ARRAY:
            return [_shaped(item, node.fields[0].node) for item in value]
        case Kind.MAP:
            return [(key, _shaped(item, node.fields[0].node)) for key, item in value.items()]
        case Kind.UNION:
            name, inner = value
            return {
                f.name: _shaped(inner, f.node) if name.rpartition(".")[2] == f.name else None
                for f in node.fields
            }
    return value


def golden_log_blocks() -> list[tuple[int, str | None, bytes]]:
    """(type, schema, content) of log blocks written by Apache Hudi."""
    blocks = json.loads((GOLDEN / "log_blocks.json").read_text())
    return [(b["type"], b["schema"], base64.b64decode(b["content"])) for b in blocks]


def golden_payloads() -> list[tuple[str, str, list[bytes]]]:
    """(table and partition, schema, values) of metadata tables written by Apache Hudi."""
    tables = json.loads((GOLDEN / "metadata_payloads.json").read_text())
    return [
        (
            f"{name}-{part['partition']}",
            json.dumps(table["schemas"][part["schema"]]),
            [base64.b64decode(v) for v in part["values"]],
        )
        for name, table in tables.items()
        for part in table["values"]
    ]


def zip_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.startswith("__MACOSX") and not name.endswith((".crc", "/")):
                yield name, archive.read(name)


def log_blocks(data: bytes) -> Iterator[tuple[int, dict[int, str], bytes]]:
    """(type, header, content) of each block of a sound log file."""
    at = 0
    while at < len(data):
        assert data[at : at + 6] == b"#HUDI#"
        (length,) = struct.unpack_from(">q", data, at + 6)
        _, kind, header_count = struct.unpack_from(">iii", data, at + 14)
        inner = at + 26
        header = {}
        for _ in range(header_count):
            key, size = struct.unpack_from(">ii", data, inner)
            header[key] = data[inner + 8 : inner + 8 + size].decode()
            inner += 8 + size
        (content_size,) = struct.unpack_from(">q", data, inner)
        yield kind, header, data[inner + 8 : inner + 8 + content_size]
        at += 14 + length


def hfile_rows(data: bytes) -> tuple[str, list[bytes]]:
    """Schema and values of a sound GZ or NONE HFile, also one inside a log file."""
    schema = _block_body(data, data.rindex(b"FILEINF2"))
    start = schema.index(b'{"type":"record"')
    declared, _ = json.JSONDecoder().raw_decode(schema[start:].decode("latin-1"))
    values = []
    at = data.index(b"DATABLK*")
    while data[at : at + 8] == b"DATABLK*":
        body, inner = _block_body(data, at), 0
        while inner < len(body):
            key_size, value_size = struct.unpack_from(">ii", body, inner)
            inner += 8 + key_size
            values.append(body[inner : inner + value_size])
            inner += value_size + 1
        at += 33 + struct.unpack_from(">i", data, at + 8)[0]
    return json.dumps(declared), values


def _block_body(data: bytes, at: int) -> bytes:
    (size,) = struct.unpack_from(">i", data, at + 29)
    body = data[at + 33 : at + size]
    return zlib.decompress(body, 31) if body[:2] == b"\x1f\x8b" else body
