"""Where does scanning an HFile become cheaper than seeking in it, and does auto choose well?

    python -m bench.seek_vs_scan [--smoke] [--entries N] [--html FILE]

Files of 10 k to 10 M entries, blocks of 16 and 64 KiB, NONE and GZ, local (mapped) and from a
store where each request takes 10 ms; batches of 0.01 % to 100 % of the entries, of present, half
present and absent keys.  One thread, a new reader for each batch, CPU time.  Prints a line each,
the curve of each file as text, the thresholds they propose, and how far auto is off; `--html`
writes the plot.  Memory that one reader gives back stays with the process, as in one that goes on
looking up: or every reader pays for pages that the one before had.  --entries: files of up to N.
"""

from __future__ import annotations

import html
import os
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyhudi._native import HFileReader, HFileWriter

SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
HIT_RATES = (1.0, 0.5, 0.0)
BAR = 60


class FarFile:
    """A file behind requests of 10 ms: the time is counted, not waited for."""

    request_cost_seconds = 0.01
    bytes_per_second = 100e6

    def __init__(self, path: Path) -> None:
        self._bytes = path.read_bytes()
        self.size = len(self._bytes)
        self.seconds = 0.0

    def read_at(self, offset: int, length: int) -> bytes:
        self.seconds += self.request_cost_seconds + length / self.bytes_per_second
        return self._bytes[offset : offset + length]

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class Point:
    share: float
    hits: float
    seek: float
    scan: float
    auto: float
    chosen: str

    @property
    def off(self) -> float:
        return self.auto / min(self.seek, self.scan)


def file_of(folder: Path, entries: int, codec: str, block: int) -> tuple[Path, list[str]]:
    draw = random.Random(entries)
    keys = sorted({str(uuid.UUID(int=draw.getrandbits(128))) for _ in range(entries)})
    path = folder / f"{entries}-{codec}-{block}.hfile"
    values = pa.array([b"%060d" % (i % 50) for i in range(len(keys))], pa.binary())
    with HFileWriter(path, compression=codec, block_size=block) as writer:
        writer.add(pa.array(keys), values)
    return path, keys


METHODS = ("seek", "scan", "auto")


def seconds(path: Path, keys: pa.Array, *, far: bool, rounds: int) -> list[float]:
    """The least CPU time of each method, in turns, so that what else goes on meets all alike; each
    twice in a turn, so that none pays for what the one before left in the processor's caches."""
    best = dict.fromkeys(METHODS, float("inf"))
    end = time.monotonic() + 0.05  # what is soon done is done more often
    while rounds > 0 or time.monotonic() < end:
        rounds -= 1
        for method in (each for each in METHODS for _ in range(2)):
            source: Any = FarFile(path) if far else path
            began = time.process_time()
            reader = HFileReader(source, threads=1, hash_after=None)
            reader.get_many(keys, method=method)
            spent = time.process_time() - began + (source.seconds if far else 0.0)
            best[method] = min(best[method], spent)
    return [best[method] for method in METHODS]


def curve(path: Path, keys: list[str], *, far: bool, rounds: int) -> Iterator[Point]:
    draw = random.Random(1)
    for hits in HIT_RATES:
        for share in SHARES:
            count = max(1, int(len(keys) * share))
            there = draw.sample(keys, int(count * hits))
            absent = [str(uuid.UUID(int=draw.getrandbits(128))) for _ in range(count - len(there))]
            requested = pa.array([*there, *absent])
            spent = seconds(path, requested, far=far, rounds=rounds)
            source: Any = FarFile(path) if far else path
            yield Point(share, hits, *spent, HFileReader(source).plan(requested).method)


def crossing(points: list[Point]) -> float | None:
    """The smallest share from which on scanning is the cheaper, of keys that are there."""
    found = None
    for point in reversed([p for p in points if p.hits == 1.0]):
        if point.scan >= point.seek:
            return found
        found = point.share
    return found


