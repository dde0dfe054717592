"""pyhudi beside hudi-rs 0.6: local tables of version 9, the same rows, in turns.

    python -m bench.hudi_rs [--rows 5000000] [--batch 500000] [--keys 100000] [--turns 3]
                            [--kind cow mor] [--version 9] [--smoke]

Each engine runs in a process of its own, with its defaults (zstd, metadata table with record index
and column statistics), and has a table that it wrote alone.  Both are given rows and keys as Arrow
IPC files; the time to read these is not part of the figures.  The engines take turns at each step.

  load      new table: bulk insert / append
  upsert    batches of 90 % updates, 10 % inserts
  read      all columns of the table as Arrow; also of the table of the other engine
  project   two columns
  lookup    location of keys by the record index, in a table that was just opened
  warm      the same again with other keys (hudi-rs has no state that it could reuse)

Prints the median of wall and CPU seconds (all threads), the greatest resident memory, and the ratio
hudi-rs / pyhudi of each.  Both tables must have the same rows at the end: exit status 1 otherwise.

`make long-hudi-rs` builds the program that runs hudi-rs.  Without it pyhudi runs alone and the
output says so; nothing is compared then.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pyhudi
from bench.index_growth import forget_opened
from bench.local_upsert import batches, rows_of
from bench.results import state
from tests.support import hudi_rs
from tests.support.hudi_rs import Peer

PROJECTED = ["id", "a"]
GOALS = {"upsert": 2.0, "lookup": 5.0, "read": 1.0}
SEED = 20_261_122


# ---- the process of pyhudi: the requests that the program of hudi-rs answers


def rows_in(file: str) -> pa.Table:
    with pa.OSFile(file) as opened:
        return pa.ipc.open_file(opened).read_all()


def created(path: str, rows: str, kind: str, version: int) -> None:
    schema = rows_in(rows).schema
    pyhudi.create_table(
        path,
        schema,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type=kind,
        version=version,
    )


def measured(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    began, cpu = time.perf_counter(), time.process_time()
    found = call()
    cpu = time.process_time() - cpu
    return found, {"seconds": time.perf_counter() - began, "cpu_seconds": cpu}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Raises KeyError for a command that is not known."""
    path, command = request["path"], request["command"]
    if command in ("append", "upsert"):
        rows = rows_in(request["rows"])
        if command == "append":
            return measured(lambda: pyhudi.open_table(path).bulk_insert(rows))[1]
        return measured(lambda: pyhudi.open_table(path).upsert(rows))[1]
    if command == "lookup":
        keys = rows_in(request["keys"])[0].combine_chunks()
        if request.get("cold"):
            forget_opened()
        found, spent = measured(lambda: pyhudi.open_table(path).lookup(keys))
        return {**spent, "found": found["found"].combine_chunks().true_count}
    if command == "read":
        columns = request["columns"]
        found, spent = measured(lambda: pyhudi.open_table(path).scan(columns).to_arrow())
        return {**spent, "rows": found.num_rows, "checksums": checksums(found)}
    created(path, request["rows"], request["kind"], request["version"])
    return {}


def checksums(rows: pa.Table) -> dict[str, dict[str, int]]:
    """As the program of hudi-rs computes them."""
    return {
        name: {"nulls": column.null_count, "sum": sum(map(_sum, column.chunks)) % (1 << 64)}
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    }


