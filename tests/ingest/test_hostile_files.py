"""Text of CSV stays text, and no line or file ends an ingest."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import BadRowsError, CorruptFileError, OptionError, PyhudiError
from pyhudi.ingest import CsvDialect, ErrorTable, FileSource, Stream
from tests.ingest.hostile import expected_rows, json_texts
from tests.ingest.test_file_source import FORMATS, put

TEXT = pa.schema({name: pa.string() for name in ("id", "country", "name", "zip", "note")})
COUNTRIES = (
    b'id,country,name,zip,note\nr1,NA,Null,00501,"NA"\nr2,DE,nan,01234,""\nr3,N/A,null,10115,\n'
    b'NA,FR,x,75001,"null"\n'
)
SIZES = pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 300), *(pytest.param(seed, 2500, marks=pytest.mark.slow) for seed in range(100, 104))],
)


def ingest(tmp_path: Path, schema: pa.Schema, **how: Any) -> Any:
    """The rows, the rejected rows by position, and the report."""
    if not (tmp_path / "t").exists():
        pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    errors = ErrorTable(str(tmp_path / "errors"))
    source = FileSource(tmp_path / "in", quiet_seconds=0, **how)
    table = pyhudi.open_table(tmp_path / "t")
    report = Stream(source, table, "insert", bad_rows=errors).run_once()
    assert report is not None
    found = pyhudi.open_table(tmp_path / "t").scan(with_meta=False).to_arrow()
    if "at" in found.column_names:  # Python has fewer years
        place = found.column_names.index("at")
        found = found.set_column(place, "at", found["at"].cast(pa.int64()))
    rows = found.to_pylist()
    bad = {}
    if report.rejected:
        found = pyhudi.open_table(tmp_path / "errors").scan(with_meta=False).to_arrow().to_pylist()
        bad = {row["position"]: row["raw"] for row in found}
    return rows, bad, report


@pytest.mark.parametrize("schema", [TEXT, pa.schema({"id": pa.string()})])
def test_text_of_csv_stays_text(tmp_path: Path, schema: pa.Schema) -> None:
    put(tmp_path / "in", "a.csv", COUNTRIES, 1)
    rows, bad, _ = ingest(tmp_path, schema)
    assert [list(row.values()) for row in rows] == [
        ["r1", "NA", "Null", "00501", "NA"], ["r2", "DE", "nan", "01234", ""],
        ["r3", "N/A", "null", "10115", None], ["NA", "FR", "x", "75001", "null"],
    ]  # fmt: skip
    assert not bad


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (b'id,v\na,NA\nb,"NA"\nc,\nd,""\n', {"null_value": "NA"}, [None, None, None, ""]),
        (b'id,v\na,""\nb,\n', {"null_value": ""}, [None, None]),
        (b'id,v\na,""\nb,\n', {"empty_value": "E"}, ["E", None]),
        (b"id;v\na;'x;''y'\n", {"delimiter": ";", "quote": "'"}, ["x;'y"]),
        (b'id,v\na,"x\\"y"\nb,"x""y"\n', {"escape": "\\"}, ['x"y', 'x"y']),
        (b'id,v\n#a,b\na,"#x"\n', {"comment": "#"}, ["#x"]),
        ("id,v\na,café\n".encode("latin-1"), {"encoding": "ISO-8859-1"}, ["café"]),
        ("id,v\na,café\n".encode("utf-16"), {"encoding": "UTF-16"}, ["café"]),
        (b'id,v\na, x \nb," x "\n', {"trims_left": True, "trims_right": True}, ["x", " x "]),
        (b"\xef\xbb\xbfid,v\r\na,x\r\n\r\nb,y\rc,z", {}, ["x", "y", "z"]),
        (b'id,v\na,"x\ny"\n', {}, ["x\ny"]),
        (b'id,v\na,x"y\n', {}, ['x"y']),
        (b'id,v\na,"x"\n', {"quote": ""}, ['"x"']),
    ],
)
def test_options_of_csv(
    tmp_path: Path, data: bytes, options: dict[str, Any], expected: list[Any]
) -> None:
    put(tmp_path / "in", "a.csv", data, 1)
    schema = pa.schema({"id": pa.string(), "v": pa.string()})
    rows, bad, _ = ingest(tmp_path, schema, csv=CsvDialect(**options))
    assert [row["v"] for row in rows] == expected
    assert not bad


def test_lines_of_csv_that_are_no_rows_are_rejected(tmp_path: Path) -> None:
    lines = [b"id,n", b"a,1", b"b", b"c,1,2", b'd,"1"x', b"e,NA", b"f\xff,1", b"g,1e400", b",1",
             b"h,9223372036854775808", b"i,2", b'j,"3', b"k,4"]  # fmt: skip
    put(tmp_path / "in", "a.csv", b"\n".join(lines), 1)
    rows, bad, _ = ingest(tmp_path, pa.schema({"id": pa.string(), "n": pa.int64()}))
    assert rows == [{"id": "a", "n": 1}, {"id": "i", "n": 2}]
    positions = {p: raw for p, raw in bad.items() if p.startswith("a.csv:")}
    assert positions == {
        **{f"a.csv:{n}": lines[n - 1] for n in (3, 4, 5, 6, 7, 8, 10)},
        "a.csv:12": b'j,"3\nk,4',
    }
    assert len(bad) == len(positions) + 1  # the row without a key


def test_line_breaks_end_a_quote_if_values_have_none(tmp_path: Path) -> None:
    put(tmp_path / "in", "a.csv", b'id,v\na,"x\nb,y\nc,"z"\n', 1)
    schema = pa.schema({"id": pa.string(), "v": pa.string()})
    rows, bad, _ = ingest(tmp_path, schema, csv=CsvDialect(multi_line=False))
    assert [row["id"] for row in rows] == ["b", "c"]
    assert bad == {"a.csv:2": b'a,"x'}


@pytest.mark.parametrize(
    "wrong", [{"delimiter": "||"}, {"quote": "é"}, {"escape": ""}, {"encoding": "utf-99"},
              {"comment": "\n"}],
)  # fmt: skip
def test_options_of_csv_that_cannot_be_honoured_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        CsvDialect(**wrong)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_compressed_text_is_read(tmp_path: Path, form: str) -> None:
    text = b"id,n\na,1\n" if form == "csv" else b'{"id":"a","n":1}\n'
    put(tmp_path / "in", f"a.{form}.gz", gzip.compress(text), 1)
    put(tmp_path / "in", f"b.{form}.gz", gzip.compress(text)[:-9], 2)
    rows, bad, _ = ingest(tmp_path, pa.schema({"id": pa.string(), "n": pa.int64()}))
    assert rows == [{"id": "a", "n": 1}]
    assert bad.keys() == {f"b.{form}.gz"}


CRASHES = [
    b"null\n", b"null\nnull\n", b'{"id":"a","v":1}\nnull\nbad\n', b"{bad\nnull\n", b"[\n", b"\n",
    b"  \n", b'{"id":"a","o":\n{"id":"b"}}\n', b"[" * 100_000, b'{"a":' * 100_000, b"\0" * 100,
    b'{"id":"a","d":"1e-2147483600"}\n', b'{"id":"a","d":1e-90000000}\n',
    b'{"id":"a","v":[[[[null]]]]}\n', b'{"":{"":{"":null}}}\n', b'{"id":null}\n', b'{"v":1}\n',
]  # fmt: skip
PROGRAM = """
import sys, pathlib, pyarrow as pa, pyhudi
from pyhudi.ingest import FileSource, Stream
folder = pathlib.Path(sys.argv[1])
schema = pa.schema({"id": pa.string(), "v": pa.int64(), "d": pa.decimal128(10, 2)})
for path in sorted((folder / "in").iterdir()):
    table = pyhudi.create_table(folder / ("t" + path.name), schema, record_key="id")
    Stream(FileSource(folder / "in", pattern=path.name), table, bad_rows="skip").run_once()
