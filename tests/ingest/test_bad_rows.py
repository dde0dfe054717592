"""Rows that cannot be decoded or do not fit the table: fail, skip or error table."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import BadRowsError, OptionError
from pyhudi.ingest import REJECTED, ErrorTable, RejectedRows, SourceBatch, SourceLimits, Stream

SCHEMA = pa.schema({"id": pa.string(), "n": pa.int64()})


class Lines:
    """Batches of lines, `x` cannot be decoded.  texts: values of the column n."""

    def __init__(self, *batches: list[str], kind: pa.DataType | None = None) -> None:
        self._batches, self._kind = batches, kind or pa.int64()

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        number = int(checkpoint or 0)
        if number == len(self._batches):
            return None
        rejected = RejectedRows()
        rows = pa.schema({"id": pa.string(), "n": self._kind})

        def read() -> Iterator[pa.RecordBatch]:
            for at, text in enumerate(self._batches[number]):
                if text == "x":
                    values = [[b"x"], ["not a number"], [f"lines:{number}.{at}"]]
                    rejected.add(
                        pa.RecordBatch.from_arrays([pa.array(v) for v in values], schema=REJECTED)
                    )
                    continue
                value: Any = text if pa.types.is_string(self._kind) else int(text)
                yield pa.RecordBatch.from_pylist([{"id": f"k{number}{at}", "n": value}], rows)

        reader = pa.RecordBatchReader.from_batches(rows, read())
        return SourceBatch(reader, str(number + 1), rejected)


def made(tmp_path: Path) -> Any:
    return pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")


def stored(table: Any) -> list[int]:
    return sorted(pyhudi.open_table(table.path).scan(["n"]).to_arrow()["n"].to_pylist())


def test_a_bad_row_stops_the_batch_before_the_commit(tmp_path: Path) -> None:
    table = made(tmp_path)
    stream = Stream(Lines(["1"], ["2", "x", "3"]), table)
    assert stream.run_once() is not None
    with pytest.raises(BadRowsError, match=r"positions=lines:1\.1, reason=not a number"):
        stream.run_once()
    assert stored(table) == [1]
    assert table.checkpoint() == "1"


def test_bad_rows_are_skipped_with_a_count(tmp_path: Path) -> None:
    table = made(tmp_path)
    reports = list(Stream(Lines(["1", "x", "2"], ["x"]), table, bad_rows="skip").available())
    assert [(report.inserted, report.rejected) for report in reports] == [(2, 1), (0, 1)]
    assert stored(table) == [1, 2]
    assert table.checkpoint() == "2"


def test_bad_rows_go_to_an_error_table_once(tmp_path: Path) -> None:
    table = made(tmp_path)
    errors = ErrorTable(str(tmp_path / "errors"))
    stream = Stream(Lines(["1", "x"], ["x", "2"]), table, bad_rows=errors)
    assert [report.rejected for report in stream.available()] == [1, 1]
    again = Stream(Lines(["1", "x"], ["x", "2"]), table, bad_rows=errors, ignore_checkpoint="a")
    assert [report.rejected for report in again.available()] == [1, 1]
    found = pyhudi.open_table(tmp_path / "errors").scan(with_meta=False).to_arrow()
    rows = found.sort_by("position").to_pylist()
    assert [(row["raw"], row["reason"], row["position"]) for row in rows] == [
        (b"x", "not a number", "lines:0.1"),
        (b"x", "not a number", "lines:1.0"),
    ]
    assert {row["target"] for row in rows} == {table.path}


@pytest.mark.parametrize("how", [{"max_bad_rows": 1}, {"max_bad_share": 0.4}])
def test_too_many_bad_rows_stop_the_batch(tmp_path: Path, how: dict[str, Any]) -> None:
    table = made(tmp_path)
    stream = Stream(Lines(["1", "x", "2"], ["x", "x", "3"]), table, bad_rows="skip", **how)
    assert stream.run_once() is not None
    with pytest.raises(BadRowsError, match="bad_rows=2"):
        stream.run_once()
    assert stored(table) == [1, 2]


def test_rows_that_do_not_fit_the_table_are_bad(tmp_path: Path) -> None:
    table = made(tmp_path)
    source = Lines(["1", "many", "3"], kind=pa.string())
    with pytest.raises(BadRowsError, match=r"column n: not a value of type int64"):
        Stream(source, table).run_once()
    errors = ErrorTable(str(tmp_path / "errors"))
    report = Stream(source, table, bad_rows=errors).run_once()
    assert report is not None and (report.inserted, report.rejected) == (2, 1)
    assert stored(table) == [1, 3]
    row = pyhudi.open_table(tmp_path / "errors").scan(with_meta=False).to_arrow().to_pylist()[0]
    assert row["raw"] == b'{"id": "k01", "n": "many"}'
    assert row["position"].startswith("content:")  # the source states no places


class Numbered:
    """Rows k0, k1, ... with these texts, `size` a batch."""

    def __init__(self, texts: list[str], size: int) -> None:
        self._texts, self._size = texts, size

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        first = int(checkpoint or 0)
        texts = self._texts[first : first + self._size]
        if not texts:
            return None
        keys = [f"k{first + number}" for number in range(len(texts))]
        rows = pa.table({"id": keys, "n": texts})
        return SourceBatch(rows.to_reader(), str(first + len(texts)))


def plus(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    return reader.read_all().to_reader()


@pytest.mark.parametrize("transform", [None, plus])
def test_a_bad_row_is_stored_once_whatever_the_size_of_its_batch(
    tmp_path: Path, transform: Any
) -> None:
    """A process was killed before the commit of a batch whose bad rows it had stored; the next
    one reads a smaller batch."""
    table, errors = made(tmp_path), ErrorTable(str(tmp_path / "errors"))
    lines = [str(number) if number % 3 else f"bad{number % 2}" for number in range(12)]

    class Killed(BaseException):
        pass

    class Dying:
        """A table whose process ends before the commit."""

        def __getattr__(self, name: str) -> Any:
            return getattr(table, name)

        def ingest(self, rows: Any, **how: Any) -> Any:
            rows.read_all()
            raise Killed

    ordered = Numbered(lines, 12)
    with pytest.raises(Killed):
        Stream(ordered, Dying(), bad_rows=errors, transform=transform).run_once()  # type: ignore[arg-type]
    stream = Stream(Numbered(lines, 5), table, bad_rows=errors, transform=transform)
    assert sum(report.rejected for report in stream.available()) == 4
    raws = pyhudi.open_table(tmp_path / "errors").scan(["raw"]).to_arrow()["raw"].to_pylist()
    assert sorted(raws) == sorted(
        b'{"id": "k%d", "n": "bad%d"}' % (number, number % 2) for number in range(0, 12, 3)
    )


def test_ingests_that_begin_at_once_share_an_error_table(tmp_path: Path) -> None:
    """Each would create it, and each writes to it while the others do."""
    errors = ErrorTable(str(tmp_path / "errors"))
    failures: list[BaseException] = []

    def ingest(number: int) -> None:
        try:
            table = pyhudi.create_table(tmp_path / f"t{number}", SCHEMA, record_key="id")
            Stream(Lines(["1", "x"], ["x"]), table, bad_rows=errors).run()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ingest, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = pyhudi.open_table(tmp_path / "errors").scan(["target", "position"]).to_arrow()
    assert found.num_rows == 8 and len(found["target"].unique()) == 4


@pytest.mark.parametrize("key", [None, ""])
def test_rows_without_a_key_are_bad(tmp_path: Path, key: str | None) -> None:
    table = made(tmp_path)

    def without_key(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        rows = reader.read_all()
        keys = pa.array([key, *rows["id"].to_pylist()[1:]], pa.string())
        return rows.set_column(0, "id", keys).to_reader()

    stream = Stream(Lines(["1", "2"]), table, transform=without_key, bad_rows="skip")
    report = stream.run_once()
    assert report is not None and (report.inserted, report.rejected) == (1, 1)


def test_a_batch_without_the_key_column_has_only_bad_rows(tmp_path: Path) -> None:
    table = made(tmp_path)

    def without_column(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        return reader.read_all().drop_columns(["id"]).to_reader()

    source = Lines(["1", "2"])
    with pytest.raises(BadRowsError, match=r"column id: the record key is null or empty"):
        Stream(source, table, transform=without_column).run_once()
    report = Stream(source, table, transform=without_column, bad_rows="skip").run_once()
    assert report is not None and (report.inserted, report.rejected) == (0, 2)
    assert table.checkpoint() == "1"


def test_a_null_in_a_part_of_the_key_is_written(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key=["id", "n"])

    def without_id(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        rows = reader.read_all()
        return rows.set_column(0, "id", pa.nulls(rows.num_rows, pa.string())).to_reader()

    report = Stream(Lines(["1", "2"]), table, transform=without_id).run_once()
    assert report is not None and (report.inserted, report.rejected) == (2, 0)


@pytest.mark.parametrize(
    "how", [{"bad_rows": "ignore"}, {"max_bad_rows": -1}, {"max_bad_share": 1.5}]
)
def test_wrong_rules_are_errors(tmp_path: Path, how: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="bad rows"):
        Stream(Lines(), made(tmp_path), **how)
