"""Golden tables, written by Apache Hudi, as file systems in memory."""

from __future__ import annotations

import tarfile
import zipfile
from functools import cache
from pathlib import Path

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


@cache
def _version_tables() -> dict[str, bytes]:
    """Every file of the archive of tables of versions 8 and 9, by its path."""
    with tarfile.open(VERSIONS) as archive:
        found = ((entry.name, archive.extractfile(entry)) for entry in archive)
        return {name: file.read() for name, file in found if file is not None}


def version_table_names() -> list[str]:
    """Names of the tables of versions 8 and 9 that have expected rows."""
    paths = (path.partition("/") for path in _version_tables())
    return sorted(name for name, _, path in paths if path == "expected.json")


def version_table_file(name: str, path: str) -> bytes:
    """A file of the table's folder in the archive, besides the table."""
    return _version_tables()[f"{name}/{path}"]


def version_table(name: str) -> MemoryFileSystem:
    """A copy of a table of version 8 or 9 of that archive."""
    fs = MemoryFileSystem()
    for path, data in _version_tables().items():
        if path.startswith(f"{name}/table/"):
            fs.create(path.removeprefix(f"{name}/table/"), data)
    return fs


def golden_names() -> list[str]:
    """Names of all golden tables."""
    return sorted(path.stem for path in (fixtures() / "golden").glob("*.zip"))
