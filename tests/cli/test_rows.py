"""`pyhudi show`, `changes`, `diff`, `history`, `write`, `delete` on real tables."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.cli.test_commands import answer, run

ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "fare": [1.5, 2.5], "ts": [1, 1]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = pyhudi.create_table(
        tmp_path / "t", ROWS.schema, record_key="id", partition_by="city", ordering="ts",
        table_type="mor",
    )  # fmt: skip
    made.insert(ROWS)
    return tmp_path / "t"


def stored(path: Path) -> list[dict[str, Any]]:
    rows = pyhudi.open_table(path).scan(with_meta=False).to_arrow()
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


def test_rows_are_selected_by_sql_columns_and_limit(path: Path) -> None:
    assert answer("show", path, "--where", "fare > 2", "--columns", "id") == [{"id": "b"}]
    assert len(answer("show", path, "--limit", 1)) == 1  # type: ignore[arg-type]
    shown = run("show", path, "--where", "city = 'x'")
    assert shown.returncode == 0 and "1.5" in shown.stdout and "2.5" not in shown.stdout


def test_rows_of_an_earlier_snapshot_are_shown(path: Path) -> None:
    first = pyhudi.open_table(path).timeline.commits.instants[0].time
    pyhudi.open_table(path).delete(keys=["a"])
    assert [row["id"] for row in answer("show", path)] == ["b"]  # type: ignore[attr-defined]
    assert len(answer("show", path, "--as-of", first)) == 2  # type: ignore[arg-type]


def test_rows_are_written_to_files_that_have_them_all(path: Path, tmp_path: Path) -> None:
    for form in ("csv", "json", "parquet"):
        done: Any = answer("show", path, "--format", "parquet", "-o", tmp_path / f"{form}-0")
        assert done["rows"] == 2
        assert run("show", path, "--format", form, "-o", tmp_path / form).returncode == 0
    assert pc.read_csv(tmp_path / "csv").sort_by("id")["fare"].to_pylist() == [1.5, 2.5]
    assert pq.read_table(tmp_path / "parquet").sort_by("id").equals(ROWS)
    lines = (tmp_path / "json").read_text().splitlines()
    assert sorted((json.loads(line) for line in lines), key=lambda r: r["id"]) == stored(path)
    again = run("show", path, "--format", "csv", "-o", tmp_path / "csv")
    assert again.returncode == 2 and "File exists" in again.stderr
    streamed = run("show", path, "--format", "csv", "--limit", 1)
    assert len(streamed.stdout.splitlines()) == 2


def test_a_file_with_a_failed_export_is_removed(path: Path, tmp_path: Path) -> None:
    base = next((path / "x").glob("*.parquet"))
    base.write_bytes(base.read_bytes()[:-20] + b"damage-of-the-footer")
    failed = run("show", path, "--format", "json", "-o", tmp_path / "out.json")
    assert failed.returncode == 1
    assert not (tmp_path / "out.json").exists()


def test_changes_diff_and_history_follow_a_record(path: Path) -> None:
    table = pyhudi.open_table(path)
    first = table.timeline.commits.instants[0].time
    table.upsert(pa.table({"id": ["a"], "city": ["x"], "fare": [9.0], "ts": [2]}))
    changed: Any = answer("changes", path, first)
    assert [(row["id"], row["fare"]) for row in changed] == [("a", 9.0)]
    found: Any = answer("diff", path, first)
    assert [(d["change"], d["before"]["fare"], d["after"]["fare"]) for d in found] == [
        ("update", 1.5, 9.0)
    ]
    versions: Any = answer("history", path, "a")
    assert [(v["change"], v["row"]["fare"]) for v in versions] == [("insert", 1.5), ("update", 9.0)]


def test_changes_before_and_after_need_a_table_that_logs_them(path: Path) -> None:
    refused = run("changes", path, "000", "--before-after")
    assert refused.returncode in (1, 2) and "cdc" in refused.stderr.lower()


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "json"])
def test_files_of_every_format_are_upserted(form: str, path: Path, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "c"], "city": ["x", "z"], "fare": [7.0, 8.0], "ts": [5, 5]})
    file = tmp_path / f"rows.{form}"
    match form:
        case "parquet":
            pq.write_table(rows, file)
        case "arrow":
            with pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
        case "csv":
            pc.write_csv(rows, file)
        case _:
            file.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    planned: Any = answer("write", path, file, "--dry-run")
    assert (planned["dry_run"], len(stored(path))) == (True, 2)
    report: Any = answer("write", path, file)
    assert (report["inserted"], report["updated"]) == (1, 1)
    assert [(row["id"], row["fare"]) for row in stored(path)] == [
        ("a", 7.0),
        ("b", 2.5),
        ("c", 8.0),
    ]


def test_an_overwrite_and_a_delete_by_file_need_a_confirmation(path: Path, tmp_path: Path) -> None:
    pq.write_table(ROWS.slice(0, 1), tmp_path / "one.parquet")
    for operation in ("insert_overwrite", "insert_overwrite_table", "delete"):
        refused = run("write", path, tmp_path / "one.parquet", "--operation", operation)
        assert refused.returncode == 2 and "--yes" in refused.stderr
    assert len(stored(path)) == 2
    gone: Any = answer("write", path, tmp_path / "one.parquet", "--operation", "delete", "--yes")
    assert gone["deleted"] == 1
    assert [row["id"] for row in stored(path)] == ["b"]


def test_records_are_deleted_by_key_condition_or_partition(path: Path) -> None:
    planned: Any = answer("delete", path, "--key", "a", "--dry-run")
    assert planned["matched"] == 1 and len(stored(path)) == 2
    refused = run("delete", path, "--key", "a")
    assert refused.returncode == 2 and "delete 1 records" in refused.stderr
    assert run("delete", path, "--yes").returncode == 2
    assert run("delete", path, "--yes", "--key", "a", "--where", "fare > 2").returncode == 2
    answer("delete", path, "--key", "a", "--yes")
    assert [row["id"] for row in stored(path)] == ["b"]
    answer("delete", path, "--where", "fare > 2", "--yes")
    assert stored(path) == []
    pyhudi.open_table(path).insert(ROWS)
    answer("delete", path, "--partition", "x", "--yes")
    assert [row["id"] for row in stored(path)] == ["b"]


EVERY_TYPE = pa.table({
    "id": ["a", "b", "c", "d"],
    "f": pa.array([float("nan"), float("inf"), -0.0, None], pa.float32()),
    "d": pa.array([float("-inf"), float("nan"), 5e-324, None], pa.float64()),
    "s": ["", "a,\"b\"\n", "nan", None],
    "i": pa.array([-(2**63), 2**53 + 1, 0, None], pa.int64()),
    "dec": pa.array([Decimal("-0.0000000001"), Decimal(10**27), Decimal("1.5"), None],
                    pa.decimal128(38, 10)),
    "bool": [True, False, True, None],
    "bytes": pa.array([b"", b"x", "\u00e9".encode(), None], pa.binary()),
    "day": pa.array([-719162, -1, 2932896, None], pa.date32()),
    "time": pa.array([0, 86399999999, 43200000000, None], pa.time64("us")),
    "clock": pa.array([0, 86399999, 43200001, None], pa.time32("ms")),
    "none": pa.nulls(4, pa.int64()),
    "milli": pa.array([-1, 0, 1709208000001, None], pa.timestamp("ms", "UTC")),
    "micro": pa.array([-1, 0, 1709208000000001, None], pa.timestamp("us", "UTC")),
    "local": pa.array([-1, 0, 1709208000000001, None], pa.timestamp("us")),
})  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_written_rows_of_every_type_are_read_as_the_same_values(form: str, tmp_path: Path) -> None:
    tables = [tmp_path / "stored", tmp_path / "copied"]
    for table in tables:
        pyhudi.create_table(table, EVERY_TYPE.schema, record_key="id")
    pyhudi.open_table(tables[0]).upsert(EVERY_TYPE)
    file = tmp_path / f"rows.{form}"
    for words in (("show", tables[0], "--format", form, "-o", file), ("write", tables[1], file)):
        done = run(*words)
        assert done.returncode == 0, done.stderr
    copied = pyhudi.open_table(tables[1]).scan(with_meta=False).to_arrow().sort_by("id")
    assert repr(copied.to_pylist()) == repr(EVERY_TYPE.to_pylist())


def test_rows_in_json_name_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    pyhudi.create_table(tmp_path / "t", EVERY_TYPE.schema, record_key="id").upsert(EVERY_TYPE)
    shown = answer("show", tmp_path / "t", "--columns", "id", "--columns", "d")
    assert isinstance(shown, list)
    found = {row["id"]: row["d"] for row in shown}
    assert found == {"a": "-Infinity", "b": "NaN", "c": 5e-324, "d": None}


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_year_that_python_does_not_have_is_a_typed_error(
    form: str, nested: bool, tmp_path: Path
) -> None:
    days = pa.array([3_000_000], pa.date32())
    rows = pa.table(
        {"id": ["a"], "x": pa.StructArray.from_arrays([days], ["d"]) if nested else days}
    )
    pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id").upsert(rows)
    done = run("show", tmp_path / "t", "--format", form)
    assert done.returncode == 2 and "cannot be shown" in done.stderr
    assert run("show", tmp_path / "t", "--format", "parquet", "-o", tmp_path / "f").returncode == 0


BYTES = [
    pa.array([b"\xff\xfe"]), pa.array([b"\xff\xfe"], pa.binary(2)), pa.array([[b"x", b"\xff"]]),
    pa.array([{"y": b"\xff"}]), pa.array([[("k", b"\xff")]], pa.map_(pa.string(), pa.binary())),
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "column"),
    [("csv", BYTES[0]), ("csv", BYTES[1]), *(("json", column) for column in BYTES)],
)
def test_bytes_that_are_no_text_are_not_written_as_text(
    form: str, column: pa.Array, tmp_path: Path
) -> None:
    rows = pa.table({"id": ["a"], "x": column})
    pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id").upsert(rows)
    done = run("show", tmp_path / "t", "--format", form, "-o", tmp_path / f"rows.{form}")
    assert done.returncode == 2
    assert "column=x" in done.stderr.replace("\n", "")
    assert not (tmp_path / f"rows.{form}").exists()
