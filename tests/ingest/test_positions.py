"""Checkpoints are moved by `checkpoint` and `ignore_checkpoint` once, as by Apache Hudi."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CheckpointMovedError, WriteConflictError
from pyhudi.ingest import FileSource, Stream
from tests.ingest.test_streams import NOW, ids, made, put, rows
from tests.support.inside import state_of

START = str((NOW + 1) * 1000)


def folder(tmp_path: Path) -> Path:
    for number in range(3):
        put(tmp_path / "in", f"{number}.parquet", rows(number * 10), number)
    return tmp_path / "in"


@pytest.mark.parametrize("version", [6, 9])
def test_a_checkpoint_of_the_run_takes_effect_once(tmp_path: Path, version: int) -> None:
    table, source = made(tmp_path / "t", version=version), FileSource(folder(tmp_path))
    assert [r.inserted for r in Stream(source, table, checkpoint=START).available()] == [10]
    assert ids(table) == [f"k{n:04}" for n in range(20, 30)]
    again = Stream(source, table, checkpoint=START)
    assert list(again.available()) == []
    other = Stream(source, table, checkpoint=str(NOW * 1000))
    assert [r.inserted for r in other.available()] == [10]


def test_a_new_text_of_ignore_checkpoint_reads_the_source_again(tmp_path: Path) -> None:
    table, source = made(tmp_path / "t"), FileSource(folder(tmp_path))
    assert [r.inserted for r in Stream(source, table).available()] == [30]
    again = Stream(source, table, ignore_checkpoint="first")
    assert [(r.inserted, r.updated) for r in again.available()] == [(0, 30)]
    assert list(Stream(source, table, ignore_checkpoint="first").available()) == []


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (6, ("deltastreamer.checkpoint.key", "deltastreamer.checkpoint.reset_key")),
        (8, ("streamer.checkpoint.key.v2", "streamer.checkpoint.reset.key.v2")),
    ],
)
def test_the_commit_repeats_the_texts_under_the_names_of_the_streamer(
    tmp_path: Path, version: int, names: tuple[str, str]
) -> None:
    table = made(tmp_path / "t", version=version)
    source = FileSource(folder(tmp_path))
    assert Stream(source, table, checkpoint=START, ignore_checkpoint="x").run_once() is not None
    state = state_of(table)
    extra = state.log.commit(state.timeline.commits.instants[-1]).extra
    assert {name: text for name, text in extra.items() if "checkpoint" in name} == {
        names[0]: str((NOW + 2) * 1000),
        names[1]: START,
        "deltastreamer.checkpoint.ignore_key": "x",
    }


def test_an_ingest_that_another_has_passed_names_both_checkpoints(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.ingest(rows(0), checkpoint="1", after=None)
    with pytest.raises(CheckpointMovedError, match=r"expected=0, found=1"):
        table.ingest(rows(0), checkpoint="2", after="0")


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
@pytest.mark.parametrize("version", [6, 9])
def test_an_ingest_that_another_passes_while_it_writes_is_refused(
    tmp_path: Path, operation: str, version: int
) -> None:
    """The other one commits other keys, between the first check and the commit of this one."""
    table = made(tmp_path / "t", version=version)
    table.ingest(rows(90, 1), checkpoint="0", after=None)
    first = rows(0, 5)

    def read() -> Iterator[pa.RecordBatch]:
        other = pyhudi.open_table(tmp_path / "t")
        other.ingest(rows(50, 5), checkpoint="1", after="0", operation=operation)
        yield from first.to_batches()

    reader = pa.RecordBatchReader.from_batches(first.schema, read())
    with pytest.raises(WriteConflictError):
        table.ingest(reader, checkpoint="1", after="0", operation=operation)
    assert ids(table) == [f"k{n:04}" for n in (*range(50, 55), 90)]
    assert table.checkpoint() == "1"


def test_rows_with_existing_keys_are_skipped(tmp_path: Path) -> None:
    for index in ("record", "bloom"):
        table = made(tmp_path / index, index=index)
        table.upsert(rows(0, 5, ts=1))
        report = table.ingest(
            rows(3, 5, ts=9), checkpoint="1", after=None, operation="insert", skip_existing=True
        )
        assert report.inserted == 3
        found = pyhudi.open_table(table.path).scan(["id", "ts"]).to_arrow()
        stored = dict(zip(*found.to_pydict().values(), strict=True))
        assert stored == {f"k{n:04}": 1 if n < 5 else 9 for n in range(8)}


def test_skipping_refuses_updates_and_new_columns(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(pyhudi.UserError, match="inserts only"):
        table.ingest(rows(0), checkpoint="1", after=None, skip_existing=True)
    wider = rows(0).append_column("extra", rows(0)["ts"])
    with pytest.raises(pyhudi.SchemaError, match="extra"):
        table.ingest(wider, checkpoint="1", after=None, operation="insert", skip_existing=True)


def test_a_batch_without_a_checkpoint_leaves_that_of_the_table(tmp_path: Path) -> None:
    table, source = made(tmp_path / "t"), FileSource(folder(tmp_path))
    table.ingest(rows(50, 1), checkpoint="0", after=None)
    once = Stream(source, table, saves_checkpoint=False)
    assert once.run_once() is not None
    assert table.checkpoint() == "0"
    for endless in (lambda: list(once.available()), once.run):
        with pytest.raises(pyhudi.OptionError, match="one batch"):
            endless()
