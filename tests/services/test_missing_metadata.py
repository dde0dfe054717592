"""A table whose metadata table was deleted, as a user does by hand: nothing is changed, the way out
is named, and a rebuild makes the table whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import IndexNotReadyError

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
CHANGES: dict[str, Callable[[Table], object]] = {
    "upsert": lambda table: table.upsert(_rows(0)),
    "bulk_insert": lambda table: table.bulk_insert(_rows(9)),
    "delete": lambda table: table.delete(keys=["k0"]),
    "compact": lambda table: table.compact(),
    "cluster": lambda table: table.cluster(),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
    "savepoint": lambda table: table.savepoint(),
    "index rebuild": lambda table: table.index.rebuild(),
}


def _rows(start: int) -> pa.Table:
    keys = [f"k{start + i}" for i in range(10)]
    return pa.table({"id": keys, "ts": [start] * 10, "part": ["a"] * 10}, schema=SCHEMA)


@pytest.fixture(params=[6, 9])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = pyhudi.create_table(
        str(tmp_path / "t"), SCHEMA, record_key="id", partition_by=["part"], ordering="ts",
        name="t", table_type="mor", version=request.param,
    )  # fmt: skip
    for start in (0, 10, 20):
        made.bulk_insert(_rows(start))
    made.upsert(_rows(0))
    shutil.rmtree(tmp_path / "t" / ".hoodie" / "metadata")
    return tmp_path / "t"


def _stored(table: Path) -> set[Path]:
    return {each for each in table.rglob("*") if ".pyhudi.lock" not in each.name}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_before_it_writes_and_names_the_rebuild(
    path: Path, change: str
) -> None:
    before = _stored(path)
    with pytest.raises(IndexNotReadyError, match=r"does not exist.*table\.metadata\.rebuild\(\)"):
        CHANGES[change](pyhudi.open_table(str(path)))
    assert _stored(path) == before


def test_reads_work_and_a_rebuild_allows_changes_again(path: Path) -> None:
    assert pyhudi.open_table(str(path)).scan().to_arrow().num_rows == 30
    pyhudi.open_table(str(path)).metadata.rebuild()
    rebuilt = pyhudi.open_table(str(path))
    assert rebuilt.lookup(["k0", "k29"])["found"].to_pylist() == [True, True]
    assert rebuilt.cluster().file_groups == 3
    assert rebuilt.scan().to_arrow().num_rows == 30


@pytest.mark.parametrize("version", [6, 8, 9])
def test_open_tables_read_a_metadata_table_that_was_rebuilt(tmp_path: Path, version: int) -> None:
    """The timeline does not show a rebuild, so that the state of an open table looks current."""
    ids = pa.table({"id": ["a", "b", "c"]})
    created = pyhudi.create_table(tmp_path, ids.schema, record_key="id", version=version)
    for row in range(3):
        created.upsert(ids.slice(row, 1))
    tables = [created, pyhudi.open_table(tmp_path)]
    for table in tables:
        assert table.lookup(["a"])["found"].to_pylist() == [True]  # reads one file of the index
    created.metadata.rebuild()
    for table in tables:
        found = table.lookup([*"abcdefgh"])["found"].to_pylist()
        assert found == [True] * 3 + [False] * 5
