"""Every long form of the tests, one after another; seeds and totals go to bench/RESULTS.md.

    python -m tests.long_forms [--seed N] [--only NAME]... [--results FILE]

Each form is a target of the Makefile.  Its line in the results is rewritten when it ends, so that a
run that is interrupted stores what it did.  Exit status 1 if a form failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "RESULTS.md"
TITLE = "## Long forms"
HEAD = f"""{TITLE}

Written by `make long`: the last run of each form, its seed, and the last line it printed.

| form | date | seed | minutes | result |
|---|---|---|---|---|
"""
FORMS = (
    "test-version-9", "model", "torn", "mutants", "faults", "failing-disk", "failing-store",
    "properties", "filters", "history", "kills", "chaos", "fuzz", "sanitize", "interop",
    "zookeeper", "azure", "browser", "catalogs", "engines", "engines-local", "hdfs", "spark-stores",
    "spark-versions", "hbase", "hudi-rs", "postgres", "newcomer",
)  # fmt: skip
LINE_MAX = 300


def last_line(output: str) -> str:
    """What a form printed last, without the lines of make itself; safe in a Markdown table."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith(("make:", "make["))]
    return (own or lines or ["no output"])[-1].replace("|", "/")[:LINE_MAX]


def run(command: Sequence[str]) -> tuple[bool, str]:
    """Whether it succeeded, and its last line; all of it is printed as it comes."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    )  # fmt: skip
    assert process.stdout
    lines = []
    for line in process.stdout:
        sys.stdout.write(line)
        lines = [*lines[-50:], line]
    return process.wait() == 0, last_line("".join(lines))


def with_row(text: str, form: str, row: str) -> str:
    """The results with the row of one form replaced or added; other sections stay as they are."""
    before, found, rest = text.partition(TITLE + "\n")
    section, more, after = rest.partition("\n## ")
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:] if found else []
    rows = [line for line in rows if not line.startswith(f"| {form} |")]
    place = {name: n for n, name in enumerate(FORMS)}
    rows = sorted([*rows, row], key=lambda r: place.get(r.split(" | ")[0][2:], len(FORMS)))
    return before.rstrip("\n") + "\n\n" + HEAD + "\n".join(rows) + "\n" + more + after


def record(results: Path, form: str, seed: int, minutes: float, outcome: tuple[bool, str]) -> None:
    succeeded, line = outcome
    verdict = line if succeeded else f"**failed**: {line}"
    row = f"| {form} | {dt.date.today()} | {seed} | {minutes:.1f} | {verdict} |"
    text = results.read_text("utf-8") if results.exists() else "# Figures\n"
    results.write_text(with_row(text, form, row), "utf-8")


def main(make: Sequence[str] = ("make", "--no-print-directory")) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(dt.date.today().strftime("%y%m%d")))
    parser.add_argument("--only", action="append", choices=FORMS, default=[])
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    failed = []
    for form in given.only or FORMS:
        print(f"== {form}, seed {given.seed}", flush=True)
        start = time.monotonic()
        outcome = run([*make, form, f"SEED={given.seed}"])
        record(given.results, form, given.seed, (time.monotonic() - start) / 60, outcome)
        failed += [form] if not outcome[0] else []
    print(f"{len(given.only or FORMS)} long forms; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
