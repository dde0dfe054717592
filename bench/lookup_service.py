"""How soon does a small web service answer where a key is, at 200 requests a second?

    python -m bench.lookup_service [--smoke]

`examples/lookup_service.py` over a table of 1 M keys on one core; requests come at fixed times
(so a slow answer delays none of those after it), over 8 connections, while another process
upserts.  Every fifth request asks for a key that was committed meanwhile: the newest key whose
commit was acknowledged before the request is sent.  A committed key that is not found is counted,
and makes the exit status 1.  Target: 5 ms at the 99th percentile.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyarrow as pa

import pyhudi
from bench.results import state

PER_SECOND, CONNECTIONS = 200, 8
ROOT = Path(__file__).parents[1]
WRITER = """
import pyarrow as pa, pyhudi, sys, time
table = pyhudi.open_table(sys.argv[1])
for turn in range(1000):
    ids = [f"k{i:08d}" for i in range(turn * 500, turn * 500 + 500)]
    parts = [f"p{i % 4}" for i in range(501)]
    table.upsert(pa.table({"id": [*ids, f"new{turn}"], "part": parts, "v": [turn] * 501}))
    print(turn, flush=True)
    time.sleep(0.5)
"""


@dataclass
class Answers:
    """Milliseconds from when each request was due to its answer, of keys that were there at the
    start and of keys committed since; missing: committed keys that were not found."""

    old: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)


def follow(output: IO[str], committed: list[str]) -> None:
    """Append the key of each commit that the writer reports, as it is reported."""
    committed.extend(f"new{int(line)}" for line in output)


async def load(port: int, keys: int, seconds: float, committed: list[str]) -> Answers:
    """Ask at fixed times; committed: grows while this runs."""
    pool: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        pool.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    answers = Answers()

    async def look_up(due: float, number: int) -> None:
        reader, writer = await pool.get()
        is_fresh = number % 5 == 0 and bool(committed)
        key = committed[-1] if is_fresh else f"k{random.randrange(keys):08d}"
        writer.write(f"GET /locations/{key} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        found = json.loads(await reader.readexactly(length))
        assert found["key"] == key
        if not found["found"]:
            answers.missing.append(key)
        if is_fresh:
            answers.keys.add(key)
        (answers.fresh if is_fresh else answers.old).append((time.perf_counter() - due) * 1000)
        pool.put_nowait((reader, writer))

    start = time.perf_counter() + 0.1
    tasks = []
    for number in range(int(seconds * PER_SECOND)):
        due = start + number / PER_SECOND
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(look_up(due, number)))
    await asyncio.gather(*tasks)
    return answers


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(keys: int, seconds: float) -> int:
    rows = pa.table(
        {
            "id": [f"k{i:08d}" for i in range(keys)],
            "part": [f"p{i % 4}" for i in range(keys)],
            "v": [0] * keys,
        }
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    committed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        made = pyhudi.create_table(
            f"{folder}/t", rows.schema, record_key="id", partition_by="part", table_type="mor"
        )
        made.bulk_insert(rows)
        program = [sys.executable, str(ROOT / "examples/lookup_service.py"), f"{folder}/t"]
        service = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment)
        os.sched_setaffinity(service.pid, {0})
        writing = [sys.executable, "-c", WRITER, f"{folder}/t"]
        writer = subprocess.Popen(writing, stdout=subprocess.PIPE, text=True, env=environment)
        others = set(range(1, os.cpu_count() or 1)) or {0}
        os.sched_setaffinity(writer.pid, others)
        try:
            assert service.stdout is not None and writer.stdout is not None
            threading.Thread(target=follow, args=(writer.stdout, committed), daemon=True).start()
            port = int(service.stdout.readline().rsplit(":", 1)[1])
            while not committed and writer.poll() is None:
                time.sleep(0.01)
            asyncio.run(load(port, keys, 1.0, committed))  # connections, caches
            busy, before = cpu_seconds(service.pid), len(committed)
            answers = asyncio.run(load(port, keys, seconds, committed))
            busy = cpu_seconds(service.pid) - busy
            commits = len(committed) - before
        finally:
            for process in (service, writer):
                process.kill()
                process.wait()
    print(
        f"{PER_SECOND} requests a second for {seconds:.0f} s, {commits} commits meanwhile; "
        f"the service worked {busy / seconds:.0%} of the time; "
        f"load of the machine {os.getloadavg()[0]:.1f}"
    )
    print(f"keys of before: {shown(answers.old)}")
    print(f"newest committed key: {shown(answers.fresh)}")
    print(f"all: {shown([*answers.old, *answers.fresh])} (target: p99 5 ms)")
    spent = sorted([*answers.old, *answers.fresh])
    slow = spent[int(len(spent) * 0.99)]
    state("look-up service, 99 % of requests: at most 5 ms", f"{slow:.2f} ms", is_held=slow <= 5)
    print(
        f"{len(answers.fresh)} requests for {len(answers.keys)} keys committed meanwhile, "
        f"{len(answers.missing)} of committed keys not found"
    )
    return 1 if answers.missing else 0


def shown(spent: list[float]) -> str:
    if not spent:
        return "none"
    spent = sorted(spent)
    shares = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("worst", 1.0))
    times = (
        f"{name} {spent[min(len(spent) - 1, int(len(spent) * share))]:.2f} ms"
        for name, share in shares
    )
    return f"{len(spent)} requests, {', '.join(times)}"


if __name__ == "__main__":
    small = "--smoke" in sys.argv[1:]
    sys.exit(run(20_000 if small else 1_000_000, 2.0 if small else 20.0))
