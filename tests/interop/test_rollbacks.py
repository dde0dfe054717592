"""Apache Hudi and hudi-rs on tables where pyhudi died, or rolled back: rows, listing and index.

Long form: a table a case and version, each read with the metadata table on and off, checked,
written to by Apache Hudi and checked again.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import Options, parse_options
from pyhudi.recovery.newest_commit import roll_back_newest
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.properties import TableType, load_config
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.write.table_creation import NewTable
from tests.support.apache_hudi import ApacheHudi, newest_table_version
from tests.support.filesystems import Crash, CrashingFileSystem, TracingFileSystem

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
GROUPS = {"hoodie.metadata.record.index.min.filegroup.count": "2"}
OPTIONS = parse_options(GROUPS)
TOGETHER = parse_options({**GROUPS, "hoodie.write.markers.type": "TIMELINE_SERVER_BASED"})
Rows = dict[str, tuple[int, str]]


def batch(ids: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i}", "ts": ts, "part": f"p{i % 2}"} for i in ids], SCHEMA
    )


def as_rows(table: pa.Table) -> Rows:
    return {r["id"]: (r["ts"], r["part"]) for r in table.select(SCHEMA.names).to_pylist()}


def table_at(fs: FileSystem, options: Options = OPTIONS) -> Table:
    return Table(fs, options=options, engine=LocalEngine(1))


def upsert(fs: FileSystem, options: Options = OPTIONS) -> None:
    table_at(fs, options).upsert(batch(range(5, 50), 9))


def build(folder: Path, kind: TableType, version: int) -> None:
    fs = LocalFileSystem(folder)
    options = replace(OPTIONS, table=replace(OPTIONS.table, version=version))
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options))
    table_at(fs).bulk_insert(batch(range(40), 1))
    table_at(fs).upsert(batch(range(10), 2))


def die(folder: Path, moment: str, options: Options) -> None:
    """An upsert that dies amid its data files, or when all but the commit itself is done."""
    twin = folder.with_name(folder.name + "-dry")
    shutil.copytree(folder, twin)
    dry = TracingFileSystem(LocalFileSystem(twin))
    upsert(dry, options)
    shutil.rmtree(twin)
    data = [n for n, step in enumerate(dry.trace) if step.startswith("close p")]
    own = ("create .hoodie/2", "create .hoodie/timeline/2")
    commits = [
        n for n, step in enumerate(dry.trace) if step.startswith(own) and step.endswith("commit")
    ]
    stop = data[len(data) // 2] if moment == "amid" else commits[-1]
    with suppress(Crash):
        upsert(CrashingFileSystem(LocalFileSystem(folder), stop=stop), options)


def undo_newest(fs: FileSystem) -> None:
    upsert(fs)
    config = load_config(fs)
    log = TimelineLog(fs, layout=config.layout, zone=zone_of(config.timezone))
    newest = log.load().commits.last
    assert newest is not None
    roll_back_newest(fs, config, log, newest.time, engine=LocalEngine(1))


def read_by(apache: ApacheHudi, path: Path, *, metadata: str) -> Rows:
    out = path.with_suffix(".out")
    apache.call("read", path=str(path), mdt=metadata, out=str(out))
    return as_rows(pq.read_table(out))


@pytest.mark.parametrize("kind", TableType, ids=lambda k: k.name)
@pytest.mark.parametrize(
    "case", ["amid", "late", "undone", "left amid", "left late", "left amid together"]
)
def test_apache_hudi_takes_over(
    apache: ApacheHudi, tmp_path: Path, kind: TableType, case: str
) -> None:
    path = tmp_path / "t"
    build(path, kind, newest_table_version([apache]))
    fs = LocalFileSystem(path)
    if case == "undone":
        undo_newest(fs)
    else:
        together = TOGETHER if case.endswith(" together") else OPTIONS
        die(path, case.removeprefix("left ").removesuffix(" together"), together)
    expected = as_rows(table_at(fs).scan().to_arrow())
    if not case.startswith("left "):
        table_at(fs).upsert(batch(range(3), 20))
        expected |= as_rows(batch(range(3), 20))
    for metadata in ("on", "off"):
        assert read_by(apache, path, metadata=metadata) == expected
    batches = pytest.importorskip("hudi").HudiTable(str(path)).read()
    assert as_rows(pa.Table.from_batches(batches)) == expected
    pq.write_table(batch(range(8, 60), 50), path.with_suffix(".in"))
    apache.call("write", path=str(path), rows=str(path.with_suffix(".in")), operation="upsert")
    expected |= as_rows(batch(range(8, 60), 50))
    assert as_rows(table_at(fs).scan().to_arrow()) == expected
    # 0.15.0 rolls back after it drew its own instant, and does not see its own rows until the
    # next commit (writer_conformance 7)
    if not (apache.version == "0.15.0" and kind is TableType.MERGE_ON_READ and "left" in case):
        assert read_by(apache, path, metadata="on") == expected
    assert apache.call("validate", path=str(path))["ok"]
