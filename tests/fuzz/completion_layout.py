"""What is fuzzed of versions 8 and 9: names of instants, commits, the archive, positions, index
definitions, and files of a table of version 9."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.filenames import HOODIE
from pyhudi.formats import roaring
from pyhudi.formats.log_block import data_block
from pyhudi.formats.log_file import BlockKind, HeaderKey, read_blocks
from pyhudi.formats.record_positions import RecordPositions, read_positions
from pyhudi.layouts.v8 import V8
from pyhudi.layouts.v9 import V9
from pyhudi.metadata.definitions import definitions_path, read_definitions
from pyhudi.options import ServiceOptions
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFile, MemoryFileSystem, MemoryStore
from pyhudi.table.properties import load_config
from pyhudi.timeline.archive import HISTORY, Archive
from pyhudi.timeline.commit_avro import to_avro
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.history.manifest import load_manifest
from pyhudi.timeline.history.writer import HistoryFiles
from pyhudi.timeline.instant import Action, Instant, State, file_name
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import read_commit
from tests.fuzz import regions, tables
from tests.fuzz.target import Target

T: Final = [InstantTime(f"2026010100000{n:04d}") for n in range(40)]
COUNT: Final = 40


@cache
def _commit() -> bytes:
    stats = tuple(
        WriteStat("p", f"f{i}-0", f"p/f{i}-0_0-0-1_{T[1]}.parquet", None, 5, 0, 0, 5, 100, 100)
        for i in range(4)
    )
    return to_avro(CommitMetadata(stats, "UPSERT", extra={"schema": "s"}, replaced={"p": ("a",)}))


def _names() -> bytes:
    found = []
    for n in range(0, 12, 3):
        for action in (Action.COMMIT, Action.DELTA_COMMIT, Action.CLUSTERING, Action.CLEAN):
            for state in State:
                done = T[n + 1] if state is State.COMPLETED else None
                found.append(file_name(Instant(T[n], action, state, done)))
    return "\n".join(sorted(found)).encode() + b"\n"


def _timeline(data: bytes) -> Any:
    """The instants of a timeline whose files have these names, and what is late."""
    store = MemoryStore()
    for name in data.decode("utf-8", "replace").splitlines():
        store.files[f"{HOODIE}/timeline/{name}"] = _commit()
    log = TimelineLog(MemoryFileSystem(store), layout=V8)
    timeline = log.load()
    return timeline.instants, log.late, timeline.newest_time


@cache
def _archived() -> dict[str, bytes]:
    """The archive of eight instants, in two files."""
    fs = MemoryFileSystem()
    log = TimelineLog(fs, layout=V8)
    instants = [Instant(T[n], Action.COMMIT, State.COMPLETED, T[n + 1]) for n in range(0, 16, 2)]
    for instant in instants:
        for state in State:
            content = _commit() if state is State.COMPLETED else b""
            named = Instant(instant.time, instant.action, state, instant.completed_at)
            fs.create(log.path(named), content)
    files = HistoryFiles(log, HISTORY)
    files.append(instants[:4], batch=10)
    files.append(instants[4:], batch=10)
    files.maintain(ServiceOptions(history_merge_count=10))
    return {name: bytes(data) for name, data in fs.store.files.items() if HISTORY in name}


def _archive_with(path: str) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        store = MemoryStore()
        store.files.update({**_archived(), path: data})
        archive = Archive(MemoryFileSystem(store), layout=V9, folder="")
        return archive.timeline.instants, archive.commits, dict(archive.completions)

    return read


def _archive_targets() -> list[Target]:
    fs = MemoryFileSystem()
    fs.store.files.update(_archived())
    manifest = load_manifest(fs, HISTORY)
    paths: dict[str, tuple[str, regions.Regions]] = {
        "archive: version": (f"{HISTORY}/_version_", regions.whole("number")),
        "archive: manifest": (f"{HISTORY}/manifest_{manifest.number}", regions.json_text),
        "archive: file": (f"{HISTORY}/{manifest.files[0].name}", regions.whole("pages and footer")),
    }
    return [
        Target(name, (_archived()[path],), _archive_with(path), regions_of)
        for name, (path, regions_of) in paths.items()
    ]


def _rows() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Row numbers that a bitmap stores as an array, as runs and as bits."""
    return np.concatenate(
        [np.arange(0, 60, 3), np.arange(100, 1100), 1 << 17 | np.arange(0, 40, 2)]
    )


def _bitmap(data: bytes) -> Any:
    return roaring.decode(data, count_max=len(_rows())).tolist()


def _positioned() -> bytes:
    rows = pa.table({"id": [f"k{i}" for i in range(COUNT)], "n": list(range(COUNT))})
    schema = json.dumps({"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "string"}, {"name": "n", "type": "long"}]})  # fmt: skip
    positions = RecordPositions(str(T[0]), np.arange(0, 2 * COUNT, 2))
    return data_block(
        rows, kind=BlockKind.AVRO, instant=str(T[1]), avro_schema=schema, positions=positions
    )


def _header(data: bytes) -> Any:
    """The rows that the header of a block names; data: the value of that header."""
    good = _positioned()
    (block,) = read_blocks(MemoryFile(good, "x"), path="x")
    block.header[HeaderKey.RECORD_POSITIONS] = data.decode("utf-8", "replace")  # type: ignore[index]
    return read_positions(block, count=COUNT, path="x").tolist()


def _header_value() -> bytes:
    (block,) = read_blocks(MemoryFile(_positioned(), "x"), path="x")
    value = block.header[HeaderKey.RECORD_POSITIONS]
    assert base64.b64decode(value)
    return value.encode()


def _definitions(data: bytes) -> Any:
    store = MemoryStore()
    store.files.update(tables.files(9))
    fs = MemoryFileSystem(store)
    config = load_config(fs)
    fs.replace(definitions_path(config), data)
    return read_definitions(fs, config)


def _definitions_file() -> bytes:
    store = MemoryStore()
    store.files.update(tables.files(9))
    fs = MemoryFileSystem(store)
    return bytes(fs.read(definitions_path(load_config(fs))))


def targets() -> list[Target]:
    """The formats, and one file each of a table of version 9."""
    return [
        Target("instants (layout 2)", (_names(),), _timeline, regions.lines),
        Target(
            "commit (Avro, all fields)", (_commit(),), lambda data: read_commit(data, path="x"),
            regions.container,
        ),
        Target("bitmap", (roaring.encode(_rows()),), _bitmap, regions.whole("bitmap")),
        Target("positions in a header", (_header_value(),), _header, regions.whole("base64")),
        Target("index definitions", (_definitions_file(),), _definitions, regions.json_text),
        *_archive_targets(),
        *tables.targets_of(9, {
            "commit": (lambda name: name.startswith(f"{HOODIE}/timeline/") and "_" in name
                       and name.endswith(".deltacommit"), regions.container),
            "log": (lambda name: ".log." in name and "/" not in name, regions.log),
            "properties": (lambda name: name == f"{HOODIE}/hoodie.properties", regions.properties),
        }),
    ]  # fmt: skip
