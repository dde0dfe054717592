"""Streams in and out of tables by the calls PySpark makes: offsets, limits, replays; no JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import pyhudi
from pyhudi.errors import (
    OptionError,
    SchemaError,
    SnapshotExpiredError,
    StorageError,
    UserError,
    WriteConflictError,
)
from pyhudi.options import StreamOptions
from pyhudi.spark.source.save_attempts import attempted
from pyhudi.spark.source.stream_reader import stream_request
from pyhudi.spark.source.version_compat import PlainStream
from pyhudi.spark.types import to_spark
from pyhudi.write.input.stream_idempotency import CHECKPOINT, StreamBatch
from pyhudi.write.write_report import WriteReport
from tests.spark import source

ALL = ReadAllAvailable()
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"


def some_rows(*keys: str, ts: int = 1) -> pa.Table:
    return pa.table({"id": list(keys), "ts": [ts] * len(keys), "part": ["a"] * len(keys)})


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Three commits: k1 k2, k2 k3, k4."""
    return three_commits(tmp_path / "t", request.param)


def three_commits(path: Path, kind: str, **more: str) -> Path:
    options = {"hoodie__datasource__write__table__type": kind, **more}
    source.save(path, some_rows("k1", "k2"), **options)
    source.save(path, some_rows("k2", "k3", ts=2), **options)
    source.save(path, some_rows("k4"), **options)
    return path


def reader(path: Path, **options: str) -> Any:
    named = {name.replace("__", "."): value for name, value in options.items()}
    found = source.source(path, named)
    return found.streamReader(found.schema())


def read(mine: Any, start: dict[str, str], end: dict[str, str]) -> str:
    rows = [
        row["id"]
        for partition in mine.partitions(start, end)
        for batch in source.again(mine).read(source.again(partition))
        for row in batch.to_pylist()
    ]
    return " ".join(sorted(rows))


def batches(mine: Any, limit: Any = ALL) -> list[str]:
    """Every batch there is to read, from the start."""
    found, at = [], mine.initialOffset()
    while (end := mine.latestOffset(at, limit)) != at:
        found.append(read(mine, at, end))
        at = json.loads(json.dumps(end))
    return found


def times(path: Path) -> list[str]:
    return [instant.time for instant in pyhudi.open_table(path).timeline.commits]


def test_a_stream_starts_at_the_requested_instant(path: Path) -> None:
    first, *_, last = times(path)
    name = "hoodie__datasource__streaming__startoffset"
    assert batches(reader(path)) == ["k1 k2 k3 k4"]
    assert batches(reader(path, **{name: "earliest"})) == ["k1 k2 k3 k4"]
    assert batches(reader(path, **{name: "latest"})) == []
    assert batches(reader(path, **{name: first})) == ["k2 k3 k4"]
    assert batches(reader(path, **{name: last})) == []
    with pytest.raises(UserError, match="point in time"):
        batches(reader(path, **{name: "yesterday"}))
    with pytest.raises(OptionError, match="only bound of a stream"):
        reader(path, as__of__instant=first)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"maxCommitsPerTrigger": "1"}, ["k1 k2", "k2 k3", "k4"]),
        ({"maxCommitsPerTrigger": "2"}, ["k1 k2 k3", "k4"]),
        ({"maxRowsPerTrigger": "1"}, ["k1 k2", "k2 k3", "k4"]),
        ({"maxRowsPerTrigger": "4"}, ["k1 k2 k3", "k4"]),
        ({"maxBytesPerTrigger": "1"}, ["k1 k2", "k2 k3", "k4"]),
        ({"maxBytesPerTrigger": "1g"}, ["k1 k2 k3 k4"]),
    ],
)
def test_limits_cut_between_commits(
    path: Path, options: dict[str, str], expected: list[str]
) -> None:
    """A batch gives of each key the state at its end, and takes one commit whatever it holds."""
    mine = reader(path, **options)
    assert isinstance(mine.getDefaultReadLimit(), ReadMaxRows)
    assert batches(mine, mine.getDefaultReadLimit()) == expected
    assert batches(mine) == ["k1 k2 k3 k4"], "Spark may ask for everything"
    assert isinstance(reader(path).getDefaultReadLimit(), ReadAllAvailable)


def test_older_pyspark_reports_no_start(path: Path) -> None:
    """PySpark 4.0 and 4.1: the reader remembers where it is, and reads all after a restart."""
    request = stream_request({"path": str(path), "maxCommitsPerTrigger": "1"})
    mine = PlainStream(request, source.source(path).schema())
    at, found = mine.initialOffset(), []
    while (end := mine.latestOffset()) != at:
        found.append(read(mine, at, end))
        at = end
    assert found == ["k1 k2", "k2 k3", "k4"]
    assert PlainStream(request, mine.schema).latestOffset() == at


