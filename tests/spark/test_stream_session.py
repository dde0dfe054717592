"""Streams in a session: exactly once over replays and kills; and two writers at one time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
import pyhudi.spark as hudi
from tests.spark import streaming_kill

SCHEMA = pa.schema({"id": pa.string(), "v": pa.int32()})
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.operation": "bulk_insert",
}


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Three commits of two rows."""
    path = tmp_path / "from"
    table = pyhudi.create_table(path, SCHEMA, record_key="id")
    for number in range(3):
        rows = [{"id": f"k{2 * number + n}", "v": number} for n in range(2)]
        table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    return path


def changes(spark: Any, origin: Path, **options: Any) -> Any:
    reader = spark.readStream.format("pyhudi").option("columns", "id,v").options(**options)
    return reader.load(str(origin))


def finished(writer: Any, **options: Any) -> Any:
    query = writer.trigger(availableNow=True).start(**options)
    query.awaitTermination(120)
    assert not query.isActive
    return query


def ids(path: Path) -> list[str]:
    found: list[str] = sorted(pyhudi.open_table(path).scan(["id"]).to_arrow()["id"].to_pylist())
    return found


def forget_last_batch(checkpoint: Path) -> int:
    """As if Spark had died before it noted that its last batch is through."""
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    for file in (checkpoint / "commits").glob(f"*{last}*"):
        file.unlink()
    return last


@pytest.mark.parametrize("face", [pytest.param("format", marks=pytest.mark.slow), "foreach_batch"])
def test_a_replayed_batch_is_written_once(
    spark: Any, origin: Path, tmp_path: Path, face: str
) -> None:
    path, checkpoint = tmp_path / "to", tmp_path / "checkpoint"

    def stream() -> Any:
        rows = changes(spark, origin, maxCommitsPerTrigger=1)
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint))
        if face == "format":
            return finished(writer.format("pyhudi").options(**OPTIONS), path=str(path))
        into = hudi.foreach_batch(path, operation="bulk_insert", record_key="id")
        return finished(writer.foreachBatch(into))

    stream()
    assert ids(path) == [f"k{n}" for n in range(6)]
    commits = list(pyhudi.open_table(path).timeline.commits)
    assert len(commits) == 3
    assert forget_last_batch(checkpoint) == 2
    stream()
    assert list(pyhudi.open_table(path).timeline.commits) == commits
    pyhudi.open_table(origin).upsert(pa.Table.from_pylist([{"id": "k6", "v": 3}], SCHEMA))
    stream()
    assert ids(path) == [f"k{n}" for n in range(7)]
    assert not list((path / ".hoodie" / ".temp").glob("*"))


def test_a_batch_that_fails_fails_the_stream(spark: Any, origin: Path, tmp_path: Path) -> None:
    path = tmp_path / "to"
    rows = spark.createDataFrame([("k0", "x")], "id string, v string")
    hudi.upsert(rows, path, record_key="id", name="t")
    rows = changes(spark, origin).writeStream.format("pyhudi").options(**OPTIONS)
    query = rows.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(path))
    with pytest.raises(Exception, match="does not fit the table"):
        query.awaitTermination(120)
    assert ids(path) == ["k0"]


def test_two_writers_lose_no_update(spark: Any, tmp_path: Path) -> None:
    """Both add to every row, one row at a time each; as many commits as saves."""
    path = tmp_path / "t"
    options = OPTIONS | {"hoodie.datasource.write.operation": "upsert"}
    start = spark.createDataFrame([(f"k{n}", 0) for n in range(4)], "id string, v int")
    start.write.format("pyhudi").options(**options).mode("append").save(str(path))
    errors: list[BaseException] = []

    def write(name: str, by_verb: bool) -> None:
        try:
            for n in range(3):
                rows = spark.createDataFrame([(f"{name}{n}", n), (f"k{n}", n)], "id string, v int")
                if by_verb:
                    hudi.upsert(rows, path, options={"hoodie.write.lock.wait_time_ms": "120000"})
                else:
                    rows.write.format("pyhudi").options(**options).mode("append").save(str(path))
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=(name, name == "b")) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(180)
    assert not errors
    assert ids(path) == sorted(
        [f"k{n}" for n in range(4)] + [f"{w}{n}" for w in "abc" for n in range(3)]
    )
    assert len(pyhudi.open_table(path).timeline.commits) == 10


@pytest.mark.slow
def test_a_stream_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed(tmp_path, seed=5, kills=1)


@pytest.mark.slow
def test_a_stream_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed(tmp_path, seed=6, kills=6)


def killed(folder: Path, *, seed: int, kills: int) -> None:
    expected, found = streaming_kill.run(folder, seed=seed, kills=kills, commits=5 * kills + 1)
    assert (found.count, found.checksum) == (expected.count, expected.checksum)
    assert found.kills == kills
