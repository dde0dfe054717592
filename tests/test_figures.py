"""The program behind `make figures`: what it stores, when it stops, and which rows it refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import figures, machine
from bench.figures import STEPS, Step
from bench.results import Row, line, merged, rows_of, stated, text_of
from bench.spark_rows import differences, expected_changes, expected_table, make, newest_rows
from bench.spark_stores import Request, beyond_bytes, hdfs_requests, s3_request

ROOT = Path(__file__).parents[1]


def test_a_claim_replaces_its_row_and_moves_with_its_verdict() -> None:
    old = [
        Row("load", "3 s and 1 s", "3.00x", "missed", "2026-11-22, 1234abcd", "`bench.a`"),
        Row("read", "1 s", "", "", "2026-11-22, 1234abcd", "`bench.b`"),
    ]
    assert rows_of(text_of(old)) == old
    printed = ["a table", line("load", "1 s and 1 s", "1.00x", is_held=True), line("new", "2 s")]
    text = text_of(merged(old, stated(printed)))
    assert "Goals missed" not in text
    assert rows_of(text) == [
        Row("load", "1 s and 1 s", "1.00x", "held"), old[1], Row("new", "2 s", "")
    ]  # fmt: skip


def test_the_results_are_short_and_as_the_benches_write_them() -> None:
    text = figures.RESULTS.read_text("utf-8")
    rows = rows_of(text)
    assert text == text_of(rows) and len(text.splitlines()) <= 250
    assert len({row.claim for row in rows}) == len(rows)
    names = {re.search(r"[a-z]\w*\.(\w+)", row.command).group(1) for row in rows}  # type: ignore[union-attr]
    assert {name for name in names if not (ROOT / f"bench/{name}.py").exists()} == set()
    assert all(re.match(r"20\d\d-\d\d-\d\d, [0-9a-f]{8}", row.when) for row in rows)


def test_what_a_bench_claims_is_stored_and_that_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "good.py").write_text("print('. at work'); print('=> read | 2 ms | | held')")
    (folder / "bad.py").write_text("print('=> part | 3 ms | | missed'); raise SystemExit(1)")
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    steps = (Step("one", "good", (), 1), Step("two", "bad", (), 1))
    monkeypatch.setattr(figures, "STEPS", steps)
    results = tmp_path / "RESULTS.md"
    monkeypatch.setattr(sys, "argv", ["x", "--results", str(results)])
    assert figures.main() == 1
    text = results.read_text()
    found = {row.claim: (row.figure, row.verdict) for row in rows_of(text)}
    assert found == {
        "part": ("3 ms", "missed"),
        "the bench of two ends well": ("failed with status 1", "missed"),
        "read": ("2 ms", "held"),
    }


def test_a_program_and_what_it_started_end_at_the_limit(tmp_path: Path) -> None:
    child = "import time, pathlib; time.sleep(3); pathlib.Path('PATH').touch()"
    child = child.replace("PATH", str(tmp_path / "late"))
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    watch = (  # in a process of its own: `run` also waits for orphans of the process it is in
        "import sys; from bench import machine\n"
        f"ended = machine.run([sys.executable, '-c', {code!r}], on_line=print, limit_seconds=0.5)\n"
        "assert ended.status is None and ended.verdict.startswith('stopped after')\n"
        "print(ended.seconds)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", watch], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(ran.stdout) < 3 and not (tmp_path / "late").exists()


def test_cpu_of_a_program_that_outlives_its_parent_is_counted() -> None:
    busy = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {busy!r}]).wait()"
    ended = machine.run([sys.executable, "-c", code], on_line=print, limit_seconds=60)
    assert ended.status == 0 and ended.cpu_seconds >= 0.3


def test_a_child_that_was_there_before_is_not_waited_for() -> None:
    there = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        ended = machine.run([sys.executable, "-c", ""], on_line=print, limit_seconds=60)
        assert ended.seconds < 10 and there.poll() is None
    finally:
        there.kill()
        assert there.wait() == -9


def test_every_figure_is_of_a_bench_that_is_there() -> None:
    for step in STEPS:
        assert (ROOT / "bench" / f"{step.module}.py").exists()
    assert "\nfigures: build\n" in (ROOT / "Makefile").read_text()


def test_rows_that_differ_from_the_input_are_named(tmp_path: Path) -> None:
    make(tmp_path, 400, 40, 2)
    expected = expected_table(newest_rows(tmp_path, 2))
    assert sum(values[0] for values in expected.values()) == 400 + 2 * 4
    assert expected_changes(tmp_path, 2)[0] == 40
    rows = [[part, *values] for part, values in expected.items()]
    assert differences(expected, rows) == []
    rows[3][1] += 1  # a row that is there twice
    (found,) = differences(expected, rows)
    assert found.startswith(f"{rows[3][0]} count(*): {rows[3][1]} and not")
    assert len(differences(expected, rows[:3])) == 4
    assert differences(expected, [*rows, rows[0]]) == ["9 rows for 8 partitions"]


def test_the_last_batch_wins_in_what_is_expected(tmp_path: Path) -> None:
    make(tmp_path, 400, 40, 2)
    versions: dict[str, int] = {}
    for name in ("base", "up0", "up1"):
        rows: pa.Table = pq.read_table(tmp_path / f"{name}.parquet")
        versions |= dict(zip(rows["id"].to_pylist(), rows["ts"].to_pylist(), strict=True))
    assert sum(values[2] for values in expected_table(newest_rows(tmp_path, 2)).values()) == sum(
        versions.values()
    )


def test_requests_of_stores_are_counted_by_file() -> None:
    line = "allowed=true\tugi=a\tip=/127.0.0.1\tcmd={}\tsrc={}\tdst=null\tproto=rpc"
    name = "/t/p0/f-0_0-1-2_20260101000000000.parquet"
    read = [*hdfs_requests(line.format("open", name))]
    listed = [*hdfs_requests(line.format("getfileinfo", name))]
    assert read == [Request(name[6:], is_data=True)]
    assert listed == [Request(name[6:], is_data=False)]
    assert [*hdfs_requests("a line of the server")] == []
    assert s3_request(f"GET /bucket{name}") == read[0]
    assert s3_request(f"HEAD /bucket{name}") == listed[0]
    assert s3_request(f"GET /bucket?list-type=2&prefix={name[1:]}&delimiter=/") == listed[0]
    log = "/t/p0/.f-0_20260101000000000.log.1_0-1-2"
    assert s3_request(f"GET /bucket{log}").file == log[6:]
    assert s3_request("GET /bucket/t/.hoodie/metadata/files/f-0_1-2-3_4.hfile").file == ""
    assert s3_request("HEAD /bucket/t/.hoodie/metadata/files/.f.log.1_0-0-0").file == ""
    assert beyond_bytes([*read, *listed, *listed]) == {name[6:]: 2}