def test_available_now_ends_where_it_began(path: Path) -> None:
    mine = reader(path, maxCommitsPerTrigger="1")
    mine.prepareForTriggerAvailableNow()
    kind = pyhudi.open_table(path).config.table_type.value
    source.save(path, some_rows("k5"), hoodie__datasource__write__table__type=kind)
    assert batches(mine, ReadMaxRows(1)) == ["k1 k2", "k2 k3", "k4"]
    assert batches(reader(path)) == ["k1 k2 k3 k4 k5"]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_nothing_slips_in_behind_an_offset(tmp_path: Path, kind: str) -> None:
    """A batch ends before a write that is still pending; at version 6, later ones do so anyway."""
    path = three_commits(tmp_path / "t", kind, hoodie__write__table__version="6")
    folder = path / ".hoodie"
    _, second, _ = times(path)
    [done] = [p for p in folder.glob(f"{second}.*") if p.suffix in (".commit", ".deltacommit")]
    body = done.read_bytes()
    done.unlink()
    mine = reader(path)
    at = mine.latestOffset(mine.initialOffset(), ALL)
    assert at == {"instant": times(path)[0]}
    done.write_bytes(body)
    end = mine.latestOffset(at, ALL)
    assert read(mine, at, end) == "k2 k3 k4"


def test_a_planned_clustering_does_not_hold_the_stream_up(path: Path) -> None:
    """It brings no rows: not while it is planned, not when it is done."""
    small = {"hoodie.parquet.small.file.limit": "0"}
    table = pyhudi.open_table(path, options=small)
    before = reader(path)
    at = before.latestOffset(before.initialOffset(), ALL)
    assert table.schedule_clustering("id") is not None
    table.insert(some_rows("k7"))
    mine = reader(path)
    end = mine.latestOffset(at, ALL)
    assert read(mine, at, end) == "k7"
    assert read(mine, mine.initialOffset(), end) == "k1 k2 k3 k4 k7"
    assert table.cluster().file_groups > 0
    table.insert(some_rows("k8"))
    last = mine.latestOffset(end, ALL)
    assert read(mine, end, last) == "k8"
    assert read(mine, at, last) == "k7 k8"


def test_a_batch_that_is_read_again_is_the_same(path: Path) -> None:
    first, second, _ = times(path)
    start, end = {"instant": first}, {"instant": second}
    kind = pyhudi.open_table(path).config.table_type.value
    before = read(reader(path), start, end)
    source.save(path, some_rows("k9"), hoodie__datasource__write__table__type=kind)
    assert read(reader(path), start, end) == before == "k2 k3"
    assert reader(path).partitions(end, end) == []


