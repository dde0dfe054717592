"""Golden tables, written by Apache Hudi, as file systems in memory."""

from __future__ import annotations

import io
import tarfile
import zipfile
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.storage.memory import MemoryFileSystem
from tests.support.fixtures import fixtures

SMALL = Path(__file__).parents[1] / "golden" / "tables"


def golden_table(name: str) -> MemoryFileSystem:
    """A copy of the golden table, rooted at it."""
    return unzipped(fixtures() / "golden" / f"{name}.zip")


def small_table(name: str) -> MemoryFileSystem:
    """A copy of a table that lies beside the tests."""
    return unzipped(SMALL / f"{name}.zip")


def unzipped(archive: Path) -> MemoryFileSystem:
    """The table of an archive that holds it in a folder of its own name."""
    name = archive.stem
    fs = MemoryFileSystem()
    with zipfile.ZipFile(archive) as files:
        for entry in files.namelist():
            folder, _, path = entry.partition("/")
            if folder == name and path and not path.endswith("/"):
                fs.create(path, files.read(entry))
    return fs


VERSIONS = SMALL.parent / "versions.tar.xz"
TURNS = SMALL.parent / "turns.tar.xz"


@cache
def _files(path: Path) -> dict[str, bytes]:
    """Every file of an archive, by its path."""
    with tarfile.open(path) as archive:
        found = ((entry.name, archive.extractfile(entry)) for entry in archive)
        return {name: file.read() for name, file in found if file is not None}


def version_table_names() -> list[str]:
    """Names of the tables of versions 8 and 9 that have expected rows."""
    paths = (path.partition("/") for path in _files(VERSIONS))
    return sorted(name for name, _, path in paths if path == "expected.json")


def version_table_file(name: str, path: str) -> bytes:
    """A file of the table's folder in the archive, besides the table."""
    return _files(VERSIONS)[f"{name}/{path}"]


def version_table(name: str) -> MemoryFileSystem:
    """A copy of a table of version 8 or 9 of that archive."""
    return _table(VERSIONS, name)


def turns_table(name: str) -> MemoryFileSystem:
    """A copy of a table of Apache Hudi, or of one that both programs wrote."""
    return _table(TURNS, name)


def turns_rows(name: str) -> pa.Table:
    """What Apache Hudi reads of such a table."""
    return pq.read_table(io.BytesIO(_files(TURNS)[f"{name}/expected.parquet"]))


def _table(archive: Path, name: str) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for path, data in _files(archive).items():
        if path.startswith(f"{name}/table/"):
            fs.create(path.removeprefix(f"{name}/table/"), data)
    return fs


def golden_names() -> list[str]:
    """Names of all golden tables."""
    return sorted(path.stem for path in (fixtures() / "golden").glob("*.zip"))
