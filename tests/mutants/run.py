"""Seeded bugs, one at a time: each must be caught by a test it names.

    python -m tests.mutants.run [--seed 0] [--count 0] [--only WORD] [--part 0/24]
                              [--drawn COUNT]

A mutant is a small change of one source file.  It is made in a copy of the package and the tests,
compiled where it is native, and the tests it names are run there.  It is caught if the assertion of
one of them fails: a test that ends by another error, or does not end, has not looked.  Before that
the tests named must pass unchanged (`--no-baseline` leaves that out).  Prints a line a mutant and
one of totals; exit code 3 where one is not caught or no longer fits the source.  `--drawn` takes
faults that a rule draws instead of the listed ones; not all of them change what a table does.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.mutants.drawn import drawn
from tests.mutants.seeded import MUTANTS, Mutant, changed

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 300.0
ASSERTED = re.compile(r"AssertionError|assert |Failed: DID NOT RAISE|ExceptionGroup")


def copied(folder: Path) -> Path:
    """The package, the tests, and what builds and sets them up, elsewhere."""
    for name in ("pyhudi", "pyspark_pyhudi", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def outcome(folder: Path, tests: Sequence[str]) -> str:
    """`passed`, `asserted`, or what else the tests ended by."""
    retained = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = retained | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p",
               "no:cacheprovider", f"--junitxml={report}", "-m", "not slow", "--every-case",
               *tests]  # fmt: skip
    try:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return "did not end"
    if run.returncode not in (0, 1, 2) or not report.exists():
        raise SystemExit(f"{tests} cannot be run: {run.stdout.decode()[-2000:]}")
    if run.returncode == 0:
        return "passed"
    found = [each.get("message") or "" for each in ElementTree.parse(report).iter("failure")]
    return "asserted" if any(ASSERTED.match(each) for each in found) else f"raised {found[:1]}"


def build(folder: Path) -> None:
    """Compile what has changed of the native core, in place."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the native core cannot be built: {done.stderr[-2000:]}")


def judge(folder: Path, mutant: Mutant) -> str:
    """The outcome of a mutant's tests, or `does not fit` where the source has changed under it."""
    path = folder / mutant.path
    good = path.read_text()
    bad = changed(good, mutant.old, mutant.new)
    if bad is None:
        return "does not fit"
    path.write_text(bad)
    is_native = path.suffix == ".pyx"
    try:
        if is_native:
            build(folder)
        return outcome(folder, mutant.tests)
    finally:
        path.write_text(good)
        if is_native:
            build(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="so many, chosen by the seed")
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1", help="i/n: of n parts the one with number i")
    parser.add_argument("--drawn", type=int, default=0, help="so many, drawn by the seed")
    parser.add_argument("--no-baseline", action="store_true")
    arguments = parser.parse_args()
    known = drawn(arguments.seed, arguments.drawn) if arguments.drawn else MUTANTS
    chosen = [m for m in known if arguments.only in m.name]
    part, parts = map(int, arguments.part.split("/"))
    chosen = chosen[part::parts]
    if arguments.count:
        chosen = random.Random(arguments.seed).sample(chosen, min(arguments.count, len(chosen)))
    caught, bad = 0, []
    with tempfile.TemporaryDirectory(prefix="pyhudi-mutants-") as name:
        folder = copied(Path(name))
        if not arguments.no_baseline:
            for tests in sorted({m.tests for m in chosen}):
                if outcome(folder, tests) != "passed":
                    raise SystemExit(f"{' '.join(tests)} fails without any mutant")
        for mutant in chosen:
            began = time.monotonic()
            found = judge(folder, mutant)
            shown = {"asserted": "caught", "passed": "SURVIVED"}.get(found, found.upper())
            seconds = time.monotonic() - began
            print(f"{shown:<12} {mutant.name} ({mutant.path}; {seconds:.0f} s)", flush=True)
            caught += found == "asserted"
            if found != "asserted":
                bad.append(mutant.name)
    print(
        f"mutants, seed {arguments.seed}: {caught} of {len(chosen)} caught; bad {len(bad)}: {bad}"
    )
    return 3 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
