"""Commits a second of writers on disjoint partitions, in processes, beside one writer's.

    python -m bench.many_writers [--seconds 20] [--writers 8] [--rows 1000] [--smoke]

Every writer upserts the same rows of its own partition again and again.  Starvation shows in the
commits of the writer that got fewest, and in the longest time one commit took.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi

MODES = {"alone": "single_writer", "beside": "optimistic_concurrency_control"}
_FORK = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Run:
    """Commits of each writer in a time, and the longest commit."""

    counts: tuple[int, ...]
    conflicts: int
    longest_seconds: float
    seconds: float

    @property
    def rate(self) -> float:
        return sum(self.counts) / self.seconds


def rows(writer: int, count: int, turn: int) -> pa.Table:
    ids = [f"{writer}-{n}" for n in range(count)]
    return pa.table({"id": ids, "part": [f"p{writer}"] * count, "v": [turn] * count})


def work(path: str, writer: int, mode: str, count: int, start: Any, answers: Any) -> None:
    options = {"hoodie.write.concurrency.mode": MODES[mode], "hoodie.clean.automatic": "false"}
    table = pyhudi.open_table(path, options=options)
    start.wait()
    end = time.monotonic() + start_seconds()
    done, conflicts, longest = 0, 0, 0.0
    while time.monotonic() < end:
        began = time.monotonic()
        report = table.upsert(rows(writer, count, done))
        longest = max(longest, time.monotonic() - began)
        conflicts += report.conflicts
        done += 1
    answers.put((writer, done, conflicts, longest))


def start_seconds() -> float:
    return float(os.environ["BENCH_SECONDS"])


def run(folder: Path, mode: str, writers: int, count: int, seconds: float) -> Run:
    os.environ["BENCH_SECONDS"] = str(seconds)
    path = folder / f"{mode}-{writers}"
    schema = rows(0, 1, 0).schema
    table = pyhudi.create_table(
        path,
        schema,
        record_key="id",
        partition_by="part",
        options={"hoodie.metadata.record.index.min.filegroup.count": "2"},
    )
    table.bulk_insert(pa.concat_tables([rows(w, count, -1) for w in range(writers)]))
    start, answers = _FORK.Barrier(writers), _FORK.Queue()
    arguments = [(str(path), w, mode, count, start, answers) for w in range(writers)]
    children = [_FORK.Process(target=work, args=a) for a in arguments]
    for child in children:
        child.start()
    # a writer that fails answers nothing
    found = sorted(answers.get(timeout=60 + 2 * seconds) for _ in children)
    for child in children:
        child.join()
    return Run(
        tuple(f[1] for f in found), sum(f[2] for f in found), max(f[3] for f in found), seconds
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    seconds, writers = (0.5, 2) if arguments.smoke else (arguments.seconds, arguments.writers)
    with tempfile.TemporaryDirectory() as folder:
        one = run(Path(folder), "alone", 1, arguments.rows, seconds)
        print(f"1 writer, alone: {one.rate:.1f} commits/s")
        for mode in MODES:
            many = run(Path(folder), mode, writers, arguments.rows, seconds)
            print(
                f"{writers} writers, {mode}: {many.rate:.1f} commits/s "
                f"({many.rate / max(one.rate, 1e-9):.2f}x of one, {os.cpu_count()} cores), "
                f"{min(many.counts)} to {max(many.counts)} commits each, "
                f"{many.conflicts} conflicts, longest commit {many.longest_seconds:.2f} s"
            )


if __name__ == "__main__":
    main()
