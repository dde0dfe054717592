"""What each byte of a good file is: `regions` of a format names one region for every byte.

Independent of the readers: each walks a file that is known to be whole by its specification.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

Regions = Callable[[bytes], list[str]]

_TOKEN = re.compile(rb'"(?:\\.|[^"\\])*"|[-+.\w]+|\s+|.', re.DOTALL)
_HEADER_KEYS = {0: "instant", 1: "target instant", 2: "schema", 3: "command", 4: "merged instants",
                5: "positions", 6: "identifier", 7: "partial", 8: "base of positions"}  # fmt: skip
_KINDS = {0: "command", 1: "delete", 3: "avro", 4: "hfile", 5: "parquet"}


class Walk:
    """Bytes taken from the front, each under a name."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.names: list[str] = []

    @property
    def at(self) -> int:
        return len(self.names)

    def take(self, length: int, name: str) -> bytes:
        found = self.data[self.at : self.at + length]
        assert len(found) == length, f"{name} ends after the file"
        self.names += [name] * length
        return found

    def number(self, form: str, name: str) -> int:
        value: int = struct.unpack(form, self.take(struct.calcsize(form), name))[0]
        return value

    def zigzag(self, name: str) -> int:
        value = shift = 0
        while True:
            byte = self.take(1, name)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)

    def rest(self, name: str) -> list[str]:
        self.take(len(self.data) - self.at, name)
        return self.names


def whole(name: str) -> Regions:
    """A format of one region."""
    return lambda data: [name] * len(data)


def properties(data: bytes) -> list[str]:
    walk = Walk(data)
    for line in data.splitlines(keepends=True):
        text = line.rstrip(b"\n")
        name, equals, value = text.partition(b"=")
        if text.startswith(b"#"):
            walk.take(len(text), "comment")
        else:
            walk.take(len(name), "name")
            walk.take(len(equals), "separator")
            walk.take(len(value), f"value of {name.decode()}")
        walk.take(len(line) - len(text), "end of line")
    return walk.names


def lines(data: bytes) -> list[str]:
    walk = Walk(data)
    for line in data.splitlines(keepends=True):
        walk.take(len(line.rstrip(b"\n")), "line")
        walk.take(len(line) - len(line.rstrip(b"\n")), "end of line")
    return walk.names


def json_text(data: bytes) -> list[str]:
    """Names, values by kind, and structure of a JSON text."""
    walk = Walk(data)
    tokens = _TOKEN.findall(data)
    for number, token in enumerate(tokens):
        behind = b"".join(tokens[number + 1 : number + 3]).lstrip()
        if token.startswith(b'"'):
            kind = "name" if behind.startswith(b":") else "text"
            kind = "schema" if kind == "text" and token.startswith(b'"{') else kind
            walk.take(1, "structure")
            walk.take(len(token) - 2, kind)
            walk.take(1, "structure")
        else:
            is_value = re.fullmatch(rb"[-+.\w]+", token)
            walk.take(len(token), "number, true, false or null" if is_value else "structure")
    return walk.names


def container(data: bytes) -> list[str]:
    """An Avro object container of one block."""
    walk = Walk(data)
    walk.take(4, "magic")
    for _ in range(walk.zigzag("count of metadata")):
        name = walk.take(walk.zigzag("length of metadata"), "name of metadata")
        walk.take(walk.zigzag("length of metadata"), name.decode())
    walk.zigzag("count of metadata")
    walk.take(16, "sync")
    walk.zigzag("count of records")
    walk.take(walk.zigzag("size of the block"), "record")
    return walk.rest("sync")


def datums(data: bytes) -> list[str]:
    walk = Walk(data)
    while walk.at < len(data):
        walk.take(walk.number(">i", "length of a row"), "row")
    return walk.names


def log(data: bytes) -> list[str]:
    """Blocks of a log; an HFile in one is a region of its own."""
    walk = Walk(data)
    while walk.at < len(data):
        _block(walk)
    return walk.names


def _block(walk: Walk) -> None:
    walk.take(6, "magic")
    walk.take(8, "length of a block")
    walk.take(4, "version")
    kind = _KINDS[walk.number(">i", "kind of a block")]
    for _ in range(walk.number(">i", "count of headers")):
        key = _HEADER_KEYS[walk.number(">i", "key of a header")]
        walk.take(walk.number(">i", "length of a header"), f"header: {key}")
    end = walk.number(">q", "length of the content") + walk.at
    if kind in ("avro", "delete"):
        walk.take(4, "version of the content")
        count = walk.number(">i", "count of rows, or bytes of deletes")
        for _ in range(count if kind == "avro" else 0):
            walk.take(walk.number(">i", "length of a row"), "row")
    walk.take(end - walk.at, {"delete": "deletes"}.get(kind, f"content: {kind}"))
    walk.take(4, "footer")
    walk.take(8, "pointer")


def hfile(data: bytes) -> list[str]:
    """An HFile without compression, as `tests.support.hfiles` builds it."""
    walk = Walk(data)
    while walk.at < len(data) - 4096:
        magic = walk.take(8, "magic")
        length = walk.number(">i", "sizes of a block")
        walk.take(4, "sizes of a block")
        walk.take(8, "offset of the block before")
        walk.take(5, "kind of checksums")
        last = walk.number(">i", "sizes of a block") - 33 + walk.at
        end = walk.at + length
        while magic == b"DATABLK*" and walk.at < last:
            _cell(walk)
        kind = {b"IDXROOT2": "index", b"FILEINF2": "file info"}.get(magic, "other block")
        walk.take(last - walk.at, kind)
        walk.take(end - walk.at, "checksums")
    fields = len(data[walk.at : -4].rstrip(b"\0"))
    walk.take(fields, "trailer")
    walk.take(len(data) - 4 - walk.at, "padding")
    return walk.rest("version")


def _cell(walk: Walk) -> None:
    key, value = walk.number(">i", "lengths of a cell"), walk.number(">i", "lengths of a cell")
    row = walk.number(">h", "lengths of a cell")
    walk.take(row, "key of a cell")
    walk.take(key - 2 - row, "rest of a cell's key")
    walk.take(value, "value of a cell")
    walk.take(1, "version of a cell")
