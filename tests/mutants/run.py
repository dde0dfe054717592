"""Seeded bugs, one at a time: each must be caught by a test it names.

    python -m tests.mutants.run [--seed 0] [--count 0] [--only WORD]

A mutant is a small change of one source file.  It is made in a copy of the package and the tests,
the tests it names are run there, and it is caught if one of them fails.  Before that the tests
named must pass unchanged (`--no-baseline` leaves that out).  Prints a line a mutant and one of
totals; exit code 3 where one survives or no longer fits the source.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.seeded import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 300.0


def copied(folder: Path) -> Path:
    """The package, the tests and their settings, elsewhere."""
    for name in ("pyhudi", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def passes(folder: Path, tests: Sequence[str]) -> bool:
    """Whether the tests pass in the copy; a hang counts as a failure."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = kept | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p",
               "no:cacheprovider", "-m", "not slow", *tests]  # fmt: skip
    try:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return False
    if run.returncode not in (0, 1, 2):
        raise SystemExit(f"{tests} cannot be run: {run.stdout.decode()[-2000:]}")
    return run.returncode == 0


def is_caught(folder: Path, mutant: Mutant) -> bool | None:
    """None where the source has changed under the mutant."""
    path = folder / mutant.path
    good = path.read_text()
    if good.count(mutant.old) != 1:
        return None
    path.write_text(good.replace(mutant.old, mutant.new))
    try:
        return not passes(folder, mutant.tests)
    finally:
        path.write_text(good)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="so many, chosen by the seed")
    parser.add_argument("--only", default="")
    parser.add_argument("--no-baseline", action="store_true")
    asked = parser.parse_args()
    chosen = [m for m in MUTANTS if asked.only in m.name]
    if asked.count:
        chosen = random.Random(asked.seed).sample(chosen, min(asked.count, len(chosen)))
    caught, bad = 0, []
    with tempfile.TemporaryDirectory(prefix="pyhudi-mutants-") as name:
        folder = copied(Path(name))
        if not asked.no_baseline:
            for tests in sorted({m.tests for m in chosen}):
                if not passes(folder, tests):
                    raise SystemExit(f"{' '.join(tests)} fails without any mutant")
        for mutant in chosen:
            began = time.monotonic()
            found = is_caught(folder, mutant)
            told = {True: "caught", False: "SURVIVED", None: "DOES NOT FIT"}[found]
            seconds = time.monotonic() - began
            print(f"{told:<12} {mutant.name} ({mutant.path}; {seconds:.0f} s)", flush=True)
            caught += bool(found)
            if not found:
                bad.append(mutant.name)
    print(f"mutants, seed {asked.seed}: {caught} of {len(chosen)} caught; bad {len(bad)}: {bad}")
    return 3 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
