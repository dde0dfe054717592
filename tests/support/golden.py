"""Golden tables, written by Apache Hudi, as file systems in memory."""

from __future__ import annotations

import zipfile
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


def golden_names() -> list[str]:
    """Names of all golden tables."""
    return sorted(path.stem for path in (fixtures() / "golden").glob("*.zip"))
