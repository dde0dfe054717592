"""`pyhudi bench` ends in about its time and leaves nothing; `stats keys` is bounded in memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.cli.measurement import key_statistics as counted
from pyhudi.cli.measurement.bench import bench_rows
from pyhudi.records import PARTITION_PATH, RECORD_KEY
from tests.cli.test_commands import answer, run

STEPS = [
    "load", "upsert 1 % of the keys", "look up keys", "scan all columns",
    "scan one column of a partition",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_measurement_has_every_step_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "measured"
    steps: Any = answer("bench", path, "--rows", 3000, "--seconds", 1, "--type", kind)
    assert [step["step"] for step in steps] == STEPS
    assert [step["rows"] for step in steps] == [3000, 30, 1000, 3000, 375]
    assert all(step["runs"] >= 1 and step["seconds"] > 0 for step in steps)
    assert not list(tmp_path.rglob("*.parquet")) and not (path / ".hoodie").exists()


def test_the_load_ends_when_its_time_is_over(tmp_path: Path) -> None:
    began = time.monotonic()
    steps: Any = answer("bench", tmp_path / "t", "--rows", 10**9, "--seconds", 1)
    assert time.monotonic() - began < 60 and 0 < steps[0]["rows"] < 10**9


def test_a_measurement_takes_no_place_that_is_used(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = run("bench", tmp_path, "--rows", 10)
    assert done.returncode == 2 and "choose a path that does not exist" in done.stderr
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_keys_of_the_measurement_are_unique() -> None:
    rows = [bench_rows(first, 50_000, ts=0) for first in (0, 50_000, 1_000_000)]
    keys = pa.Table.from_batches(rows)["id"]
    assert len(keys.unique()) == 150_000


def test_keys_are_counted_file_by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    counts = counted._counts

    def watched(path: Path) -> dict[str, int]:
        with pa.memory_map(str(path)) as source:
            read.append(pa.ipc.open_file(source).read_all().num_rows)
        return counts(path)

    monkeypatch.setattr(counted, "_counts", watched)
    keys = [f"k{number}" for number in range(40_000)]
    batches = pa.table(
        {RECORD_KEY: [*keys, *keys[:100], *keys[:10]],
         PARTITION_PATH: [*(["a"] * 40_100), *(["b"] * 10)]}
    ).to_batches(max_chunksize=999)  # fmt: skip
    assert counted.key_statistics(batches) == {
        "rows": 40_110, "keys": 40_000, "repeated_keys": 100, "keys_in_several_partitions": 10,
        "partitions": 2, "key_bytes": sum(map(len, [*keys, *keys[:100], *keys[:10]])),
    }  # fmt: skip
    assert sum(read) == 40_110 and max(read) < 1500
