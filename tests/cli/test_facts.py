"""`pyhudi config`, `stats`, `locks` and `completion`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.options.default_values import default_here, hudi_defaults
from pyhudi.options.registry import BY_NAME
from pyhudi.records import InstantTime
from pyhudi.storage.local import LocalFileSystem
from pyhudi.transaction.heartbeat import Heartbeat
from tests.cli.test_commands import answer, run

ROWS = pa.table({"id": ["a", "b", "c"], "city": ["x", "y", "y"], "ts": [1, 1, 1]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = pyhudi.create_table(
        tmp_path / "t", ROWS.schema, record_key="id", partition_by="city", ordering="ts"
    )
    made.insert(ROWS)
    made.upsert(pa.table({"id": ["b"], "city": ["y"], "ts": [2]}))
    return tmp_path / "t"


def test_an_option_is_explained_with_its_defaults(path: Path) -> None:
    found: Any = answer("config", "explain", "hoodie.parquet.small.file.limit")
    assert (found["default"], found["default_hudi_1_2"]) == (104857600, "104857600")
    assert found["support"] == "honoured"
    known: Any = answer("config", "explain", "hoodie.table.precombine.field", "--table", path)
    assert known["name"] == "hoodie.table.ordering.fields" and known["in_table"] == "ts"
    unknown = run("config", "explain", "hoodie.parquet.small.file.limits")
    assert unknown.returncode == 2 and "hoodie.parquet.small.file.limit" in unknown.stderr


def test_options_are_listed_by_text_and_support() -> None:
    everything: Any = answer("config", "list")
    assert len(everything) == len({row.name for row in BY_NAME.values()})
    rejected: Any = answer("config", "list", "--support", "rejected", "--contains", "CLEAN")
    assert rejected and all(r["support"] == "rejected" and "clean" in r["name"] for r in rejected)


def test_properties_that_differ_from_the_defaults_are_shown(path: Path) -> None:
    found: Any = answer("config", "diff", path)
    names = {row["name"]: row["in_table"] for row in found}
    assert names["hoodie.table.recordkey.fields"] == "id"
    assert "hoodie.populate.meta.fields" not in names  # the default


def test_every_option_has_defaults_that_can_be_read() -> None:
    for row in BY_NAME.values():
        default_here(row)
    assert hudi_defaults("hoodie.table.version").v1_2 == "NINE"
    assert hudi_defaults("no.such.option") == (None, None)


def test_amplification_is_rows_written_for_each_changed_row(path: Path) -> None:
    found: Any = answer("stats", "amplification", path)
    assert [(row["changed_rows"], row["written_rows"]) for row in found] == [
        (3, 3), (1, 2), (4, 5),
    ]  # fmt: skip
    assert [row["amplification"] for row in found] == [1.0, 2.0, 1.25]


def test_sizes_of_written_files_are_those_on_disk(path: Path) -> None:
    found: Any = answer("stats", "sizes", path)
    sizes = [file.stat().st_size for file in path.glob("*/*.parquet")]
    assert (found[-1]["commit"], found[-1]["files"], found[-1]["max"]) == ("all", 3, max(sizes))
    assert found[-1]["min"] == min(sizes)


def test_repeated_keys_are_counted(path: Path) -> None:
    clean: Any = answer("stats", "keys", path)
    assert (clean["rows"], clean["keys"], clean["repeated_keys"]) == (3, 3, 0)
    table = pyhudi.open_table(path)
    table.insert(pa.table({"id": ["a", "c"], "city": ["y", "y"], "ts": [3, 3]}))
    found: Any = answer("stats", "keys", path)
    assert (found["rows"], found["keys"], found["repeated_keys"]) == (5, 3, 2)
    assert found["keys_in_several_partitions"] == 1


def test_locks_show_running_writers_and_pins(path: Path) -> None:
    table = pyhudi.open_table(path)
    fs = LocalFileSystem(path)
    with Heartbeat(fs, InstantTime("20990101000000000")), table.pin_snapshot() as pin:
        found: Any = answer("locks", path)
    assert found["running"] == ["20990101000000000"]
    assert [p["instant"] for p in found["pinned"]] == [pin.instant]
    assert found["unpublished"] == [] and found["pending"] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_completes_commands(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0 and "_PYHUDI_COMPLETE" in done.stdout
