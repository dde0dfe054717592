"""The figures that are compared from release to release, in one bounded run.

    python -m bench.figures [--minutes 25] [--smoke] [--only NAME]... [--results FILE]

Runs the benches below one after another, each in a process of its own and within its share of the
time, and stores the claims they print in bench/RESULTS.md (`bench.results`), with the share of the
machine that others used meanwhile: at each end of a bench, so that a run that is interrupted stores
what it did.  Rows of other claims stay as they are.  Figures count if `others` is a few per cent.
Exit status 1 if a bench failed, was stopped, or found a wrong result.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import machine
from bench.machine import PROGRESS, Outcome
from bench.results import Row, merged, rows_of, stated, text_of

RESULTS = machine.ROOT / "bench" / "RESULTS.md"


@dataclass(frozen=True, slots=True)
class Step:
    """A bench, its arguments, and the most minutes it may take.

    share: of the whole time that it gets by its own option `--minutes`; 0: it has none.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    minutes: float
    smoke: tuple[str, ...] = ("--smoke",)
    share: float = 0.0


STEPS = (
    Step(
        "upserts on Spark", "spark_upsert",
        ("--rows", "2000000", "--batch", "200000", "--limit", "420"), 60, share=0.6,
    ),
    Step("upserts on one machine", "local_upsert", ("--rows", "1000000", "--batch", "100000"), 1.5),
    Step("merges in SQL", "sql_merge", (), 4),
    Step("merges in SQL on Spark", "spark_merge", (), 4),
    Step("rewrites of files", "rewrite_limit", ("--turns", "1"), 1.5),
    Step("many partitions", "many_partitions", (), 3),
    Step("snapshots", "snapshot_read", (), 2),
    Step("table layer", "table_lookup", (), 2.5),
    Step("incremental read", "changes_read", ("--apache-hudi", "0.15.0"), 3.5),
    Step("services", "services_share", (), 3),
    Step("look-up service", "lookup_service", (), 1.5),
    Step("index growth", "index_growth", ("--buckets", "1", "--entries", "1000000"), 4),
)  # fmt: skip


def command_of(step: Step, *, smoke: bool, minutes: float) -> list[str]:
    """minutes: of all benches together."""
    arguments = [*(step.smoke if smoke else step.arguments)]
    if step.share:
        arguments += ["--minutes", f"{minutes * step.share:.1f}"]
    return [sys.executable, "-m", f"bench.{step.module}", *arguments]


def run_step(command: Sequence[str], limit_seconds: float) -> tuple[Outcome, list[str]]:
    """How it ended, and the lines it printed without those of its progress."""
    lines: list[str] = []

    def take(line: str) -> None:
        print(line, flush=True)
        if not line.startswith(PROGRESS):
            lines.append(line)

    environment = {**os.environ, "PYTHONPATH": str(machine.ROOT)}
    ended = machine.run(command, on_line=take, limit_seconds=limit_seconds, environment=environment)
    if ended.verdict:
        print(ended.error)
    return ended, lines


def rows_stated(
    step: Step, command: Sequence[str], ended: Outcome, lines: Sequence[str], *, of: str
) -> list[Row]:
    """The claims of a step, and that its bench did not end well.  of: the commit."""
    when = f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {of}, others {ended.others:.0%}"
    shown = f"`{' '.join(command[2:])}`"
    rows = [replace(row, when=when, command=shown) for row in stated(lines)]
    if ended.verdict:
        rows.append(Row(_ends_well(step), ended.verdict, "", "missed", when, shown))
    return rows


def _ends_well(step: Step) -> str:
    return f"the bench of {step.name} ends well"


def commit() -> str:
    """Of the code that runs; marked if it was changed since."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=8", "--exclude=*"]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    ).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--smoke", action="store_true", help="small sizes; figures mean nothing")
    parser.add_argument("--only", action="append", choices=[s.name for s in STEPS], default=[])
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    until = time.monotonic() + given.minutes * 60
    rows = rows_of(given.results.read_text("utf-8")) if given.results.exists() else []
    print(f"{machine.description()}, load {os.getloadavg()[0]:.1f} before")
    ran, of = 0, commit()  # before the results change
    failed: list[str] = []
    for step in STEPS:
        if given.only and step.name not in given.only:
            continue
        left = until - time.monotonic()
        command = command_of(step, smoke=given.smoke, minutes=given.minutes)
        print(f"== {step.name}: {' '.join(command[1:])}", flush=True)
        ended, lines = run_step(command, max(1.0, min(step.minutes * 60, left)))
        rows = [row for row in rows if row.claim != _ends_well(step)]
        rows = merged(rows, rows_stated(step, command, ended, lines, of=of))
        given.results.write_text(text_of(rows), "utf-8")
        ran += 1
        failed += [step.name] if ended.verdict else []
    print(f"{ran} benches; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
