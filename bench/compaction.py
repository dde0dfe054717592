"""How long does a compaction take beside Apache Hudi's?

    python -m bench.compaction [--groups 20] [--logs 5] [--rows 50000] [--smoke]
        [--apache-hudi VERSION]

One merge-on-read table of as many file groups of `rows` rows; each log of a group updates a tenth
of them.  Copies of it are compacted by pyhudi and, where `--apache-hudi` names a version, by Apache
Hudi in a process that is warm: it has read the table before.  Log blocks are Avro, which Apache
Hudi writes itself, or Parquet (`--log-format`).  Prints seconds of each and a hash of the rows that
both leave.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pyhudi

OPTIONS = {"hoodie.metadata.record.index.min.filegroup.count": "4"}


def rows_of(numbers: np.ndarray, groups: int, version: int) -> pa.Table:
    rng = np.random.default_rng(version)
    return pa.table(
        {
            "id": pa.array([f"k{n:09d}" for n in numbers.tolist()]),
            "part": pa.array([f"p{n % groups:03d}" for n in numbers.tolist()]),
            "ts": pa.array(np.full(len(numbers), version)),
            "fare": pa.array(rng.random(len(numbers))),
            "count": pa.array(rng.integers(0, 1000, len(numbers))),
            "note": pa.array([f"note {v}" for v in rng.integers(0, 10**6, len(numbers)).tolist()]),
        }
    )


def make(path: Path, *, groups: int, logs: int, rows: int, log_format: str) -> None:
    options = OPTIONS | {"hoodie.logfile.data.block.format": log_format}
    everything = np.arange(groups * rows)
    first = rows_of(everything, groups, 0)
    table = pyhudi.create_table(
        path,
        first.schema,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type="mor",
        version=6,
        options=options,
    )
    table.bulk_insert(first)
    rng = np.random.default_rng(1)
    for version in range(1, logs + 1):
        some = np.sort(rng.choice(everything, len(everything) // 10, replace=False))
        table.upsert(rows_of(some, groups, version))


def digest(path: Path) -> str:
    rows = pyhudi.open_table(path).scan(["id", "ts", "fare", "note"]).to_arrow().sort_by("id")
    return hashlib.sha256(str(rows.to_pydict()).encode()).hexdigest()[:12]


class ApacheHudi:
    """One process of tests/interop/apache_hudi, its JVM with the options it has by default."""

    def __init__(self, version: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.apache_hudi", "--hudi", version, "serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            cwd=Path(__file__).parents[1], env={**os.environ, "HUDI_ORACLE_JVM": ""},
        )  # fmt: skip

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer.get("ok"), answer.get("error")
        return answer

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)


def by_pyhudi(path: Path) -> float:
    table = pyhudi.open_table(path)
    began = time.monotonic()
    report = table.compact()
    seconds = time.monotonic() - began
    print(f"pyhudi: {seconds:.2f} s, {report.file_groups} groups, {report.log_files} logs")
    return seconds


def by_apache_hudi(path: Path, plan: str, version: str) -> float:
    """Only the execution of a plan is timed: planning, catalogue and start are not."""
    hudi = ApacheHudi(version)
    try:
        hudi.call("read", path=str(path), mdt="on", out=str(path.parent / "warm.parquet"))
        began = time.monotonic()
        what = {"op": "execute", "instants": plan}
        hudi.call("service", path=str(path), name="compact", args=what)
        seconds = time.monotonic() - began
    finally:
        hudi.end()
    print(f"Apache Hudi {version}: {seconds:.2f} s")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--logs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--log-format", default="avro", choices=("avro", "parquet"))
    parser.add_argument("--apache-hudi")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    rows = 500 if arguments.smoke else arguments.rows
    with tempfile.TemporaryDirectory(prefix="bench-compaction-") as folder:
        mine, theirs = Path(folder, "mine"), Path(folder, "theirs")
        make(
            mine,
            groups=arguments.groups,
            logs=arguments.logs,
            rows=rows,
            log_format=arguments.log_format,
        )
        plan = pyhudi.open_table(mine).schedule_compaction()
        shutil.copytree(mine, theirs)
        ours = by_pyhudi(mine)
        found = {digest(mine)}
        if arguments.apache_hudi:
            peer = by_apache_hudi(theirs, str(plan), arguments.apache_hudi)
            found.add(digest(theirs))
            print(f"{peer / ours:.1f}x")
        assert len(found) == 1, "both leave the same rows"
        print(f"rows {found.pop()}")


if __name__ == "__main__":
    main()
