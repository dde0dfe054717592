"""Damage in a table's logs and properties is an error where it can be seen, and a typed one."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.formats.log_file import MAGIC

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])


def rows(keys: str, n: int) -> pa.Table:
    return pa.table({"id": list(keys), "n": [n] * len(keys)}, schema=SCHEMA)


@pytest.fixture(params=[6, 9])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A merge-on-read table with a log of rows and one of deletes."""
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", ordering="n", table_type="mor",
        options={"hoodie.logfile.data.block.format": "avro"}, version=request.param,
    )  # fmt: skip
    table.bulk_insert(rows("abcd", 1))
    table.upsert(rows("ab", 2))
    table.delete(keys=["c"])
    return tmp_path / "t"


def log_of(place: Path, number: int) -> Path:
    """The log that the table's writes made first, or second."""
    logs = sorted(place.glob(".*.log.*"), key=lambda path: path.stat().st_mtime_ns)
    assert len(logs) == 2
    return logs[number - 1]


@pytest.mark.parametrize("log", [1, 2], ids=["rows", "deletes"])
@pytest.mark.parametrize("at", [len(MAGIC) + 7, -1], ids=["length", "pointer"])
def test_a_block_whose_length_is_damaged_is_an_error(place: Path, log: int, at: int) -> None:
    path = log_of(place, log)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="committed write is damaged") as caught:
        pyhudi.open_table(place).scan().to_arrow()
    assert caught.value.facts["path"] == path.name


def test_a_damaged_block_is_reported_by_the_doctor_as_lost_rows(place: Path) -> None:
    path = log_of(place, 1)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = [f for f in pyhudi.open_table(place).doctor().findings if f.path == path.name]
    assert ("torn-data-file", True) in [(f.code, f.loses) for f in found]


def test_an_append_that_was_cut_short_after_the_commits_is_skipped(place: Path) -> None:
    path = log_of(place, 1)
    whole = path.read_bytes()
    path.write_bytes(whole + MAGIC + bytes(7))
    found = pyhudi.open_table(place).scan(["id", "n"]).to_arrow().sort_by("id")
    assert found.to_pydict() == {"id": ["a", "b", "d"], "n": [2, 2, 1]}


def test_deletes_of_a_table_without_its_ordering_column_are_a_typed_error(place: Path) -> None:
    properties = place / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    renamed = re.sub(r"(precombine\.field|ordering\.fields)=n\n", r"\1=nn\n", text)
    assert renamed != text
    properties.write_text(renamed)
    with pytest.raises(UnsupportedTableError, match="ordering column"):
        pyhudi.open_table(place).scan().to_arrow()
