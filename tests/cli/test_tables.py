"""`pyhudi table` and `pyhudi commits` on real tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.cli.test_commands import answer, run

ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [1, 1]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = pyhudi.create_table(
        tmp_path / "t", ROWS.schema, record_key="id", partition_by="city", ordering="ts",
        table_type="mor",
    )  # fmt: skip
    made.bulk_insert(ROWS)
    made.upsert(pa.table({"id": ["a"], "city": ["x"], "ts": [2]}))
    return tmp_path / "t"


def test_files_of_a_partition_are_listed_with_their_logs(path: Path) -> None:
    found: Any = answer("table", "files", path, "--partition", "x")
    assert [(f["partition"], len(f["log_files"])) for f in found] == [("x", 1)]
    assert (path / "x" / found[0]["base_file"]).stat().st_size == found[0]["base_bytes"]
    both: Any = answer("table", "files", path)
    assert [f["partition"] for f in both] == ["x", "y"]


def test_sizes_are_those_of_the_files(path: Path) -> None:
    found: Any = answer("table", "sizes", path)
    assert [(s["partition"], s["file_groups"], s["log_files"]) for s in found] == [
        ("x", 1, 1),
        ("y", 1, 0),
    ]
    stored = sum(f.stat().st_size for f in path.glob("x/*.parquet") if ".log." not in f.name)
    assert found[0]["base_bytes"] == stored


def test_properties_are_shown_as_stored(path: Path) -> None:
    assert answer("table", "properties", path) == dict(
        sorted(pyhudi.open_table(path).config.properties.items())
    )


def test_a_dry_run_of_create_checks_the_definition_and_creates_nothing(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    words = ("table", "create", tmp_path / "new", "--like", tmp_path / "rows.parquet")
    made: Any = answer(*words, "--record-key", "id", "--dry-run")
    assert (made["name"], made["dry_run"]) == ("new", True)
    assert run(*words, "--record-key", "absent", "--dry-run").returncode == 2
    assert not (tmp_path / "new").exists()
    answer(*words, "--record-key", "id")
    assert run(*words, "--record-key", "id", "--dry-run").returncode == 2


@pytest.mark.parametrize(
    "given", [("--version", "8"), ("--option", "hoodie.write.table.version=8")]
)
def test_the_version_of_a_new_table_is_a_flag_or_an_option(
    tmp_path: Path, given: tuple[str, str]
) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    words = ("table", "create", tmp_path / "t", "--like", tmp_path / "rows.parquet")
    made: Any = answer(*words, "--record-key", "id", *given)
    assert made["version"] == 8


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", "id,n\na,1\n"),
        ("rows.jsonl", '{"id": "a", "n": 1}\n'),
        ("rows.dat", "id,n\na,1\n"),
    ],
)
def test_a_table_is_created_like_a_file_of_any_format(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    words = ("table", "create", tmp_path / "t", "--like", tmp_path / name, "--record-key", "id")
    if name.endswith(".dat"):
        assert run(*words).returncode == 2
        words = (*words, "--format", "csv")
    answer(*words)
    schema = pyhudi.open_table(tmp_path / "t").schema
    types = {field.name: str(field.type) for field in schema}
    assert types["id"] == "string"
    assert types["n"] == ("int64" if name.endswith(".jsonl") else "string")  # text has no types


def test_a_table_is_dropped_after_a_confirmation_only(path: Path) -> None:
    assert run("table", "drop", path).returncode == 2
    assert pyhudi.open_table(path).count() == 2
    dropped: Any = answer("table", "drop", path, "--yes")
    assert dropped["other_files"] == 0
    assert run("table", "info", path).returncode == 1


def test_commits_are_listed_with_what_they_wrote(path: Path) -> None:
    found: Any = answer("commits", "list", path)
    assert [(c["operation"], c["inserted"], c["updated"]) for c in found] == [
        ("bulk_insert", 2, 0),
        ("upsert", 0, 1),
    ]
    shown: Any = answer("commits", "show", path, found[0]["instant"])
    assert [(p["partition"], p["inserted"]) for p in shown["by_partition"]] == [("x", 1), ("y", 1)]
    files: Any = answer("commits", "files", path, found[0]["instant"])
    assert all((path / f["partition"] / f["file"]).exists() for f in files)
    assert sum(f["rows"] for f in files) == 2


def test_an_archived_commit_is_shown(path: Path) -> None:
    table = pyhudi.open_table(
        path, options={"hoodie.keep.max.commits": "4", "hoodie.keep.min.commits": "3",
                       "hoodie.clean.commits.retained": "2", "hoodie.clean.automatic": "true"},
    )  # fmt: skip
    first = table.timeline.commits.instants[0].time
    for ts in range(3, 9):
        table.upsert(pa.table({"id": ["b"], "city": ["y"], "ts": [ts]}))
    table.compact()
    table.archive()
    archived: Any = answer("commits", "list", path, "--archived")
    assert first in [c["instant"] for c in archived]
    shown: Any = answer("commits", "show", path, first)
    assert shown["inserted"] == 2
    missing = run("commits", "show", path, "20200101000000000")
    assert missing.returncode == 2 and "no completed commit" in missing.stderr


def test_commits_of_two_tables_are_compared(path: Path, tmp_path: Path) -> None:
    other = pyhudi.create_table(tmp_path / "other", ROWS.schema, record_key="id")
    instant = other.insert(ROWS).instant
    found: Any = answer("commits", "compare", path, tmp_path / "other")
    assert found["only_there"] == [instant]
    assert found["only_here"] == [i.time for i in pyhudi.open_table(path).timeline.commits]
    same: Any = answer("commits", "compare", path, path)
    assert (same["only_here"], same["only_there"]) == ([], [])
