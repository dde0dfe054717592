"""`hudi.ingest` writes the rows of sources that the tasks of Spark read, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import BadRowsError
from pyhudi.ingest import FileSource, KafkaSource, Retries, SourceBatch, SourceLimits
from pyhudi.ingest.status import IngestState
from tests.ingest.kafka.topics import Broker, messages, mock_brokers
from tests.spark.fatal_split import FatalSplit

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with mock_brokers() as found:
        yield found


def made(path: Path) -> Any:
    return pyhudi.create_table(path, SCHEMA, record_key="id", ordering="ts", table_type="mor")


def ids(path: Path) -> list[str]:
    return sorted(pyhudi.open_table(path).scan(["id"]).to_arrow()["id"].to_pylist())


def test_tasks_read_the_partitions_of_a_topic(spark: Any, tmp_path: Path, broker: Broker) -> None:
    topic, path, reports = broker.topic(), tmp_path / "t", []
    made(path)
    broker.put(topic, messages(0, 60))
    source = KafkaSource(broker.servers, topic)
    hudi.ingest(spark, source, path, max_rows=40, on_batch=reports.append)
    assert [report.inserted for report in reports] == [40, 20]
    broker.put(topic, messages(60, 4, note="a new field"))
    hudi.ingest(spark, source, path, on_batch=reports.append)
    assert reports[2].inserted == 4
    assert ids(path) == [f"k{n:06}" for n in range(64)]
    table = hudi.open_table(spark, path)
    assert table.checkpoint() == f"{topic},0:16,1:16,2:16,3:16"
    assert {r.note for r in table.scan(["note"]).collect()} == {None, "a new field"}


def test_bad_rows_fail_or_are_skipped(spark: Any, tmp_path: Path, broker: Broker) -> None:
    topic, path, reports = broker.topic(), tmp_path / "t", []
    made(path)
    broker.put(topic, [*messages(0, 4), b"no json"])
    source = KafkaSource(broker.servers, topic)
    with pytest.raises(BadRowsError):
        hudi.ingest(spark, source, path)
    assert pyhudi.open_table(path).checkpoint() is None
    hudi.ingest(spark, source, path, bad_rows="skip", on_batch=reports.append)
    assert [(report.inserted, report.rejected) for report in reports] == [(4, 1)]


def test_a_run_begins_where_it_is_stated_and_reports_its_state(
    spark: Any, tmp_path: Path, broker: Broker
) -> None:
    topic, path, seen = broker.topic(), tmp_path / "t", []
    made(path)
    broker.put(topic, [*messages(0, 8), b"no json", b"nor this"])
    source, start = KafkaSource(broker.servers, topic), f"{topic},0:1,1:1,2:1,3:1"
    with pytest.raises(BadRowsError, match="bad_rows=2"):
        hudi.ingest(
            spark, source, path, checkpoint=start, bad_rows="skip", max_bad_rows=1,
            on_status=seen.append,
        )  # fmt: skip
    assert (seen[-1].state, ids(path)) == (IngestState.FAILED, [])
    hudi.ingest(
        spark, source, path, checkpoint=start, bad_rows="skip", max_bad_share=0.5,
        retries=Retries(count=1), on_status=seen.append,
    )  # fmt: skip
    assert ids(path) == [f"k{n:06}" for n in range(4, 8)]
    assert (seen[-1].state, seen[-1].rows, seen[-1].rejected) == (IngestState.STOPPED, 4, 2)


@dataclass(frozen=True)
class FatalSource:
    """One batch."""

    folder: Path

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        if checkpoint is not None:
            return None
        empty = pa.RecordBatchReader.from_batches(SCHEMA, [])
        return SourceBatch(empty, "1", splits=[FatalSplit(self.folder)])

    plan = read


def test_a_batch_whose_workers_are_lost_is_repeated(spark: Any, tmp_path: Path) -> None:
    """The session repeats a task twice."""
    made(tmp_path / "t")
    (tmp_path / "kills").mkdir()
    for number in range(8):
        (tmp_path / "kills" / str(number)).touch()
    source, reports = FatalSource(tmp_path / "kills"), []
    with pytest.raises(hudi.WorkerLostError, match="ended by themselves"):
        hudi.ingest(spark, source, tmp_path / "t")
    hudi.ingest(
        spark, source, tmp_path / "t", continuous=True, on_batch=reports.append,
        stop=lambda: bool(reports),
    )  # fmt: skip
    assert not list((tmp_path / "kills").iterdir())
    assert ids(tmp_path / "t") == ["a"]


def test_tasks_read_files(spark: Any, tmp_path: Path) -> None:
    made(tmp_path / "t")
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = [json.loads(text) for text in messages(number * 10, 10)]
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "in" / f"{number}.parquet")
    hudi.ingest(spark, FileSource(tmp_path / "in", quiet_seconds=0), tmp_path / "t")
    assert ids(tmp_path / "t") == [f"k{n:06}" for n in range(30)]
    table = hudi.open_table(spark, tmp_path / "t")
    position = table.checkpoint()
    frame = spark.createDataFrame([("x", 1, "c")], "id string, ts bigint, city string")
    table.ingest(frame, checkpoint="later", after=position)
    assert table.checkpoint() == "later"