def test_cleaned_files_fail_the_stream_or_are_passed_over_on_request(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(3):
        source.save(path, some_rows("k1", f"x{number}", ts=number))
    first, second, _ = times(path)
    for file in path.glob(f"a/*{second}.parquet"):
        file.unlink()
    start, end = {"instant": first}, {"instant": second}
    with pytest.raises(SnapshotExpiredError):
        read(reader(path), start, end)
    passing = reader(path, failOnDataLoss="false")
    assert read(passing, start, end) == "x1", "k1 comes with the commit that overwrote it"
    assert batches(passing)[-1] == "k1 x0 x1 x2"


def test_an_offset_ahead_of_the_table_is_refused(path: Path) -> None:
    """After a restore, or where the table was made anew."""
    ahead = {"instant": "29990101000000000"}
    with pytest.raises(SnapshotExpiredError, match="ahead of the table"):
        reader(path).latestOffset(ahead, ALL)
    assert reader(path, failOnDataLoss="false").latestOffset(ahead, ALL) == ahead
    name = "hoodie__datasource__streaming__startoffset"
    assert reader(path, **{name: "2999-01-01"}).latestOffset(ahead, ALL) == ahead


def sink(path: Path, rows: pa.Table, **options: str) -> Any:
    named = source.TABLE | {IDENTIFIER: "q"} | options
    return source.again(source.source(path, named).streamWriter(to_spark(rows.schema), False))


def run(path: Path, number: int, *keys: str, **options: str) -> None:
    rows = some_rows(*keys)
    mine = sink(path, rows, **options)
    parts = [
        source.again(mine).write(iter(rows.slice(at, 1).to_batches())) for at in range(len(rows))
    ]
    mine.commit([source.again(part) for part in parts], number)


INSERTS = {"hoodie.datasource.write.operation": "bulk_insert"}


def test_a_replayed_batch_is_passed_over(tmp_path: Path) -> None:
    """With bulk inserts, which would show a second time."""
    path = tmp_path / "t"
    run(path, 0, "k1", "k2", **INSERTS)
    run(path, 0, "k1", "k2", **INSERTS)
    run(path, 1, "k3", **INSERTS)
    run(path, 1, "k3", **INSERTS)
    run(path, 0, "k1", **{**INSERTS, IDENTIFIER: "another"})
    source.save(path, some_rows("k9"))
    prefix = {"hoodie.datasource.write.commitmeta.key.prefix": "mine_"}
    run(path, 1, "k3", **INSERTS, **prefix)
    found = sorted(row["id"] for row in source.load(path))
    assert found == ["k1", "k1", "k2", "k3", "k9"]
    assert not list((path / ".hoodie" / ".temp").glob("*"))
    table = pyhudi.open_table(path)
    log = table._state().log
    marks = [log.commit(instant).extra for instant in table.timeline.commits]
    assert [json.loads(extra.get(CHECKPOINT, "{}")) for extra in marks] == [
        {"q": "0"}, {"q": "1"}, {"another": "0"}, {},
    ]  # fmt: skip


def test_a_commit_removes_what_older_runs_staged(tmp_path: Path) -> None:
    """But not what a later batch parks meanwhile, nor another stream."""
    path = tmp_path / "t"
    rows = some_rows("k1")
    sink(path, rows).write(iter(rows.to_batches()))  # a run that was killed
    other = sink(path, rows, **{IDENTIFIER: "another"})
    other.write(iter(rows.to_batches()))
    mine = sink(path, rows)
    part = mine.write(iter(rows.to_batches()))
    later = sink(path, rows).write(iter(rows.to_batches()))
    mine.commit([part], 0)
    left = {str(p.relative_to(path)) for p in (path / ".hoodie" / ".temp").glob("*")}
    assert later.folder in left or later.folder == part.folder
    assert len(left) <= 2 and part.folder not in left - {later.folder}
    mine.abort([later, None], 1)
    assert later.folder not in {str(p.relative_to(path)) for p in path.glob(".hoodie/.temp/*")}


def test_complete_mode_replaces_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    run(path, 0, "k1", "k2")
    rows = some_rows("k3")
    named = source.TABLE | {IDENTIFIER: "q"}
    mine = source.source(path, named).streamWriter(to_spark(rows.schema), True)
    mine.commit([mine.write(iter(rows.to_batches()))], 1)
    assert [row["id"] for row in source.load(path)] == ["k3"]
    assert len(times(path)) == 2


def test_a_batch_without_a_stream_is_refused(tmp_path: Path) -> None:
    rows = some_rows("k1")
    mine = source.source(tmp_path / "t", source.TABLE).streamWriter(to_spark(rows.schema), False)
    with pytest.raises(UserError, match="streaming query of this batch is unknown"):
        mine.write(iter(rows.to_batches()))
    with pytest.raises(UserError, match="not supported by streams"):
        sink(tmp_path / "t", rows, saveMode="overwrite")
    with pytest.raises(UserError, match="invalid stream batch"):
        StreamBatch.of({CHECKPOINT: "7"})


def test_only_transient_failures_are_retried() -> None:
    tries: list[int] = []

    def fails(error: Exception, times: int) -> WriteReport:
        tries.append(1)
        if len(tries) <= times:
            raise error
        return WriteReport("upsert")

    options = StreamOptions(retry_count=2, retry_seconds=0)
    away = StorageError("the store is away", retryable=True)
    assert attempted(lambda: fails(away, 2), options).operation == "upsert"
    tries.clear()
    with pytest.raises(WriteConflictError):
        attempted(lambda: fails(WriteConflictError("taken"), 9), options)
    assert len(tries) == 3
    tries.clear()
    with pytest.raises(UserError):
        attempted(lambda: fails(UserError("no"), 9), options)
    assert len(tries) == 1


@pytest.mark.parametrize("change", ["widen", "rename"])
def test_a_stream_whose_columns_change_says_to_start_it_again(change: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": ["k1"], "n": pa.array([1], pa.int32())})
    table = pyhudi.create_table(path, rows.schema, record_key="id", name="t")
    table.upsert(rows)
    running = reader(path)
    at = running.latestOffset(running.initialOffset(), ALL)
    if change == "widen":
        more = pa.table({"id": ["k2"], "n": [1 << 40]})
        pyhudi.open_table(path).upsert(more, schema_mode="widen")
    else:
        pyhudi.sql("alter table t rename column n to m", tables={"t": path})
        pyhudi.open_table(path).upsert(rows.rename_columns(["id", "m"]))
    end = running.latestOffset(at, ALL)
    with pytest.raises(SchemaError, match="start the query again"):
        read(running, at, end)
    assert read(reader(path), at, end) in ("k1", "k2")
