"""Services from the command line: told first, then done."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi
from tests.cli.test_commands import answer, run


def a_table(path: Path) -> Path:
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1]})
    made = pyhudi.create_table(path, rows.schema, record_key="id", ordering="ts", table_type="mor")
    made.bulk_insert(rows)
    made.upsert(rows.slice(0, 1))
    return path


def test_a_compaction_is_reported_scheduled_and_run(tmp_path: Path) -> None:
    path = a_table(tmp_path / "t")
    reported = answer("compaction", "run", path, "--dry-run")
    assert isinstance(reported, dict) and (reported["dry_run"], reported["log_files"]) == (True, 1)
    planned = answer("compaction", "schedule", path)
    done = answer("compaction", "run", path)
    assert isinstance(planned, dict) and isinstance(done, dict)
    assert done["instants"] == [planned["instant"]]


def test_a_clustering_is_reported_scheduled_and_run(tmp_path: Path) -> None:
    path = a_table(tmp_path / "t")
    reported = answer(
        "clustering", "run", path, "--sort-by", "ts", "--layout", "hilbert", "--dry-run"
    )
    assert isinstance(reported, dict) and (reported["dry_run"], reported["file_groups"]) == (
        True,
        1,
    )
    planned = answer("clustering", "schedule", path, "--sort-by", "ts")
    done = answer("clustering", "run", path)
    assert isinstance(planned, dict) and isinstance(done, dict)
    assert (done["instants"], done["sort_by"]) == ([planned["instant"]], ["ts"])


def test_plans_are_taken_back(tmp_path: Path) -> None:
    path = a_table(tmp_path / "t")
    for noun in ("compaction", "clustering"):
        planned = answer(noun, "schedule", path)
        assert isinstance(planned, dict)
        done = answer(noun, "unschedule", path, planned["instant"])
        assert isinstance(done, dict) and done["file_groups"] == 1
    again = run("clustering", "unschedule", path, planned["instant"])
    assert again.returncode == 2 and "no such plan" in again.stderr


def test_plans_are_listed_and_shown(tmp_path: Path) -> None:
    for version in ("6", "9"):
        path = tmp_path / version
        rows = pa.table({"id": ["a", "b"], "ts": [1, 1]})
        made = pyhudi.create_table(
            path, rows.schema, record_key="id", ordering="ts", table_type="mor",
            version=int(version),
        )  # fmt: skip
        made.bulk_insert(rows)
        made.upsert(rows.slice(0, 1))
        assert answer("compaction", "list", path) == answer("clustering", "list", path) == []
        planned = [_of(answer("compaction", "schedule", path))["instant"]]
        [pending] = answer("compaction", "list", path)
        assert (pending["state"], pending["file_groups"], pending["log_files"]) == (
            "requested", 1, 1,
        )  # fmt: skip
        shown = _of(answer("compaction", "show", path, planned[0]))
        assert shown["slices"][0]["base_instant"] and len(shown["slices"][0]["log_files"]) == 1
        answer("compaction", "run", path)
        planned.append(_of(answer("clustering", "schedule", path, "--sort-by", "ts"))["instant"])
        [clustering] = answer("clustering", "list", path)
        assert (clustering["state"], clustering["file_groups"]) == ("requested", 1)
        answer("clustering", "run", path)
        for noun, instant in zip(("compaction", "clustering"), planned, strict=True):
            [done] = answer(noun, "list", path)
            assert (done["instant"], done["state"]) == (instant, "completed")
            assert done["file_groups"] == 1 and done["action"] == noun
            slices = _of(answer(noun, "show", path, instant))["slices"]
            assert slices[0]["file_id"] and slices[0]["base_file"].endswith(".parquet")
            wrong = run(noun, "show", path, "20200101000000000")
            assert wrong.returncode == 2 and f"`pyhudi {noun} list` lists" in wrong.stderr


def _of(document: Any) -> Any:
    assert isinstance(document, dict)
    return document


def test_who_pins_a_snapshot_is_reported(tmp_path: Path) -> None:
    path = a_table(tmp_path / "t")
    assert answer("clean", "pins", path) == []
    with pyhudi.open_table(path).pin_snapshot() as pinned:
        reported = answer("clean", "pins", path)
        assert isinstance(reported, list)
        assert [(h["instant"], h["is_alive"]) for h in reported] == [(pinned.instant, True)]


def test_partitions_that_have_not_expired_stay(tmp_path: Path) -> None:
    arguments = ("--option", "hoodie.partition.ttl.strategy.days.retain=2")
    done = answer("ttl", "run", a_table(tmp_path / "t"), *arguments)
    assert isinstance(done, dict) and (done["partitions"], done["instant"]) == ([], None)


def test_a_clean_deletes_what_its_options_allow(tmp_path: Path) -> None:
    path = a_table(tmp_path / "t")
    answer("compaction", "run", path)
    arguments = ("--option", "hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS")
    arguments += ("--option", "hoodie.clean.fileversions.retained=1")
    done = answer("clean", "run", path, *arguments)
    assert isinstance(done, dict) and done["files"] == 2  # a base file and its log
    again = answer("clean", "run", path, *arguments)
    assert isinstance(again, dict) and (again["files"], again["instants"]) == (0, [])


def test_an_unknown_option_is_an_error_of_usage(tmp_path: Path) -> None:
    done = run("clean", "run", a_table(tmp_path / "t"), "--option", "hoodie.cleen=1")
    assert done.returncode == 2 and "hoodie.cleen" in done.stderr


def test_repeated_runs_end_with_success_at_sigterm(tmp_path: Path) -> None:
    command = ("services", "run", a_table(tmp_path / "t"), "--every", "3600", "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", "pyhudi", *map(str, command)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["services"][-1]["name"] == "leftovers"
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "")
