"""After how many seeds a seeded bug is found.

Of 25 seeds from 6101: `ingest: source acknowledged` by the 1st, `lease: confirm` by the 22nd; not
`clean: replaced group`, `ingest: a concurrent advance`, `finish: instant rolled back` and `restore
v8/9`.  Out of reach, as nothing of a table's store or time is in them: Kafka, the engines, the
server, and paths of partitions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.run import copied
from tests.mutants.seeded import MUTANTS, changed


@dataclass(frozen=True)
class Hunt:
    """seeds: how many were run, the last of which failed if there is a problem."""

    mutant: str
    seeds: int
    problem: str

    def __str__(self) -> str:
        if not self.problem:
            return f"not found by {self.seeds} seeds: {self.mutant}"
        return f"seed number {self.seeds}: {self.mutant}\n    {self.problem}"


def hunted(word: str, *, count: int, first: int) -> Iterator[Hunt]:
    """Each bug of `tests.mutants` with this word in its name, in a copy of the package.

    Native ones, which would have to be compiled, are left out.
    """
    with tempfile.TemporaryDirectory(prefix="pyhudi-hunt-") as name:
        folder = copied(Path(name))
        for mutant in MUTANTS:
            path = folder / mutant.path
            good = path.read_text()
            bad = changed(good, mutant.old, mutant.new)
            if word not in mutant.name or path.suffix != ".py":
                continue
            if bad is None:
                raise SystemExit(f"does not fit the source: {mutant.name}")
            path.write_text(bad)
            yield _hunt(folder, mutant.name, count, first)
            path.write_text(good)


def _hunt(folder: Path, mutant: str, count: int, first: int) -> Hunt:
    command = [sys.executable, "-m", "tests.simulation", "--stop", "--count", str(count),
               "--first", str(first)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)
    lines = ran.stdout.splitlines()
    if ran.returncode not in (0, 3):
        raise SystemExit(f"{mutant}: {ran.stderr[-2000:]}")
    seeds = int(lines[-1].split()[1])
    problem = lines[1][:200] if ran.returncode else ""
    return Hunt(mutant, seeds, problem)
