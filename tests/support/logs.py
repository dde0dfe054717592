"""Log files for tests: golden copies, every log of the shared fixtures, files from bytes."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock, read_blocks, write_block
from pyhudi.storage.memory import MemoryFile
from tests.support.fixtures import fixtures

GOLDEN_LOGS = Path(__file__).parents[1] / "golden" / "logs"


def golden_log(name: str) -> bytes:
    return (GOLDEN_LOGS / f"{name}.log").read_bytes()


def as_file(data: bytes) -> MemoryFile:
    return MemoryFile(data, "x.log")


def blocks_of(data: bytes) -> list[LogBlock]:
    return read_blocks(as_file(data), path="x.log")


def kinds_of(data: bytes) -> list[str]:
    return [block.kind.name for block in blocks_of(data)]


def content_of(block: LogBlock, data: bytes) -> bytes:
    return data[block.content_offset : block.content_offset + block.content_length]


def small_block(content: bytes = b"content", instant: str = "1") -> bytes:
    return write_block(BlockKind.PARQUET, {HeaderKey.INSTANT_TIME: instant}, content)


def every_log() -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each log file of the shared fixtures, archived timelines included."""
    folder = fixtures()
    for path in sorted(folder.glob("*/*.zip")):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.namelist():
                if _is_log(entry):
                    yield f"{path.stem}:{entry}", archive.read(entry)
    for path in sorted((folder / "logs").rglob(".*")):
        if path.is_file() and _is_log(str(path)):
            yield path.name, path.read_bytes()


def _is_log(entry: str) -> bool:
    name = entry.rsplit("/", 1)[-1]
    return (
        name.startswith(".")
        and (".log." in name or ".archive." in name)
        and not name.endswith(".crc")
        and "__MACOSX" not in entry
    )
