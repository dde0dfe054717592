"""`Stream` writes the rows of files once, and continues where the table's newest commit stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import CorruptFileError, OptionError, UserError, WriteConflictError
from pyhudi.ingest import FileSource, SourceBatch, SourceLimits, Stream
from tests.support.inside import state_of

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
NOW = 1_700_000_000


def rows(first: int, count: int = 10, ts: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        [[f"k{n:04}" for n in numbers], [ts] * count, [f"c{n % 3}" for n in numbers]], schema=SCHEMA
    )


def put(folder: Path, name: str, batch: pa.Table, second: int) -> Path:
    """A file that was modified `second` seconds after NOW."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if path.suffix == ".csv":
        pc.write_csv(batch, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in batch.to_pylist()))
    else:
        pq.write_table(batch, path)
    os.utime(path, (NOW + second, NOW + second))
    return path


def made(folder: Path, **how: Any) -> Any:
    return pyhudi.create_table(
        folder, SCHEMA, record_key="id", partition_by="city", ordering="ts", **how
    )


def ids(table: Any) -> list[str]:
    return sorted(pyhudi.open_table(table.path).scan(["id"]).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_each_file_is_written_once_in_the_order_of_time(
    tmp_path: Path, kind: str, version: int
) -> None:
    table = made(tmp_path / "t", table_type=kind, version=version)
    stream = Stream(FileSource(tmp_path / "in"), table, max_bytes=1)
    put(tmp_path / "in", "b.parquet", rows(0), 1)
    put(tmp_path / "in" / "deep", "a.csv", rows(5, ts=1), 2)
    put(tmp_path / "in", "_ignored.parquet", rows(500), 3)
    assert [report.inserted for report in stream.available()] == [10, 5]
    assert stream.run_once() is None
    put(tmp_path / "in", "c.jsonl", rows(20, ts=2), 3)
    assert stream.run_once() is not None
    assert ids(table) == [f"k{n:04}" for n in [*range(15), *range(20, 30)]]
    assert table.checkpoint() == str((NOW + 3) * 1000)


@pytest.mark.parametrize(
    ("version", "key"),
    [
        (6, "deltastreamer.checkpoint.key"),
        (8, "streamer.checkpoint.key.v2"),
        (9, "streamer.checkpoint.key.v2"),
    ],
)
def test_the_commit_has_the_checkpoint_under_the_name_of_the_streamer(
    tmp_path: Path, version: int, key: str
) -> None:
    table = made(tmp_path / "t", version=version)
    table.ingest(rows(0), checkpoint="topic,0:17", after=None)
    state = state_of(table)
    extra = state.log.commit(state.timeline.commits.instants[-1]).extra
    assert {name: text for name, text in extra.items() if "checkpoint" in name} == {
        key: "topic,0:17"
    }


def test_files_with_the_time_of_the_last_one_belong_to_its_batch(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for number in range(4):
        put(tmp_path / "in", f"{number}.parquet", rows(number * 10), 1 if number < 3 else 2)
    stream = Stream(FileSource(tmp_path / "in"), table, max_bytes=1)
    assert [report.inserted for report in stream.available()] == [30, 10]


def test_files_that_may_still_be_written_are_left_for_later(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    pq.write_table(rows(0), put(tmp_path / "in", "a.parquet", rows(0), 1).with_name("b.parquet"))
    patient = Stream(FileSource(tmp_path / "in", quiet_seconds=3600), table)
    assert [report.inserted for report in patient.available()] == [10]
    assert table.checkpoint() == str((NOW + 1) * 1000)


def test_a_batch_without_rows_moves_the_checkpoint(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    put(tmp_path / "in", "a.parquet", rows(0, 0), 1)
    put(tmp_path / "in", "b.parquet", rows(0), 2)
    stream = Stream(FileSource(tmp_path / "in"), table, max_bytes=1)
    assert [report.inserted for report in stream.available()] == [0, 10]


def test_columns_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    put(tmp_path / "in", "a.parquet", rows(0, 3), 1)
    wider = rows(3, 3).append_column("extra", pa.array([1, 2, 3], pa.int32()))
    put(tmp_path / "in", "b.parquet", wider, 2)
    assert Stream(FileSource(tmp_path / "in"), table).run_once() is not None
    found = pyhudi.open_table(tmp_path / "t").scan(["id", "extra"]).to_arrow()
    assert sorted(found["extra"].to_pylist(), key=str) == [1, 2, 3, None, None, None]


def test_fields_of_a_struct_that_a_file_lacks_are_null_by_option(tmp_path: Path) -> None:
    narrow, wide = (pa.struct([(name, pa.int64()) for name in names]) for names in ("a", "ab"))
    schema = SCHEMA.append(pa.field("at", wide))
    nulls = {"hoodie.write.set.null.for.missing.columns": "true"}
    table = pyhudi.create_table(
        tmp_path / "t", schema, record_key="id", ordering="ts", options=nulls
    )
    first = rows(0, 1).append_column("at", pa.array([{"a": 1}], narrow))
    second = rows(1, 1).append_column("at", pa.array([{"a": 2, "b": 3}], wide))
    put(tmp_path / "in", "a.parquet", first, 1)
    put(tmp_path / "in", "b.parquet", second, 2)
    assert Stream(FileSource(tmp_path / "in"), table).run_once() is not None
    found = pyhudi.open_table(tmp_path / "t").scan(["id", "at"]).to_arrow().sort_by("id")
    assert found["at"].to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": 3}]


def test_a_stream_whose_position_was_passed_by_another_writes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.ingest(rows(0), checkpoint="1", after=None)
    with pytest.raises(WriteConflictError, match="moved the checkpoint"):
        table.ingest(rows(50), checkpoint="2", after=None)
    late = pyhudi.open_table(tmp_path / "t")
    table.ingest(rows(10), checkpoint="2", after="1")
    with pytest.raises(WriteConflictError, match="moved the checkpoint"):
        late.ingest(rows(50), checkpoint="2", after="1")
    assert len(ids(table)) == 20


def test_two_streams_at_once_write_each_row_once(tmp_path: Path) -> None:
    options = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    made(tmp_path / "t", table_type="mor", index="bucket", options=options)
    first, second = (pyhudi.open_table(tmp_path / "t", options=options) for _ in range(2))

    def overtake(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """While the first batch is read, the other stream writes the same file."""
        assert Stream(source, second, "insert").run_once() is not None
        return reader

    put(tmp_path / "in", "a.parquet", rows(0), 1)
    source = FileSource(tmp_path / "in")
    with pytest.raises(WriteConflictError, match="moved the checkpoint"):
        Stream(source, first, "insert", transform=overtake).run_once()
    assert ids(first) == [f"k{n:04}" for n in range(10)]


def test_a_commit_that_moves_the_checkpoint_during_a_write_refuses_the_write(
    tmp_path: Path,
) -> None:
    options = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    made(tmp_path / "t", table_type="mor", index="bucket", options=options)
    first, second = (pyhudi.open_table(tmp_path / "t", options=options) for _ in range(2))
    batch = rows(0)

    def batches() -> Any:
        second.ingest(batch, checkpoint="1", after=None, operation="insert")
        yield from batch.to_batches()

    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    with pytest.raises(WriteConflictError, match="moved the checkpoint"):
        first.ingest(reader, checkpoint="1", after=None, operation="insert")
    assert len(ids(first)) == 10


def foreign(tmp_path: Path, name: str) -> Path:
    archive = Path(__file__).parents[1] / "golden" / "foreign" / f"{name}.zip"
    zipfile.ZipFile(archive).extractall(tmp_path / "foreign")
    return tmp_path / "foreign"


def test_a_table_of_the_streamer_of_apache_hudi_is_continued(tmp_path: Path) -> None:
    table = pyhudi.open_table(
        foreign(tmp_path, "streamer_cow_v6"),
        options={"hoodie.index.type": "BLOOM"},
        key_generator=pyhudi.PythonKeys(),  # its generator is a class of a test
    )
    assert table.checkpoint() == "1780284324000"
    before = table.scan(with_meta=False).to_arrow()
    one = before.slice(0, 1)
    old, new = (put(tmp_path / "in", name, one, 0) for name in ("old.parquet", "new.parquet"))
    os.utime(old, (1_780_284_324, 1_780_284_324))
    os.utime(new, (1_780_284_325, 1_780_284_325))
    reports = list(Stream(FileSource(tmp_path / "in", quiet_seconds=-1e9), table).available())
    assert [report.updated for report in reports] == [1]
    assert table.checkpoint() == "1780284325000"


@dataclass
class Numbered:
    """Batches with the numbers from 0 on as positions, as the streamer's test source has them."""

    batches: Mapping[int, pa.Table]
    read_batches: list[int] = field(default_factory=list)

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        number = 0 if checkpoint is None else int(checkpoint) + 1
        if number not in self.batches:
            return None
        self.read_batches.append(number)
        return SourceBatch(self.batches[number].to_reader(), f"{number:05}")


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_of_the_continuous_mode_of_the_streamer_is_continued(
    tmp_path: Path, version: int
) -> None:
    """Its nine commits, among them a compaction, have the checkpoints 00000 to 00008."""
    path = foreign(tmp_path, "streamer_mor_v3") / "streamer_mor_v3"
    how: dict[str, Any] = {
        "options": {
            "hoodie.index.type": "BLOOM",
            "hoodie.skip.default.partition.validation": "true",
        },
        "key_generator": pyhudi.PythonKeys(lambda rows: ["default"] * rows.num_rows),
    }
    pyhudi.open_table(path, **how).upgrade(to=version)
    table = pyhudi.open_table(path, **how)
    assert table.checkpoint() == "00008" and table.count() == 3000
    before = table.scan(with_meta=False).to_arrow()
    two = before.slice(0, 2).to_pylist()
    newer = [{**row, "rider": "new", "timestamp": 2 * row["timestamp"] + 1} for row in two]
    batches = {n: before.slice(0, 0) for n in range(9)}
    source = Numbered({**batches, 9: pa.Table.from_pylist(newer, before.schema)})
    reports = list(Stream(source, table).available())
    assert [report.updated for report in reports] == [2] and source.read_batches == [9]
    assert table.checkpoint() == "00009" and table.count() == 3000
    assert table.scan(["rider"], where="rider = 'new'").to_arrow().num_rows == 2
    state = state_of(table)
    extra = state.log.commit(state.timeline.commits.instants[-1]).extra
    key = "deltastreamer.checkpoint.key" if version == 6 else "streamer.checkpoint.key.v2"
    assert {name: text for name, text in extra.items() if "checkpoint" in name} == {key: "00009"}


def test_a_checkpoint_of_another_source_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.ingest(rows(0), checkpoint="topic,0:17", after=None)
    with pytest.raises(UserError, match="not one of a file source"):
        Stream(FileSource(tmp_path / "in"), table).run_once()


def test_a_file_that_is_not_of_its_format_leaves_the_checkpoint(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    path = put(tmp_path / "in", "a.parquet", rows(0), 1)
    path.write_bytes(b"not parquet")
    os.utime(path, (NOW, NOW))
    with pytest.raises(CorruptFileError, match="not a parquet file"):
        Stream(FileSource(tmp_path / "in"), table).run_once()
    assert table.checkpoint() is None


PROGRAM = """
import sys, pyhudi
from pyhudi.ingest import FileSource, Stream
table = pyhudi.open_table(sys.argv[1])
for report in Stream(FileSource(sys.argv[2]), table, "insert", max_bytes=1).available():
    pass
"""


def test_a_stream_that_is_killed_at_ten_points_loses_and_doubles_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "t", table_type="mor")
    for number in range(12):
        put(tmp_path / "in", f"{number}.parquet", rows(number * 10), number)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "t"), str(tmp_path / "in")]
    kills = 0
    for number in range(10):
        process = subprocess.Popen(command)
        try:
            process.wait(0.35 + 0.04 * number)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert subprocess.run(command).returncode == 0
    assert kills
    assert ids(table) == [f"k{n:04}" for n in range(120)]


def stopping(after: int) -> tuple[Callable[[Any], None], Callable[[], bool]]:
    seen: list[Any] = []
    return seen.append, lambda: len(seen) >= after


def test_a_stream_follows_its_source_until_it_is_stopped(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    put(tmp_path / "in", "a.parquet", rows(0), 1)
    put(tmp_path / "in", "b.parquet", rows(10), 2)
    on_batch, stop = stopping(2)
    stream = Stream(FileSource(tmp_path / "in"), table, max_bytes=1)
    stream.run(continuous=True, interval_seconds=0.01, stop=stop, on_batch=on_batch)
    assert len(ids(table)) == 20


def test_the_position_of_a_table_of_the_streamer_survives_its_upgrade(tmp_path: Path) -> None:
    path = foreign(tmp_path, "mor_v3") / "mor_v3"
    table = pyhudi.open_table(path)
    assert table.checkpoint() == "stock_ticks,0:3336"
    table.upgrade(to=6)
    table = pyhudi.open_table(path, options={"hoodie.index.type": "BLOOM"})
    one = table.scan(with_meta=False).to_arrow().slice(0, 1)
    table.ingest(one, checkpoint="stock_ticks,0:3337", after="stock_ticks,0:3336")
    assert pyhudi.open_table(path).checkpoint() == "stock_ticks,0:3337"


@pytest.mark.parametrize("wrong", [{"max_rows": 0}, {"max_bytes": 0}, {"max_seconds": 0.0}])
def test_limits_without_room_for_a_row_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="of a batch"):
        Stream(FileSource(tmp_path), made(tmp_path / "t"), **wrong)