def drawn(points: list[Point]) -> Iterator[str]:
    top = max(max(p.seek, p.scan) for p in points)
    for point in (p for p in points if p.hits == 1.0):
        for name, value in (("seek", point.seek), ("scan", point.scan)):
            bar = "#" * max(1, round(BAR * value / top))
            yield f"  {point.share:8.2%} {name} {value * 1e3:10.2f} ms {bar}"


def plot(curves: dict[str, list[Point]]) -> str:
    """One page of line plots, logarithmic both ways."""
    parts = ["<!doctype html><meta charset=utf-8><title>Seek or scan</title><h1>Seek or scan</h1>"]
    for name, points in curves.items():
        mine = [p for p in points if p.hits == 1.0]
        parts.append(f"<h2>{html.escape(name)}</h2>{_lines(mine)}")
    return "\n".join(parts)


def _lines(points: list[Point]) -> str:
    import math

    low = math.log10(min(min(p.seek, p.scan, p.auto) for p in points))
    high = math.log10(max(max(p.seek, p.scan, p.auto) for p in points)) + 0.01
    left, right = (math.log10(p.share) for p in (points[0], points[-1]))

    def path(value: Callable[[Point], float]) -> str:
        return " ".join(
            f"{40 + 440 * (math.log10(p.share) - left) / (right - left):.1f},"
            f"{190 - 170 * (math.log10(value(p)) - low) / (high - low):.1f}"
            for p in points
        )

    colours = {"seek": "#0a7", "scan": "#c40", "auto": "#888"}
    lines = [
        f'<polyline fill="none" stroke="{colour}" stroke-width="{4 if name == "auto" else 2}" '
        f'stroke-opacity="{0.5 if name == "auto" else 1}" points="{path(lambda p, n=name: getattr(p, n))}"/>'  # noqa: E501
        f'<text x="490" y="{40 + 20 * row}" fill="{colour}">{name}</text>'
        for row, (name, colour) in enumerate(colours.items())
    ]
    scale = f'<text x="0" y="15">{10**high * 1e3:.3g} ms</text><text x="0" y="205">{10**low * 1e3:.3g} ms, from {points[0].share:.2%} to 100 % of the entries</text>'  # noqa: E501
    return f'<svg viewBox="0 0 560 215" width="700">{scale}{"".join(lines)}</svg>'


def run(sizes: tuple[int, ...], blocks: tuple[int, ...], page: Path | None, rounds: int) -> float:
    curves: dict[str, list[Point]] = {}
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        for entries in sizes:
            for codec in ("none", "gz"):
                for block in blocks:
                    path, keys = file_of(Path(name), entries, codec, block)
                    for far in (False, True):
                        title = (
                            f"{entries:,} entries, {codec}, blocks of {block >> 10} KiB, "
                            f"{'requests of 10 ms' if far else 'local'}"
                        )
                        points = list(curve(path, keys, far=far, rounds=rounds))
                        curves[title] = points
                        off = max(points, key=lambda p: p.off)
                        worst = max(worst, off.off)
                        at = crossing(points)
                        threshold = "never" if at is None else f"from {at:.2%} of the entries on"
                        print(
                            f"{title}: scan is cheaper {threshold}; auto at worst {off.off:.2f} x"
                        )
                        print("\n".join(drawn(points)), flush=True)
    if page is not None:
        page.write_text(plot(curves))
    print(f"auto against the better of both, at worst {worst:.2f} x (wanted: 1.2)")
    return worst


MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}  # glibc's

if __name__ == "__main__":
    if not MALLOC.keys() <= os.environ.keys():
        command = [sys.executable, "-m", "bench.seek_vs_scan", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | MALLOC)
    words = sys.argv[1:]
    target = Path(words[words.index("--html") + 1]) if "--html" in words else None
    most = int(words[words.index("--entries") + 1]) if "--entries" in words else 10_000_000
    sizes = tuple(size for size in (10_000, 100_000, 1_000_000, 10_000_000) if size <= most)
    if "--smoke" in words:
        run((10_000,), (64 << 10,), target, 2)
    else:
        run(sizes, (16 << 10, 64 << 10), target, 2)
