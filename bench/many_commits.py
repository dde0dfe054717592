"""The time of an upsert of a few rows as the timeline of its table grows.

    python -m bench.many_commits [--commits 1000] [--type cow] [--services NAMES] [--index record]
        [--rows 4] [--smoke]

--services: default, cleaned and archived after each write; archive, without cleaning; none, where
files and instants only become more; or several of them, one table each.  Figures are medians of
ten upserts, of CPU and of wall time, with their ratios to the 10th and the 20th.  Target: 1.3x
after 1,000 commits.  By default the clean of each write is in them, which the first ten do not need
yet: compare with the 20th.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import pyhudi

SERVICES = {
    "default": {},
    "archive": {"hoodie.clean.automatic": "false"},
    "none": {"hoodie.table.services.enabled": "false"},
}


def rows(turn: int, count: int = 4) -> pa.Table:
    ids = [f"k{(8 * turn + n) % 1000}" for n in range(count)]
    return pa.table({"id": ids, "part": [f"p{int(i[1:]) % 8}" for i in ids], "v": [turn] * count})


def grow(
    path: Path, kind: str, commits: int, services: dict[str, str], *, index: str, count: int
) -> None:
    options = {"hoodie.metadata.record.index.min.filegroup.count": "2", **services}
    if kind == "mor":
        options["hoodie.compact.inline"] = "true"
    table = pyhudi.create_table(
        path,
        rows(0).schema,
        record_key="id",
        partition_by="part",
        table_type=kind,
        index=index,
        options=options,
    )
    table.bulk_insert(pa.concat_tables([rows(turn) for turn in range(125)]))
    first: list[tuple[float, float]] = []
    cpu: list[float] = []
    wall: list[float] = []
    for turn in range(1, commits + 1):
        began, used = time.monotonic(), time.process_time()
        table.upsert(rows(turn, count))
        wall.append(time.monotonic() - began)
        cpu.append(time.process_time() - used)
        if turn in (10, 20) or (turn > 20 and turn % max(1, commits // 5) == 0):
            now = statistics.median(cpu[-10:]), statistics.median(wall[-10:])
            if turn <= 20:
                first.append(now)
            ratios = [
                f"{time * 1000:.0f} ms{what} ({', '.join(f'{time / f[i]:.2f}x' for f in first)})"
                for i, (time, what) in enumerate(zip(now, (" CPU", ""), strict=True))
            ]
            print(f"  upsert {turn}: {', '.join(ratios)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--type", default="cow", choices=("cow", "mor"))
    parser.add_argument("--services", nargs="+", default=[*SERVICES], choices=[*SERVICES])
    parser.add_argument("--index", default="record", choices=("record", "bloom", "simple"))
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.services:
        shape = f"{arguments.type}, {arguments.index}, {arguments.rows} rows"
        print(f"{shape}, services: {name}", flush=True)
        count = 12 if arguments.smoke else arguments.commits
        with tempfile.TemporaryDirectory() as folder:
            grow(
                Path(folder) / "t",
                arguments.type,
                count,
                SERVICES[name],
                index=arguments.index,
                count=arguments.rows,
            )


if __name__ == "__main__":
    main()