def _sum(chunk: pa.Array) -> int:
    """Of integers, of the bits of floating-point numbers, or of the bytes of text; no nulls."""
    if not (pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type)):
        bits = np.asarray(chunk).view(np.uint64)
        return int(bits.sum(dtype=np.uint64))
    text = chunk.cast(pa.large_string())
    offsets = np.frombuffer(text.buffers()[1], np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(text.buffers()[2] or b"", np.uint8)
    return int(data[offsets[0] : offsets[-1]].sum(dtype=np.uint64))


def serve() -> None:
    for line in sys.stdin:
        print(json.dumps({"ok": True, **answer(json.loads(line))}), flush=True)


# ---- the comparison


class Engine:
    """A process and what its calls took: (wall, CPU) seconds and MiB, by step."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name, self.process = name, Peer(command)
        self.times: dict[str, list[tuple[float, float]]] = {}
        self.memory: dict[str, float] = {}

    def call(self, step: str, command: str, **arguments: Any) -> dict[str, Any]:
        forget_peak(self.process.pid)
        found = self.process.call(command, **arguments)
        peak = peak_mib(self.process.pid)
        if "seconds" in found:
            self.times.setdefault(step, []).append((found["seconds"], found["cpu_seconds"]))
            self.memory[step] = max(self.memory.get(step, 0.0), peak)
        return found

    def median(self, step: str) -> tuple[float, float, float]:
        wall, cpu = zip(*self.times[step], strict=True)
        return statistics.median(wall), statistics.median(cpu), self.memory[step]


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(pid: int) -> float:
    status = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def engines() -> list[Engine]:
    ours = Engine("pyhudi", [sys.executable, "-m", "bench.hudi_rs", "--serve"])
    if reason := hudi_rs.missing():
        print(f"{reason}: pyhudi runs alone, nothing is compared")
        return [ours]
    return [ours, Engine("hudi-rs", [str(hudi_rs.program())])]


def stored(path: Path, rows: pa.Table) -> str:
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return str(path)


def compare(
    folder: Path, kind: str, version: int, rows: int, batch: int, keys: int, turns: int
) -> bool:
    """Whether both tables have the same rows at the end."""
    both = engines()
    tables = {engine.name: str(folder / f"{kind}-{engine.name}") for engine in both}
    base = rows_of(np.arange(rows), 0, 0)
    names, ids = base.column_names, base["id"].combine_chunks()
    file = stored(folder / "base.arrow", base)
    del base
    for engine in both:
        path = tables[engine.name]
        new = {"rows": file} if engine is both[0] else NEW
        engine.call("", "create", path=path, kind=kind, version=version, **new)
        engine.call("load", "append", path=path, rows=file)
    for batch_rows in batches(rows, batch):
        file = stored(folder / "batch.arrow", batch_rows)
        for engine in both:
            engine.call("upsert", "upsert", path=tables[engine.name], rows=file)
    found = []
    for turn in range(turns):
        look_up(both, tables, folder, ids, keys, turn)
        for engine in both:
            for writer, path in tables.items():
                step = "read" if writer == engine.name else "read the other's"
                found.append(engine.call(step, "read", path=path, columns=names))
            engine.call("project", "read", path=tables[engine.name], columns=PROJECTED)
    report(f"{kind} version {version}", both)
    for engine in both:
        engine.process.close()
    equal = all(each["checksums"] == found[0]["checksums"] for each in found)
    print(f"{found[0]['rows']:,} rows" + ("" if equal else "; **the rows of the tables differ**"))
    return equal


NEW = {"name": "t", "keys": ["id"], "partition_by": ["part"], "ordering": ["ts"]}


def look_up(
    both: list[Engine], tables: Mapping[str, str], folder: Path, ids: pa.Array, keys: int, turn: int
) -> None:
    rng = np.random.default_rng(SEED + turn)
    for step in ("lookup", "warm"):
        chosen = ids.take(pa.array(rng.choice(len(ids), keys, replace=False)))
        file = stored(folder / "keys.arrow", pa.table({"key": chosen}))
        for engine in both:
            cold = {"cold": step == "lookup"} if engine is both[0] else {}
            answered = engine.call(step, "lookup", path=tables[engine.name], keys=file, **cold)
            assert answered["found"] == keys, (engine.name, answered)


def report(title: str, both: list[Engine]) -> None:
    head = " | ".join(f"{e.name}: wall s, CPU s, peak MiB" for e in both)
    print(f"\n| {title} | {head} | hudi-rs / pyhudi: wall, CPU, memory | goal |")
    print("|" + "---|" * (len(both) + 3))
    for step in both[0].times:
        medians = [engine.median(step) for engine in both if step in engine.times]
        cells = [f"{wall:.3f}, {cpu:.3f}, {peak:.0f}" for wall, cpu, peak in medians]
        ratio, goal = "-", ""
        if len(medians) == 2:
            ratios = [theirs / ours for ours, theirs in zip(*medians, strict=True)]
            ratio = ", ".join(f"{each:.2f}" for each in ratios)
            if step in GOALS:
                goal = f"{GOALS[step]:g}" + ("" if ratios[0] >= GOALS[step] else " **missed**")
                (ours, *_), (theirs, *_) = medians
                state(
                    f"{step}, {title}: {GOALS[step]:g}x as fast as hudi-rs",
                    f"{ours:.2f} s and {theirs:.2f} s",
                    f"{ratios[0]:.2f}x",
                    is_held=ratios[0] >= GOALS[step],
                )
        print(f"| {step} | {' | '.join(cells)} | {ratio} | {goal} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--kind", nargs="+", choices=("cow", "mor"), default=["cow", "mor"])
    parser.add_argument("--version", type=int, choices=(8, 9), default=9)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return 0
    sizes = (given.rows, given.batch, given.keys, given.turns)
    sizes = (20_000, 2_000, 1_000, 1) if given.smoke else sizes
    equal = True
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}; {sizes[0]:,} rows")
    for kind in given.kind:
        with tempfile.TemporaryDirectory() as folder:
            equal &= compare(Path(folder), kind, given.version, *sizes)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
