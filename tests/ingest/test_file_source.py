"""Files of a folder as a source: formats, order, bad rows, what is listed."""

from __future__ import annotations

import errno
import io
import json
import os
import zlib
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from fastavro import block_reader, parse_schema, writer
from pyarrow import orc

import pyhudi
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    OptionError,
    SchemaError,
    StorageError,
    UserError,
)
from pyhudi.formats.avro_schema import arrow_to_avro
from pyhudi.ingest import (
    DateFolders,
    ErrorTable,
    FileSource,
    IngestState,
    IngestStatus,
    Retries,
    SourceBatch,
    SourceLimits,
    Stream,
)
from pyhudi.ingest.files.formats import FileFormat, read_rows
from tests.ingest.contract import (
    NO_COLUMNS,
    SCHEMA,
    UNLIMITED,
    SourceContract,
    SourceHarness,
    some_rows,
    values,
)

NOW = 1_700_000_000
FORMATS = ("parquet", "arrow", "avro", "orc", "csv", "json")


def write_avro(rows: pa.Table, path: Path, codec: str = "deflate") -> None:
    schema = parse_schema(json.loads(arrow_to_avro(rows.schema, name="row", namespace="")))
    with path.open("wb") as file:
        writer(file, schema, rows.to_pylist(), codec=codec, sync_interval=64)


def compressed_avro(plain: bytes, codec: str) -> bytes:
    """A container file of one block without compression, compressed by pyarrow."""
    head, sync, (block,) = plain[:-16], plain[-16:], list(block_reader(io.BytesIO(plain)))
    data = block.bytes_.getvalue()
    size = len(head) - len(data)
    start = head[: size - len(varint(len(data))) - len(varint(block.num_records))]
    name = {"zstandard": "zstd"}.get(codec, codec)
    crc = zlib.crc32(data).to_bytes(4, "big") if codec == "snappy" else b""
    packed = pa.compress(data, name, asbytes=True) + crc
    start = start.replace(b"\x08null", varint(len(codec)) + codec.encode())
    return start + varint(block.num_records) + varint(len(packed)) + packed + sync


def varint(number: int) -> bytes:
    """A positive number in the encoding of Avro."""
    value, found = number << 1, b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def write_lines(rows: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))


