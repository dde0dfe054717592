"""Tables made by an enemy: whatever they name, nothing outside them is read, written or deleted.

Each test makes a good table beside a folder that is not its own, changes one thing, and does all
that a user may do.  What comes of it is right rows or a typed error; the folder stays as it was.
"""

from __future__ import annotations

import copy
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CorruptFileError, PyhudiError, StorageError
from pyhudi.filenames import TEMP
from pyhudi.health.doctor import examine
from pyhudi.storage.local import LocalFileSystem
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.service_payloads import (
    CLEANER_PLAN,
    COMPACTION_PLAN,
    ROLLBACK_PLAN,
    read_avro,
    write_avro,
)
from tests.support.inside import state_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
BASE = "f00dfeed-0000-0000-0000-000000000000-0_0-0-1_20200101000000000.parquet"
_MORE = ("p0/../../outside", "..", "p0/../..", "../outside/", "a\\..\\b", "a\0b")
UP = ["../outside", "/etc", *(pytest.param(evil, marks=pytest.mark.slow) for evil in _MORE)]


def rows(ids: range, ts: int) -> pa.Table:
    found = [{"id": f"k{i}", "ts": ts, "part": f"p{i % 2}"} for i in ids]
    return pa.Table.from_pylist(found, SCHEMA)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """table: a merge-on-read table with logs; outside: files named like a table's."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in (BASE, ".hoodie_partition_metadata", "secret", ".f_20200101000000000.log.1_0-0-1"):
        (outside / name).write_bytes(b"do not touch")
    made = pyhudi.create_table(
        tmp_path / "table", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type="mor",
    )  # fmt: skip
    made.bulk_insert(rows(range(6), 1))
    made.upsert(rows(range(4), 2))
    return tmp_path


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def use(home: Path) -> list[PyhudiError]:
    """Everything a user may do with the table; the errors met.  The outside stays as it was."""
    before = tree(home / "outside")
    path = home / "table"
    errors = []
    acts: list[Callable[[pyhudi.Table], object]] = [
        lambda t: t.scan().to_arrow(),
        lambda t: t.changes("000").to_arrow(),
        lambda t: t.fetch(["k1"]),
        lambda t: t.doctor(),
        lambda t: t.upsert(rows(range(3), 9)),
        lambda t: t.compact(),
        lambda t: t.clean(),
        lambda t: t.services.run(),
        lambda t: t.delete_partitions("p0"),
        lambda t: t.repair(allow_loss=True),
        lambda t: t.metadata.rebuild(),
    ]
    for act in acts:
        try:
            act(pyhudi.open_table(path))
        except PyhudiError as error:
            errors.append(error)
    assert tree(home / "outside") == before
    return errors


def timeline_folder(home: Path) -> Path:
    return home / "table" / pyhudi.open_table(home / "table").config.layout.timeline_folder


def rewrite_newest(home: Path, change: Callable[[CommitMetadata], CommitMetadata]) -> None:
    """Replace the content of the newest commit."""
    table = pyhudi.open_table(home / "table")
    log, commit = state_of(table).log, table.timeline.commits.last
    assert commit is not None
    content = log.encode(change(log.commit(commit)))
    (home / "table" / log.path(commit)).write_bytes(content)


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize("evil", UP)
def test_paths_in_a_commit_lead_nowhere(home: Path, evil: str) -> None:
    def lead_outside(commit: CommitMetadata) -> CommitMetadata:
        stats = (
            replace(stat, path=f"{evil}/{BASE}", partition=evil, file_id=f"{evil}/x")
            for stat in commit.stats
        )
        return replace(commit, stats=tuple(stats), replaced={evil: (f"{evil}/x",)})

    rewrite_newest(home, lead_outside)
    codes = {f.code for f in examine(LocalFileSystem(home / "table")).problems}
    assert "foreign-path" in codes
    use(home)


@pytest.mark.parametrize("evil", UP)
def test_a_rollback_plan_deletes_nothing_outside(home: Path, evil: str) -> None:
    time_, at = "20200101000000000", "29990101000000000"
    request = {
        "partitionPath": evil, "fileId": f"{evil}/x", "latestBaseInstant": "20200101000000000",
        "filesToBeDeleted": [f"{home}/outside/{BASE}", f"{evil}/{BASE}"],
        "logBlocksToBeDeleted": {f"{home}/outside/.f_20200101000000000.log.1_0-0-1": 1},
    }  # fmt: skip
    record = {"instantToRollback": {"commitTime": time_, "action": "commit"},
              "RollbackRequests": [request]}  # fmt: skip
    put(timeline_folder(home) / f"{at}.rollback.requested", write_avro(ROLLBACK_PLAN, record))
    assert any(isinstance(e, CorruptFileError) for e in use(home))


@pytest.mark.parametrize("evil", UP[:6])
def test_a_clean_plan_deletes_nothing_outside(home: Path, evil: str) -> None:
    infos = [{"filePath": f"{home}/outside/{BASE}", "isBootstrapBaseFile": False},
             {"filePath": f"{evil}/secret", "isBootstrapBaseFile": False}]  # fmt: skip
    plan = {
        "earliestInstantToRetain": None, "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": {evil: [BASE, "secret"]},
        "filePathsToBeDeletedPerPartition": {evil: infos}, "partitionsToBeDeleted": [evil],
    }  # fmt: skip
    at = "29990101000000000"
    put(timeline_folder(home) / f"{at}.clean.requested", write_avro(CLEANER_PLAN, plan))
    use(home)


@pytest.mark.parametrize("evil", UP[:6])
def test_a_compaction_plan_reads_and_writes_nothing_outside(home: Path, evil: str) -> None:
    operation = {
        "baseInstantTime": "20200101000000000", "deltaFilePaths": [f"{evil}/secret"],
        "dataFilePath": f"{evil}/{BASE}", "fileId": f"{evil}/x", "partitionPath": evil,
    }  # fmt: skip
    plan = write_avro(COMPACTION_PLAN, {"operations": [operation], "version": 2})
    put(timeline_folder(home) / "29990101000000000.compaction.requested", plan)
    assert use(home)


@pytest.mark.parametrize("evil", UP[:6])
def test_markers_of_a_crashed_write_delete_nothing_outside(home: Path, evil: str) -> None:
    hoodie, at = timeline_folder(home), "29990101000000000"
    put(hoodie / f"{at}.deltacommit.requested", b"")
    put(hoodie / f"{at}.deltacommit.inflight", b"")
    text = f"{evil}/{BASE}.marker.CREATE\n{home}/outside/{BASE}.marker.CREATE\n"
    put(home / "table" / TEMP / at / "MARKERS0", text.replace("\0", "").encode())
    use(home)


@pytest.mark.parametrize(
    "line",
    ["hoodie.archivelog.folder=../../outside", "hoodie.archivelog.folder=/etc",
     "hoodie.table.metadata.partitions=../../outside,files", "hoodie.table.name=../outside"],
)  # fmt: skip
def test_properties_lead_nowhere(home: Path, line: str) -> None:
    path = home / "table" / ".hoodie" / "hoodie.properties"
    retained = [
        x for x in path.read_text().splitlines() if not x.startswith("hoodie.table.checksum")
    ]
    path.write_text("\n".join([*retained, line, ""]))
    with suppress(PyhudiError):
        use(home)


@pytest.mark.parametrize("evil", ["../outside", "/etc", "a/../../b", ".hoodie/x"])
def test_a_partition_value_cannot_leave_the_table(home: Path, evil: str) -> None:
    before = tree(home / "outside"), sorted(p.name for p in home.iterdir())
    batch = rows(range(1), 5).set_column(2, "part", pa.array([evil]))
    with suppress(PyhudiError):
        pyhudi.open_table(home / "table").upsert(batch)
        written = {s.partition for s in pyhudi.open_table(home / "table").file_slices()}
        assert all(".." not in p.split("/") and not p.startswith("/") for p in written)
        assert not any(p.split("/")[0] == ".hoodie" for p in written)
    assert (tree(home / "outside"), sorted(p.name for p in home.iterdir())) == before


@pytest.mark.parametrize("what", ["partition", "file", "cycle", "hoodie folder"])
def test_links_out_of_the_table_are_refused(home: Path, what: str) -> None:
    table = home / "table"
    match what:
        case "partition":
            (table / "p9").symlink_to(home / "outside")
        case "file":
            file = next((table / "p0").glob("*.parquet"))
            file.rename(home / "outside" / file.name)
            file.symlink_to(home / "outside" / file.name)
        case "cycle":
            (table / "p0" / "loop").symlink_to(table)
        case _:
            (table / TEMP).mkdir(exist_ok=True)
            (table / TEMP / "20200101000000000").symlink_to(home / "outside")
    began = time.process_time()
    errors = use(home)
    assert time.process_time() - began < 30
    if what in ("partition", "file"):
        assert any(isinstance(error, StorageError) for error in errors)


@pytest.mark.parametrize("what", ["properties", "commit", "base file", "link", "socket", "log"])
def test_pipes_and_sockets_in_a_table_are_refused(home: Path, what: str) -> None:
    table = home / "table"
    place = {
        "properties": table / ".hoodie" / "hoodie.properties",
        "commit": max(  # the newest one, whose content a scan reads
            path
            for path in (table / ".hoodie").rglob("*.deltacommit")
            if "metadata" not in path.relative_to(table).parts
        ),
        "log": next(table.glob("p0/.*.log.*")),
    }.get(what, next((table / "p0").glob("*.parquet")))
    place.unlink()
    match what:
        case "link":
            os.mkfifo(table / "pipe")
            place.symlink_to(table / "pipe")
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                folder = os.open(place.parent, os.O_RDONLY)
                bound.bind(f"/proc/self/fd/{folder}/{place.name}")
                os.close(folder)
        case _:
            os.mkfifo(place)
    began = time.monotonic()
    with pytest.raises(StorageError, match="neither a file nor a folder"):
        plain = {"hoodie.metadata.enable": "false"}
        pyhudi.open_table(table, options=plain).scan().to_arrow()
    with suppress(PyhudiError):
        pyhudi.open_table(table).scan().to_arrow()
    with suppress(PyhudiError):
        pyhudi.doctor(table)
    assert time.monotonic() - began < 30


HOSTILE = [..., None, "", -1, 10**20, [], {}, [None], {"a": None}, "V9"]


def places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def test_the_list_of_indexes_of_any_definitions_is_right_or_a_typed_error(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path, SCHEMA, record_key="id", version=9)
    table.bulk_insert(rows(range(2), 1))
    table.index.create("column_stats")
    table.index.create("secondary", "part", name="sp")
    file = tmp_path / ".hoodie" / ".index_defs" / "index.json"
    good = json.loads(file.read_text())
    texts = ["", "[]", "null", "{", '{"indexDefinitions": []}', "\0", "[" * 100_000]
    for path in places(good):
        for value in HOSTILE:
            changed = copy.deepcopy(good)
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            if value is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            texts.append(json.dumps(changed))
    for text in texts:
        file.write_text(text)
        with suppress(PyhudiError):
            found = table.index.list()
            assert found.column_names == ["name", "columns", "version"]


def test_a_root_that_is_a_link_is_the_users_own_choice(home: Path) -> None:
    link = home / "link"
    os.symlink(home / "table", link)
    assert pyhudi.open_table(link).scan().count() == 6


def container(schema: object, value: object, codec: str = "null") -> bytes:
    import io

    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), [value], codec=codec)
    return out.getvalue()


def test_a_compressed_plan_is_refused_before_it_grows() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "bytes"}]}
    bomb = container(schema, {"x": bytes(50 << 20)}, "deflate")
    assert len(bomb) < 1 << 20
    with pytest.raises(CorruptFileError):
        read_avro(bomb, path="x")


def test_items_without_bytes_cannot_be_counted_forever() -> None:
    schema = {"type": "record", "name": "r", "fields": [
        {"name": "x", "type": {"type": "array", "items": "null"}}]}  # fmt: skip
    small = container(schema, {"x": [None]})
    with pytest.raises(CorruptFileError):
        read_avro(small, path="x")
    empty = {"type": "record", "name": "e", "fields": [{"name": "y", "type": "null"}]}
    schema["fields"] = [{"name": "x", "type": {"type": "array", "items": empty}}]  # type: ignore[assignment]
    with pytest.raises(CorruptFileError):
        read_avro(container(schema, {"x": [{"y": None}]}), path="x")


@pytest.mark.parametrize(
    "body",
    ["[" * 200_000, '{"a":' * 200_000, '{"partitionToWriteStats": {"p": [{"numWrites": 1e999}]}}',
     '{"partitionToWriteStats": {"p": [{"numWrites": "' + "9" * 5000 + '"}]}}',
     '{"partitionToWriteStats": {"p": 7}}', '{"partitionToReplaceFileIds": [1]}', "7", "null"],
)  # fmt: skip
def test_deep_and_huge_commits_are_refused(body: str) -> None:
    with pytest.raises(CorruptFileError):
        CommitMetadata.from_json(body.encode(), path="x")


def test_a_deep_schema_in_a_commit_is_refused(home: Path) -> None:
    deep = '{"type":"array","items":' * 3000 + '"int"' + "}" * 3000
    schema = '{"type":"record","name":"r","fields":[{"name":"id","type":' + deep + "}]}"
    rewrite_newest(home, lambda commit: replace(commit, extra={**commit.extra, "schema": schema}))
    assert all(isinstance(error, PyhudiError) for error in use(home))