print("alive")
"""


def test_no_line_of_json_ends_the_process(tmp_path: Path) -> None:
    for number, text in enumerate(CRASHES):
        put(tmp_path / "in", f"{number:02}.json", text, 1)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


@SIZES
def test_lines_of_json_are_rows_or_bad_rows(tmp_path: Path, seed: int, count: int) -> None:
    from tests.ingest.hostile import SCHEMA

    texts = [text.replace(b"\n", b" ") for text in json_texts(random.Random(seed), count)]
    put(tmp_path / "in", "a.json", b"\n".join([b"{}", *texts]), 1)
    rows, bad, report = ingest(tmp_path, SCHEMA)
    expected = expected_rows(texts)
    assert {row["id"] for row in rows} == {row["id"] for row in expected.values()}
    assert len(rows) == len(expected)
    blank = sum(not text.strip() for text in texts)
    assert report.rejected == len(bad) == len(texts) + 1 - len(rows) - blank
    at_lines = {p: raw for p, raw in bad.items() if p.startswith("a.json:")}
    for position, raw in at_lines.items():
        number = int(position.partition(":")[2])
        assert raw == texts[number - 2].rstrip(b"\r") and number - 2 not in expected


def csv_row(draw: random.Random, number: int) -> tuple[bytes, dict[str, Any] | None]:
    """A line, and its row; None: a bad one."""
    values = ["NA", "null", "", " x ", "a,b", 'q"q', "é", "0012", "\r\nz", "-", "1e5"]
    note = draw.choice(values)
    is_quoted = draw.random() < 0.5 or any(mark in note for mark in ',"\r\n')
    text = '"' + note.replace('"', '""') + '"' if is_quoted else note
    n = draw.choice(["1", "-5", "", " 7", "x", "1.5", "9223372036854775808", '"8"'])
    numbers = {"1": 1, "-5": -5, "": None, " 7": 7, '"8"': 8}
    line = f"k{number},{n},{text}"
    row = {"id": f"k{number}", "n": numbers.get(n), "note": note if is_quoted or note else None}
    match draw.randrange(12):
        case 0:
            return f"{line},more".encode(), None
        case 1:
            return f"k{number},{n}".encode(), None
        case 2:
            return f'k{number},{n},"a"b'.encode(), None
        case 3:
            return f"k{number},{n},\udcff".encode(errors="surrogateescape"), None
    return line.encode(), row if n in numbers else None


@SIZES
def test_rows_of_csv_are_rows_or_bad_rows(tmp_path: Path, seed: int, count: int) -> None:
    draw = random.Random(seed)
    made = [csv_row(draw, number) for number in range(count)]
    data = b"id,n,note\n" + b"\n".join(line for line, _ in made) + b'\nlast,1,"not closed\nx,1,y'
    put(tmp_path / "in", "a.csv", data, 1)
    schema = pa.schema({"id": pa.string(), "n": pa.int64(), "note": pa.string()})
    rows, bad, _ = ingest(tmp_path, schema)
    assert rows == [row for _, row in made if row is not None]
    raws = [line for line, row in made if row is None] + [b'last,1,"not closed\nx,1,y']
    assert sorted(bad.values()) == sorted(raws)


WHOLE = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})


def whole_rows(count: int) -> pa.Table:
    ids = [f"k{number}" for number in range(count)]
    return pa.table({"id": ids, "ts": pa.array(range(count), pa.int64()), "city": ["sf"] * count})


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_file_is_rejected_and_the_others_are_read(tmp_path: Path, form: str) -> None:
    """Files that are cut, empty, of another format, or whose columns have other types."""
    path = put(tmp_path / "in", f"b.{form}", whole_rows(50), 1)
    data = path.read_bytes()
    put(tmp_path / "in", f"a.{form}", data[: len(data) // 2], 1)
    put(tmp_path / "in", f"c.{form}", b"\x1f\x8b\x00\xff nothing\n", 1)
    other = pa.table({"id": ["x"], "ts": ["many"], "city": ["la"]})
    put(tmp_path / "in", f"d.{form}", other, 1)
    put(tmp_path / "in", f"e.{form}", b"", 1)
    rows, bad, report = ingest(tmp_path, WHOLE)
    found = {row["id"]: row["ts"] for row in rows}
    assert {name: found.get(name) for name in (f"k{n}" for n in range(50))} == {
        f"k{n}": n for n in range(50)
    }
    assert found.keys() == {f"k{n}" for n in range(50)}
    files = {re.split("[:+]", position)[0] for position in bad}
    empty = {f"e.{form}"} if form not in ("csv", "json") else set()
    assert files >= {f"a.{form}", f"c.{form}", f"d.{form}"} | empty
    assert report.rejected == len(bad)
    put(tmp_path / "in", f"f.{form}", pa.table({"id": ["y"], "ts": [1], "city": ["la"]}), 9)
    again, _, report = ingest(tmp_path, WHOLE)
    assert report.rejected == 0 and len(again) == len(rows) + 1


@pytest.mark.parametrize("form", ["parquet", "arrow", "orc"])
def test_a_file_with_a_name_twice_is_rejected_and_the_others_are_read(
    tmp_path: Path, form: str
) -> None:
    """Of columns, or of fields of a struct: which of them a value belongs to is not known."""
    good = whole_rows(2)
    put(tmp_path / "in", f"a.{form}", good, 1)
    columns = pa.Table.from_arrays([*good.columns, good["ts"]], names=[*good.column_names, "ts"])
    put(tmp_path / "in", f"b.{form}", columns, 1)
    twice = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["x", "x"])
    put(tmp_path / "in", f"c.{form}", good.append_column("at", twice), 1)
    rows, bad, report = ingest(tmp_path, WHOLE)
    assert sorted(row["id"] for row in rows) == ["k0", "k1"]
    assert set(bad) == {f"b.{form}", f"c.{form}"} and report.rejected == 2


@pytest.mark.parametrize("form", FORMATS)
def test_without_leave_a_damaged_file_is_a_typed_error(tmp_path: Path, form: str) -> None:
    put(tmp_path / "in", f"c.{form}", b"\x1f\x8b\x00\xff nothing\n", 1)
    table = pyhudi.create_table(tmp_path / "t", WHOLE, record_key="id")
    with pytest.raises((CorruptFileError, BadRowsError), match=rf"c\.{form}") as error:
        Stream(FileSource(tmp_path / "in"), table).run_once()
    assert isinstance(error.value, PyhudiError)
    assert pyhudi.open_table(tmp_path / "t").checkpoint() is None


def test_values_that_a_write_refuses_are_bad_rows(tmp_path: Path) -> None:
    """Keys that are too long, paths that leave the table, and times that overflow."""
    columns = {
        "id": ["a", "b" * 40_000, "c", "d", "e"],
        "at": pa.array([1, 2, 1 << 62, 4, 5], pa.timestamp("ms", "UTC")),
        "city": ["sf", "sf", "sf", "../x", "la"],
        "n": pa.array([1, 2, 3, 4, (1 << 53) + 1], pa.int64()),
    }
    put(tmp_path / "in", "a.parquet", pa.table(columns), 1)
    schema = pa.schema({
        "id": pa.string(), "at": pa.timestamp("us", "UTC"), "city": pa.string(), "n": pa.float64(),
    })  # fmt: skip
    pyhudi.create_table(tmp_path / "t", schema, record_key="id", partition_by="city")
    rows, bad, _ = ingest(tmp_path, schema)
    assert [row["id"] for row in rows] == ["a"]
    assert {json.loads(raw)["id"][:1] for raw in bad.values()} == {"b", "c", "d", "e"}
