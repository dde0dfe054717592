"""An index opened on its own answers as the table does, follows it, and loads little."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, TableNotFoundError, UserError
from pyhudi.index.standalone_reader import OpenIndex
from pyhudi.storage.local import LocalFileSystem

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string())])


def rows(ids: range) -> pa.Table:
    return pa.table({"id": [f"k{i}" for i in ids], "part": [f"p{i % 3}" for i in ids]})


def made(path: Path) -> pyhudi.Table:
    table = pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part")
    table.bulk_insert(rows(range(50)))
    return table


def test_it_answers_as_the_table_does_and_follows_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    index = pyhudi.open_index(tmp_path / "t")
    old = pyhudi.open_index(tmp_path / "t", max_age_seconds=1e9)
    keys = ["k3", None, "nobody", "k49", "k3"]
    assert index.locations(keys) == table.lookup(keys)
    assert index.contains(keys).to_pylist() == [True, False, False, True, True]
    place = index.get("k3")
    assert place is not None and index.get("nobody") is None
    assert (place.partition, place.instant) == ("p0", table.timeline.commits.last.time)  # type: ignore[union-attr]
    table.upsert(rows(range(48, 60)))
    table.delete(keys=["k3"])
    assert index.get("k3") is None and index.get("k55") is not None
    assert old.get("k3") is not None and old.instant != index.instant
    old.warm()
    assert old.get("k3") is None and old.instant == index.instant
    table.index.rebuild(3)
    assert index.contains(["k3", "k55"]).to_pylist() == [False, True]
    assert index.bucket_count == 3


class InterruptedFileSystem(LocalFileSystem):
    """The local disk; acts, once each, run before a file of the record index is read."""

    def __init__(self, root: str | Path, acts: list[Callable[[], None]]) -> None:
        super().__init__(root)
        self.acts = acts

    def sub(self, folder: str) -> InterruptedFileSystem:
        return InterruptedFileSystem(f"{self.root}/{folder}", self.acts)

    def read(self, path: str) -> bytes:
        if "record_index" in path and self.acts:
            self.acts.pop()()
        return super().read(path)


def test_a_slow_warm_does_not_take_answers_back_to_an_older_commit(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    acts: list[Callable[[], None]] = []
    fs = InterruptedFileSystem(tmp_path / "t", acts)
    index = OpenIndex(fs, max_age_seconds=1e9, engine=LocalEngine())

    def commit_and_refresh() -> None:
        table.upsert(rows(range(60, 70)))
        index.refresh()

    table.upsert(rows(range(50, 60)))
    acts.append(commit_and_refresh)
    index.warm()
    assert not acts
    assert index.contains(["k55", "k65"]).to_pylist() == [True, True]
    assert table.timeline.commits.last is not None
    assert index.instant == table.timeline.commits.last.time


def test_a_process_that_opens_an_index_loads_neither_writer_nor_reader(tmp_path: Path) -> None:
    made(tmp_path / "t")
    text = (
        "import sys, pyhudi\nassert pyhudi.open_index(sys.argv[1]).get('k7')\nprint(*sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, tmp_path / "t"], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    own = {name for name in loaded if name.startswith("pyhudi.")}
    for room in ("write", "services", "pipeline", "api", "verbs", "cli", "spark"):
        assert not {name for name in own if name.split(".")[1] == room}, room
    assert {name for name in own if name.startswith("pyhudi.read.")} == {
        "pyhudi.read.metadata_freshness",
        "pyhudi.read.table_schema",
    }
    # pandas is taken in by pyarrow itself, where it is installed
    assert not loaded & {"pyspark", "fsspec", "click", "rich", "duckdb", "pyarrow.dataset"}


def test_what_is_no_table_or_has_no_index_says_so(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        pyhudi.open_index(tmp_path)
    pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", index="bloom")
    with pytest.raises(IndexNotReadyError):
        pyhudi.open_index(tmp_path / "t")


TYPED = pa.schema(
    [("n", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us")), ("part", pa.string())]
)


def typed_rows() -> pa.Table:
    days = [date(2026, 1, 1 + n) for n in range(5)]
    times = [datetime(2026, 1, 1, n) for n in range(5)]
    return pa.table({"n": range(5), "day": days, "at": times, "part": ["p"] * 5}, schema=TYPED)


@pytest.mark.parametrize("column", ["n", "day", "at"])
def test_values_of_the_key_column_are_accepted_as_the_table_accepts_them(
    tmp_path: Path, column: str
) -> None:
    table = pyhudi.create_table(tmp_path / "t", TYPED, record_key=column, partition_by="part")
    table.upsert(typed_rows())
    index = pyhudi.open_index(tmp_path / "t")
    values = typed_rows().column(column)
    plain = values.to_pylist()
    for keys in (
        plain,
        tuple(plain),
        values,
        pa.table({column: values}),
        values.to_numpy(),
        plain[3],
    ):
        found = index.locations(keys)
        assert found == table.lookup(keys)
        assert all(found.column("found").to_pylist())
    assert index.get(plain[2]) is not None
    texts = table.scan().to_arrow().column("_hoodie_record_key").to_pylist()
    for keys in (texts, texts[0], texts[0].encode(), [text.encode() for text in texts]):
        assert all(index.contains(keys).to_pylist())


def test_keys_of_several_columns_are_accepted_in_every_form(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", TYPED, record_key=["n", "day"], partition_by="part")
    table.upsert(typed_rows())
    index = pyhudi.open_index(tmp_path / "t")
    day = date(2026, 1, 4)
    given = typed_rows().select(["n", "day"])
    for keys in ((3, day), [(3, day), (9, day)], {"n": 3, "day": day}, given, "n:3,day:20456"):
        assert index.locations(keys) == table.lookup(keys)
        assert index.contains(keys)[0].as_py() == table.lookup(keys).column("found")[0].as_py()
    assert index.contains((3, day)).to_pylist() == [True]
    assert index.get((3, day)) is not None and index.get({"n": 4, "day": day}) is None
    with pytest.raises(UserError, match="each key column"):
        index.contains([3])


def test_values_are_refused_where_the_properties_do_not_determine_the_keys_text(
    tmp_path: Path,
) -> None:
    """Releases of Apache Hudi disagree about complex keys of one field: only rows tell."""
    table = pyhudi.create_table(
        tmp_path / "t", TYPED, record_key="n", partition_by="part",
        options={"hoodie.datasource.write.keygenerator.type": "COMPLEX"},
    )  # fmt: skip
    table.upsert(typed_rows())
    index = pyhudi.open_index(tmp_path / "t")
    texts = table.scan().to_arrow().column("_hoodie_record_key").to_pylist()
    assert all(index.contains(texts).to_pylist())
    with pytest.raises(UserError, match="do not determine the text"):
        index.contains([3])