def write_arrow(rows: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as out:
        out.write_table(rows)


WRITERS: dict[str, Any] = {
    "parquet": pq.write_table, "arrow": write_arrow, "avro": write_avro,
    "orc": orc.write_table, "csv": pc.write_csv, "json": write_lines,
}  # fmt: skip


def put(folder: Path, name: str, rows: pa.Table | bytes, second: int) -> Path:
    """A file that was modified `second` seconds after NOW."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    else:
        WRITERS[path.suffix.removeprefix(".")](rows, path)
    os.utime(path, (NOW + second, NOW + second))
    return path


class FileHarness(SourceHarness):
    foreign_checkpoint = "topic,0:17"
    loses = FileMissingError

    def __init__(self, folder: Path, form: str, **how: Any) -> None:
        self.folder, self.form, self.count, self.how = folder / "in", form, 0, how
        self.folder.mkdir(parents=True)
        self.has_undecodable_rows = form in ("csv", "json")
        self.new_columns_are_text = form == "csv"

    def source(self) -> FileSource:
        return FileSource(self.folder, **self.how)

    def name(self) -> str:
        self.count += 1
        return f"{self.count:03}.{self.form}"

    def add(self, rows: pa.Table) -> None:
        put(self.folder, self.name(), rows, self.count)

    def lose(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()

    def add_undecodable(self) -> tuple[bytes, str]:
        name = self.name()
        if self.form == "csv":
            put(self.folder, name, b"id,ts,city\nk9,not a number,c\n", self.count)
            return b"k9,not a number,c", f"{name}:2"
        put(self.folder, name, b'\n{"id": "k9", "ts": }\n', self.count)
        return b'{"id": "k9", "ts": }', f"{name}:2"


class TestFileSource(SourceContract):
    @pytest.fixture(params=FORMATS)
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> FileHarness:
        return FileHarness(tmp_path, request.param)


class TestFilesInOrderOfNames(SourceContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> FileHarness:
        return FileHarness(tmp_path, "parquet", order="name")


class TestFilesWithLateOnes(SourceContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> FileHarness:
        return FileHarness(tmp_path, "parquet", late_seconds=3600)


class TestFilesThatAreArchived(SourceContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> FileHarness:
        archive = tmp_path / "archive"
        return FileHarness(tmp_path, "parquet", after_commit="archive", archive=archive)


def batch_of(
    source: FileSource, checkpoint: str | None = None, schema: pa.Schema = SCHEMA
) -> SourceBatch:
    batch = source.read(checkpoint, UNLIMITED, schema)
    assert batch is not None
    return batch


def ids(source: FileSource, checkpoint: str | None = None) -> list[str]:
    return sorted(batch_of(source, checkpoint).rows.read_all()["id"].to_pylist())


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_avro_files_are_decoded_with_each_codec(tmp_path: Path, codec: str) -> None:
    path = put(tmp_path, "a.avro", some_rows(0, 0), 1)
    if codec in ("snappy", "zstandard"):
        write_avro(some_rows(0, 4), path, "null")
        put(tmp_path, "a.avro", compressed_avro(path.read_bytes(), codec), 1)
    else:
        write_avro(some_rows(0, 4), path, codec)
        os.utime(path, (NOW, NOW))
    assert values(batch_of(FileSource(tmp_path)).rows.read_all()) == values(some_rows(0, 4))


def test_a_snappy_block_of_avro_with_another_checksum_is_corrupt(tmp_path: Path) -> None:
    path = put(tmp_path, "a.avro", some_rows(0, 0), 1)
    write_avro(some_rows(0, 4), path, "null")
    data = bytearray(compressed_avro(path.read_bytes(), "snappy"))
    data[-17] ^= 1
    put(tmp_path, "a.avro", bytes(data), 1)
    batch = batch_of(FileSource(tmp_path))
    assert batch.rows.read_all().num_rows == 0
    assert "checksum" in batch.rejected.take()["reason"][0].as_py()


def test_nested_avro_values_are_decoded(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "at": [{"x": 1, "tags": ["p", None]}, None]})
    put(tmp_path, "a.avro", rows, 1)
    found = batch_of(FileSource(tmp_path), schema=NO_COLUMNS).rows.read_all()
    assert found.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("cut", [3, 20, 150, -1, -17, -30])
def test_an_avro_file_that_ends_early_is_corrupt(tmp_path: Path, cut: int) -> None:
    path = put(tmp_path, "a.avro", some_rows(0), 1)
    put(tmp_path, "a.avro", path.read_bytes()[:cut], 1)
    batch = batch_of(FileSource(tmp_path))
    read = batch.rows.read_all().num_rows
    assert isinstance(batch.rejected.error, CorruptFileError)
    rejected = batch.rejected.take().to_pylist()
    assert [row["position"] for row in rejected] == [f"a.avro:{read + 1}" if read else "a.avro"]
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    with pytest.raises(CorruptFileError, match=r"a\.avro"):
        Stream(FileSource(tmp_path, pattern="*.avro"), table).run_once()
    assert pyhudi.open_table(tmp_path / "t").checkpoint() is None


def test_bad_lines_among_many_are_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = [json.dumps(row).encode() for row in some_rows(0, 5000).to_pylist()]
    bad = {0: b"", 17: b"{", 18: b"[1]", 4000: b'{"id": "x", "ts": "text"}',
           4999: b'{"id": "\xff", "ts": 1}'}  # fmt: skip
    for number, line in bad.items():
        lines[number] = line
    put(tmp_path, "a.json", b"\n".join(lines), 1)
    batch = batch_of(FileSource(tmp_path))
    assert batch.rows.read_all().num_rows == 4995
    rejected = {row["position"]: row["raw"] for row in batch.rejected.take().to_pylist()}
    assert rejected == {f"a.json:{n + 1}": line for n, line in bad.items() if line}


def test_lines_of_json_longer_than_a_block_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.ingest.files.json_lines._BLOCK_BYTES", 50)
    wide = pa.table({"id": ["a", "b" * 500, "c"], "ts": [1, 2, 3]})
    put(tmp_path, "a.json", wide, 1)
    assert ids(FileSource(tmp_path)) == ["a", "b" * 500, "c"]


def test_fields_of_json_that_no_line_has_are_null(tmp_path: Path) -> None:
    put(tmp_path, "a.json", b'{"id": "a", "new": 1.5}\n{"id": "b", "new": 2}\n', 1)
    rows = batch_of(FileSource(tmp_path)).rows.read_all()
    assert {field.name: str(field.type) for field in rows.schema} == {
        "id": "string", "new": "double", "ts": "int64", "city": "string",
    }  # fmt: skip
    assert rows["ts"].null_count == rows["city"].null_count == 2


def test_bad_rows_of_csv_are_rejected_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.ingest.files.csv_rows._BLOCK_BYTES", 2000)
    lines = [f"k{n},{n},c" for n in range(1000)]
    lines[5], lines[300], lines[600], lines[601] = "a,b", "k300,x,c", "1,2,3,4", "k601,1.5,c"
    put(tmp_path, "a.csv", "\n".join(["id,ts,city", *lines]).encode(), 1)
    batch = batch_of(FileSource(tmp_path))
    assert batch.rows.read_all()["ts"].to_pylist() == [
        n for n in range(1000) if n not in (5, 300, 600, 601)
    ]
    rejected = {row["position"]: row["raw"] for row in batch.rejected.take().to_pylist()}
    assert rejected == {
        "a.csv:7": b"a,b", "a.csv:302": b"k300,x,c", "a.csv:602": b"1,2,3,4",
        "a.csv:603": b"k601,1.5,c",
    }  # fmt: skip


def test_csv_files_may_have_another_delimiter_and_no_header(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", b'a;1;"x;y"\nb;2;\n', 1)
    found = batch_of(FileSource(tmp_path, delimiter=";", header=False)).rows.read_all()
    assert found.to_pylist() == [
        {"id": "a", "ts": 1, "city": "x;y"},
        {"id": "b", "ts": 2, "city": None},
    ]


def test_an_empty_file_of_text_has_no_rows(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", b"", 1)
    put(tmp_path, "b.json", b"", 2)
    put(tmp_path, "c.parquet", some_rows(0, 1), 3)
    assert ids(FileSource(tmp_path)) == ["k0000"]


def test_a_late_file_is_read_within_the_window_only(tmp_path: Path) -> None:
    source = FileSource(tmp_path, late_seconds=100)
    put(tmp_path, "a.parquet", some_rows(0, 1), 1000)
    first = batch_of(source)
    put(tmp_path, "late.parquet", some_rows(1, 1), 950)
    put(tmp_path, "too_late.parquet", some_rows(2, 1), 800)
    second = batch_of(source, first.checkpoint)
    assert second.rows.read_all()["id"].to_pylist() == ["k0001"]
    assert source.read(second.checkpoint, UNLIMITED, SCHEMA) is None


def test_a_checkpoint_of_apache_hudi_is_continued_with_a_window(tmp_path: Path) -> None:
    put(tmp_path, "read.parquet", some_rows(0, 1), 1000)
    put(tmp_path, "new.parquet", some_rows(1, 1), 1001)
    assert ids(FileSource(tmp_path, late_seconds=100), str((NOW + 1000) * 1000)) == ["k0001"]


def test_the_list_of_files_in_a_checkpoint_is_bounded_by_the_window(tmp_path: Path) -> None:
    source, checkpoint = FileSource(tmp_path, late_seconds=10), None
    for number in range(30):
        put(tmp_path, f"{number}.parquet", some_rows(number, 1), number)
        checkpoint = batch_of(source, checkpoint).checkpoint
    assert checkpoint is not None and len(checkpoint.split(",")) == 10


def test_a_file_that_is_too_young_holds_back_later_names(tmp_path: Path) -> None:
    put(tmp_path, "1.parquet", some_rows(0, 1), 1)
    WRITERS["parquet"](some_rows(1, 1), tmp_path / "2.parquet")  # now
    put(tmp_path, "3.parquet", some_rows(2, 1), 1)
    assert ids(FileSource(tmp_path, order="name", quiet_seconds=3600)) == ["k0000"]


def test_patterns_match_names_or_paths_and_folders_may_be_left_out(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", some_rows(0, 1), 1)
    put(tmp_path, "eu/b.parquet", some_rows(1, 1), 2)
    put(tmp_path, "eu/skip.csv", some_rows(2, 1), 3)
    put(tmp_path, "_bad/c.parquet", some_rows(3, 1), 4)
    put(tmp_path, "d.parquet.tmp", b"", 5)
    assert ids(FileSource(tmp_path, pattern="*.parquet")) == ["k0000", "k0001"]
    assert ids(FileSource(tmp_path, pattern="eu/*.parquet")) == ["k0001"]
    assert ids(FileSource(tmp_path, recursive=False)) == ["k0000"]
    assert ids(FileSource(tmp_path, ignored=("eu", "_"))) == ["k0000"]


def test_only_recent_folders_of_dates_are_listed(tmp_path: Path) -> None:
    for number, day in enumerate(["2026-01-01", "2026-01-04", "2026-01-05"]):
        put(tmp_path, f"eu/day={day}/a.parquet", some_rows(number, 1), number)
    put(tmp_path, "eu/other/a.parquet", some_rows(9, 1), 9)
    dates = DateFolders(depth=1, lookback_days=1, today=date(2026, 1, 5))
    assert ids(FileSource(tmp_path, dates=dates)) == ["k0001", "k0002", "k0009"]


@pytest.mark.parametrize("how", ["delete", "archive"])
def test_files_are_removed_after_their_commit(tmp_path: Path, how: str) -> None:
    put(tmp_path / "in", "deep/a.parquet", some_rows(0), 1)
    archive = tmp_path / "old" if how == "archive" else None
    batch = batch_of(FileSource(tmp_path / "in", after_commit=how, archive=archive))
    batch.rows.read_all()
    assert (tmp_path / "in" / "deep" / "a.parquet").exists()
    batch.committed()
    assert not (tmp_path / "in" / "deep" / "a.parquet").exists()
    if archive is not None:
        assert values(pq.read_table(archive / "deep" / "a.parquet")) == values(some_rows(0))


def test_files_are_opened_when_their_rows_are_read(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, f"{number}.parquet", some_rows(number * 10), number)
    before = len(os.listdir("/proc/self/fd"))
    batch = batch_of(FileSource(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(batch.splits) == 3


def test_only_the_oldest_files_of_many_are_retained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.ingest.files.source._WAITING_MAX", 4)
    for number in (5, 3, 9, 1, 7, 2, 8, 4, 6, 0):
        put(tmp_path, f"{9 - number}.parquet", some_rows(number, 1), number)
    source, checkpoint, found = FileSource(tmp_path), None, []
    while (batch := source.read(checkpoint, SourceLimits(None, 1), SCHEMA)) is not None:
        found += batch.rows.read_all()["id"].to_pylist()
        checkpoint = batch.checkpoint
    assert found == [f"k{n:04}" for n in range(10)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "xml"}, {"order": "size"}, {"after_commit": "rename"},
        {"after_commit": "archive"}, {"archive": "old"}, {"late_seconds": -1.0},
        {"late_seconds": 5.0, "order": "name"},
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        FileSource(tmp_path, **wrong)


def test_rows_of_files_without_a_common_type_are_rejected(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", pa.table({"id": ["a"]}), 1)
    put(tmp_path, "b.parquet", pa.table({"id": [{"x": 1}]}), 2)
    batch = batch_of(FileSource(tmp_path))
    assert batch.rows.read_all()["id"].to_pylist() == ["a"]
    (row,) = batch.rejected.take().to_pylist()
    assert (row["position"], row["raw"]) == ("b.parquet:1", b'{"id": {"x": 1}}')
    assert row["reason"] == "column id: not a value of type string"


@pytest.mark.parametrize("bad_rows", ["fail", "skip"])
def test_json_files_for_a_table_with_a_map_column_end_the_run(
    bad_rows: Any, tmp_path: Path
) -> None:
    schema = pa.schema({"id": pa.string(), "m": pa.map_(pa.string(), pa.int64())})
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    put(tmp_path / "in", "a.json", b'{"id": "a"}\n{"id": "b"}\n', 0)
    with pytest.raises(SchemaError, match="map column"):
        Stream(FileSource(tmp_path / "in"), table, bad_rows=bad_rows).run_once()
    assert not pyhudi.open_table(tmp_path / "t").timeline.commits


def test_numbers_as_times_do_not_depend_on_the_batches(tmp_path: Path) -> None:
    found = []
    put(
        tmp_path / "in",
        "a.parquet",
        pa.table({"id": ["a"], "v": pa.array([1000], pa.timestamp("ns"))}),
        0,
    )
    put(tmp_path / "in", "b.parquet", pa.table({"id": ["b"], "v": [20_000]}), 1)
    for rows_max in (None, 1):
        path = tmp_path / f"t{len(found)}"
        table = pyhudi.create_table(path, pa.schema({"id": pa.string()}), record_key="id")
        Stream(FileSource(tmp_path / "in"), table, max_rows=rows_max).run()
        rows = pyhudi.open_table(path).scan(["id", "v"]).to_arrow().sort_by("id")
        found.append(rows["v"].cast(pa.int64()).to_pylist())
    assert found == [[1, 20_000], [1, 20_000]]


def test_files_whose_structs_conflict_lose_no_field(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", pa.table({"d": [{"q": 1}], "l": [[{"q": 1}]]}), 1)
    put(
        tmp_path, "b.parquet", pa.table({"d": [{"q": "5", "r": 2}], "l": [[{"q": "5", "r": 2}]]}), 2
    )
    rows = batch_of(FileSource(tmp_path)).rows.read_all().to_pylist()
    assert [(row["d"], row["l"]) for row in rows] == [
        (value, [value]) for value in ({"q": 1, "r": None}, {"q": 5, "r": 2})
    ]


def test_objects_with_a_field_that_an_earlier_file_decided_against_are_rejected(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a.json", b'{"id": "a", "d": {"y": 1}}\n', 1)
    lines = b'{"id": "b", "d": "x"}\n{"id": "c", "d": {"y": 2}}\n{"id": "e", "d": {"z": 7}}\n'
    put(tmp_path, "b.json", lines, 2)
    batch = batch_of(FileSource(tmp_path))
    assert batch.rows.read_all()["d"].to_pylist() == [{"y": 1}, {"y": 2}]
    assert batch.rejected.take()["position"].to_pylist() == ["b.json:1", "b.json:3"]


def test_one_file_is_read_up_to_its_first_bad_line(tmp_path: Path) -> None:
    path = put(tmp_path, "a.json", b'{"id": "a"}\n{"id": \n', 1)
    rows = read_rows(lambda: pa.OSFile(str(path)), "a.json", FileFormat(), SCHEMA)
    with pytest.raises(CorruptFileError, match=r"cannot be decoded.*a\.json:2"):
        rows.read_all()


def test_a_batch_ends_at_a_file_when_its_time_has_passed(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path, f"{number}.parquet", some_rows(number * 10), number // 2)
    source, counts, checkpoint = FileSource(tmp_path), [], None
    while (batch := source.read(checkpoint, SourceLimits(None, None, 1e-6), SCHEMA)) is not None:
        counts.append(batch.rows.read_all().num_rows)
        checkpoint = batch.checkpoint
    assert counts == [20, 20]  # files of one modification time belong together


def test_a_row_of_a_file_that_does_not_fit_is_rejected_with_its_place(tmp_path: Path) -> None:
    """The number of the row in its file, whichever files are in the batch."""
    for name, at in (("a", 1), ("b", 2)):
        rows = pa.table({"id": ["x", None, "y", None], "ts": [1, 2, 3, 4]})
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(rows, tmp_path / "in" / f"{name}.parquet", row_group_size=1)
        os.utime(tmp_path / "in" / f"{name}.parquet", (1_700_000_000 + at,) * 2)
    schema = pa.schema({"id": pa.string(), "ts": pa.int64()})
    for number, limit in enumerate((None, 1)):
        table = pyhudi.create_table(tmp_path / f"t{number}", schema, record_key="id")
        errors = ErrorTable(str(tmp_path / f"errors{number}"))
        Stream(FileSource(tmp_path / "in"), table, bad_rows=errors, max_rows=limit).run()
        found = pyhudi.open_table(errors.path).scan(["position"]).to_arrow()["position"]
        assert sorted(found.to_pylist()) == [
            "a.parquet+2", "a.parquet+4", "b.parquet+2", "b.parquet+4",
        ]  # fmt: skip


def test_a_folder_that_does_not_exist_ends_a_continuous_run(tmp_path: Path) -> None:
    """It may be on a disk that is not mounted: without an error nobody would notice."""
    schema = pa.schema({"id": pa.string()})
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    source, states = FileSource(tmp_path / "in"), list[IngestStatus]()
    with pytest.raises(UserError, match=r"does not exist; folder=.*; create it, mount its disk"):
        Stream(source, table).run(continuous=True, on_status=states.append)
    assert states[-1].state is IngestState.FAILED
    with pytest.raises(UserError, match="does not exist"):
        source.lag(None)
    (tmp_path / "in").mkdir()
    assert Stream(source, table).run_once() is None
    assert source.lag(None).files == 0


def test_a_folder_that_cannot_be_read_ends_a_continuous_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pyhudi.create_table(tmp_path / "t", pa.schema({"id": pa.string()}), record_key="id")
    (tmp_path / "in").mkdir()
    scandir = os.scandir

    def denied(path: Any) -> Any:
        if str(path).endswith("in"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(StorageError, match=r"permission denied; path=.*in") as caught:
        Stream(FileSource(tmp_path / "in"), table).run(continuous=True)
    assert not caught.value.retryable


@pytest.mark.parametrize("is_listed_only", [True, False])
def test_a_file_that_is_removed_before_it_is_read_is_left_out_by_the_next_attempt(
    tmp_path: Path, is_listed_only: bool
) -> None:
    schema = pa.schema({"id": pa.string()})
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    (tmp_path / "in").mkdir()
    for number, name in enumerate("ab"):
        pq.write_table(pa.table({"id": [name]}), tmp_path / "in" / f"{name}.parquet")
        os.utime(tmp_path / "in" / f"{name}.parquet", (1_700_000_000 + number,) * 2)
    states: list[IngestStatus] = []

    def removed() -> None:
        (tmp_path / "in" / "b.parquet").unlink(missing_ok=True)

    class Shrinking(FileSource):
        def read(self, *arguments: Any) -> Any:
            batch = super().read(*arguments)
            removed()
            return batch

        def _sized(self, *arguments: Any) -> Any:
            if is_listed_only:
                removed()
            return super()._sized(*arguments)

    rules = Retries(3, first_seconds=0.01, max_seconds=0.02)
    Stream(Shrinking(tmp_path / "in"), table).run(retries=rules, on_status=states.append)
    assert table.scan(["id"]).to_arrow()["id"].to_pylist() == ["a"]
    retried = [state.error or "" for state in states if state.state is IngestState.RETRYING]
    assert len(retried) == 1
    assert "b.parquet" in retried[0] and "removed before it was read" in retried[0]


def test_timestamps_of_96_bits_are_read_at_the_ends_of_their_range(tmp_path: Path) -> None:
    times = [datetime(1, 1, 1), datetime(1600, 1, 1), datetime(2300, 1, 1), datetime(9999, 12, 31)]
    rows = pa.table({"id": ["a", "b", "c", "d"], "at": pa.array(times, pa.timestamp("us"))})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    batch = batch_of(FileSource(str(tmp_path), quiet_seconds=0), schema=rows.schema)
    assert batch.rows.read_all()["at"].to_pylist() == times


def test_a_named_pipe_in_the_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.parquet")
    with pytest.raises(StorageError, match="neither a file nor a folder"):
        FileSource(str(tmp_path), quiet_seconds=0).read(None, UNLIMITED, SCHEMA)


LACKING = {
    "a column": (pa.field("price", pa.int64()), None, "price"),
    "a field of a struct": (
        pa.field("at", pa.struct({"x": pa.int64(), "y": pa.int64()})),
        pa.field("at", pa.struct({"x": pa.int64()})),
        "at.y",
    ),
    "a field in a list": (
        pa.field("all", pa.list_(pa.struct({"x": pa.int64(), "y": pa.int64()}))),
        pa.field("all", pa.list_(pa.struct({"x": pa.int64()}))),
        "all.element.y",
    ),
}


@pytest.mark.parametrize("form", ["parquet", "arrow", "avro", "orc"])
@pytest.mark.parametrize("case", LACKING)
def test_a_file_without_a_column_is_refused_alone_and_with_others(
    tmp_path: Path, form: str, case: str
) -> None:
    """Else its values would depend on which files are read together."""
    whole, part, path = LACKING[case]
    key = pa.field("id", pa.string())
    value = {"price": 1, "at": {"x": 1, "y": 2}, "all": [{"x": 1, "y": 2}]}[whole.name]
    full = pa.table({"id": ["a"], whole.name: [value]}, schema=pa.schema([key, whole]))
    lacking = pa.Table.from_pylist(
        [{"id": "a", **({whole.name: value} if part else {})}],
        pa.schema([key, *([part] * bool(part))]),
    )
    put(tmp_path / "in", f"1.{form}", lacking, 1)
    for number, files in enumerate(((), (full,))):
        for file in files:
            put(tmp_path / "in", f"2.{form}", file, 1)
        table = pyhudi.create_table(tmp_path / f"t{number}", full.schema, record_key="id")
        table.insert(full)
        with pytest.raises(SchemaError, match=path) as refused:
            Stream(FileSource(tmp_path / "in"), table).run_once()
        assert not files or f"1.{form}" in str(refused.value)
        assert table.scan().to_arrow().select(full.column_names).equals(full)
    filled = pyhudi.open_table(
        tmp_path / "t1", options={"hoodie.write.set.null.for.missing.columns": "true"}
    )
    put(tmp_path / "in", f"2.{form}", full.slice(0, 0), 1)
    Stream(FileSource(tmp_path / "in"), filled).run_once()
    (row,) = filled.scan([whole.name]).to_arrow().to_pylist()
    assert row[whole.name] != value


def test_a_column_that_is_new_to_the_table_may_be_missing_in_other_files(tmp_path: Path) -> None:
    put(tmp_path / "in", "1.parquet", pa.table({"id": ["a"]}), 1)
    put(tmp_path / "in", "2.parquet", pa.table({"id": ["b"], "new": [1]}), 2)
    table = pyhudi.create_table(tmp_path / "t", pa.schema({"id": pa.string()}), record_key="id")
    Stream(FileSource(tmp_path / "in"), table).run_once()
    found = table.scan(["id", "new"]).to_arrow().sort_by("id")
    assert found.to_pylist() == [{"id": "a", "new": None}, {"id": "b", "new": 1}]
