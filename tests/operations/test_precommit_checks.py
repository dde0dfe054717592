"""Queries over the changed table stop a commit, which leaves nothing of the write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CheckFailedError, OptionError, UserError
from pyhudi.ingest import Stream
from tests.support.row_sources import Counting

_PREFIX = "hoodie.precommit.validators"
_CLASSES = "org.apache.hudi.client.validator.SqlQuery"
ROWS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "fare": [1.0, 2.0, 3.0]})


def checks(kind: str, queries: str, **others: str) -> dict[str, str]:
    option = {"Equality": "equality", "Inequality": "inequality", "SingleResult": "single.value"}
    return {
        _PREFIX: f"{_CLASSES}{kind}PreCommitValidator",
        f"{_PREFIX}.{option[kind]}.sql.queries": queries,
        **others,
    }


def opened(tmp_path: Path, options: dict[str, str], kind: str = "cow", version: int = 9) -> Any:
    table = pyhudi.create_table(
        tmp_path / "t", ROWS.schema, record_key="id", partition_by="city", table_type=kind,
        version=version,
    )  # fmt: skip
    table.insert(ROWS)
    return pyhudi.open_table(tmp_path / "t", options=options)


def files(folder: Path) -> set[str]:
    found = (str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))
    return {name for name in found if ".hoodie" not in name}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_failed_check_stops_the_commit(tmp_path: Path, kind: str, version: int) -> None:
    positive = "SELECT COUNT(*) FROM <TABLE_NAME> WHERE fare < 0#0"
    table = opened(tmp_path, checks("SingleResult", positive), kind, version)
    before = files(tmp_path / "t")
    bad = pa.table({"id": ["a", "d"], "city": ["x", "x"], "fare": [-1.0, 4.0]})
    with pytest.raises(CheckFailedError, match=r"expected=0, found=\[\(1,\)\]"):
        table.upsert(bad)
    assert files(tmp_path / "t") == before
    assert table.scan(["id", "fare"]).to_arrow().num_rows == 3
    assert not table.timeline.pending
    assert table.upsert(bad.slice(1)).inserted == 1
    assert pyhudi.open_table(tmp_path / "t").count() == 4


def test_results_before_and_after_are_compared(tmp_path: Path) -> None:
    query = "SELECT city, COUNT(*) FROM <TABLE_NAME> GROUP BY city"
    same = opened(tmp_path / "same", checks("Equality", query))
    assert same.upsert(ROWS.slice(0, 1)).updated == 1
    with pytest.raises(CheckFailedError, match="before and after the write differ"):
        same.upsert(pa.table({"id": ["z"], "city": ["x"], "fare": [0.0]}))
    other = opened(tmp_path / "other", checks("Inequality", query))
    with pytest.raises(CheckFailedError, match="are equal"):
        other.upsert(ROWS.slice(0, 1))
    assert other.delete(keys=["a"]).deleted == 1


def test_a_failed_check_can_be_a_note(tmp_path: Path) -> None:
    given = checks("SingleResult", "SELECT 1 FROM <TABLE_NAME> LIMIT 1#2")
    table = opened(tmp_path, {**given, f"{_PREFIX}.failure.policy": "WARN_LOG"})
    report = table.upsert(ROWS)
    assert [note for note in report.notes if note.startswith("check failed")]


def test_queries_see_the_partitions_of_the_write(tmp_path: Path) -> None:
    given = checks("SingleResult", "SELECT COUNT(*) FROM <TABLE_NAME>#1")
    table = opened(tmp_path, given)
    assert table.upsert(ROWS.slice(2, 1)).updated == 1


def test_a_check_stops_the_batch_of_an_ingest(tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", pa.schema({"id": pa.string(), "n": pa.int64()}), record_key="id"
    )
    given = checks("SingleResult", "SELECT MAX(n) < 4 FROM <TABLE_NAME>#True")
    stream = Stream(Counting(6, 2), pyhudi.open_table(table.path, options=given))
    assert stream.run_once() is not None and stream.run_once() is not None
    with pytest.raises(CheckFailedError):
        stream.run_once()
    assert (table.count(), table.checkpoint()) == (4, "4")


def test_a_query_cannot_read_files(tmp_path: Path) -> None:
    table = opened(tmp_path, checks("SingleResult", "SELECT * FROM 'x.csv', <TABLE_NAME>#1"))
    with pytest.raises(UserError, match="the query failed"):
        table.upsert(ROWS)
    assert not table.timeline.pending


def test_wrong_settings_are_errors_at_once(tmp_path: Path) -> None:
    for options in (
        {_PREFIX: f"{_CLASSES}EqualityPreCommitValidator"},
        {_PREFIX: "org.example.Mine"},
        checks("SingleResult", "SELECT 1"),
    ):
        with pytest.raises(OptionError):
            opened(tmp_path / str(len(str(options))), options)
