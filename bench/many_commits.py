"""The time of an upsert of a few rows as the timeline of its table grows.

    python -m bench.many_commits [--commits 1000] [--type cow] [--smoke]

Twice: with the services that keep a table in shape after each write, and without them, where files
and instants only become more.  Figures are medians of ten upserts, of CPU and of wall time.
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
    "without services": {},
    "cleaned and archived after each write": {
        "hoodie.clean.automatic": "true",
        "hoodie.archive.automatic": "true",
    },
}


def rows(turn: int) -> pa.Table:
    ids = [f"k{(8 * turn + n) % 1000}" for n in range(4)]
    return pa.table({"id": ids, "part": [f"p{int(i[1:]) % 8}" for i in ids], "v": [turn] * 4})


def grow(path: Path, kind: str, commits: int, services: dict[str, str]) -> None:
    options = {"hoodie.metadata.record.index.min.filegroup.count": "2", **services}
    if kind == "mor":
        options["hoodie.compact.inline"] = "true"
    table = pyhudi.create_table(
        path, rows(0).schema, record_key="id", partition_by="part", table_type=kind, options=options
    )
    table.bulk_insert(pa.concat_tables([rows(turn) for turn in range(125)]))
    first: tuple[float, float] | None = None
    cpu: list[float] = []
    wall: list[float] = []
    for turn in range(1, commits + 1):
        began, used = time.monotonic(), time.process_time()
        table.upsert(rows(turn))
        wall.append(time.monotonic() - began)
        cpu.append(time.process_time() - used)
        if turn == 20 or turn % max(1, commits // 5) == 0:
            now = statistics.median(cpu[-10:]), statistics.median(wall[-10:])
            first = first or now
            print(
                f"  upsert {turn}: {now[0] * 1000:.0f} ms CPU ({now[0] / first[0]:.2f}x), "
                f"{now[1] * 1000:.0f} ms ({now[1] / first[1]:.2f}x)",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--type", default="cow", choices=("cow", "mor"))
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    for name, services in SERVICES.items():
        print(f"{asked.type}, {name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            grow(Path(folder) / "t", asked.type, 20 if asked.smoke else asked.commits, services)


if __name__ == "__main__":
    main()
