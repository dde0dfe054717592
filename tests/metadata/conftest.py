"""Tables for the tests of the metadata table."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyhudi.metadata.reader import MetadataTable, open_metadata
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog

GOLDEN = Path(__file__).parents[1] / "golden" / "metadata"


@dataclass(frozen=True)
class Opened:
    """A table on the disk and what was read of it first."""

    root: Path
    fs: FileSystem
    config: TableConfig
    log: TimelineLog

    @classmethod
    def at(cls, root: Path) -> Opened:
        fs = LocalFileSystem(root)
        config = load_config(fs)
        return cls(
            root, fs, config, TimelineLog(fs, layout=config.layout, zone=zone_of(config.timezone))
        )

    def metadata(self) -> MetadataTable | None:
        return open_metadata(self.fs, self.config, self.log, self.log.load())


Unzip = Callable[[Path], Opened]


@pytest.fixture
def unzip(tmp_path: Path) -> Iterator[Unzip]:
    def extract(archive: Path) -> Opened:
        place = tmp_path / archive.parent.name / archive.stem
        with zipfile.ZipFile(archive) as file:
            file.extractall(place)
        roots = [
            p.parent
            for p in place.rglob(".hoodie")
            if p.is_dir() and ".hoodie" not in p.parent.parts and "__MACOSX" not in p.parts
        ]
        return Opened.at(min(roots, key=lambda p: len(p.parts)))

    yield extract
