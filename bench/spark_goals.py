"""The goals of bench.spark_upsert, and what a run measured of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from bench.results import line

QUERIES = ("snapshot", "all columns", "columns", "filter", "incremental")


class Measured(Protocol):
    """The measurements of one engine."""

    def first(self, way: str, what: str) -> float | None: ...

    def later(self, way: str, what: str) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Figure:
    """A measurement: of an engine, by a way, of a step; the median of all but the first, or the
    first."""

    engine: str
    way: str
    what: str
    is_first: bool = False

    def of(self, results: Mapping[str, Measured]) -> float | None:
        found = results.get(self.engine)
        if found is None:
            return None
        return (found.first if self.is_first else found.later)(self.way, self.what)


@dataclass(frozen=True, slots=True)
class Faster:
    """`ours` takes at most 1/times of the time of `theirs`."""

    text: str
    ours: Figure
    theirs: Figure
    times: float

    def measured(self, results: Mapping[str, Measured]) -> tuple[str, bool] | None:
        ours, theirs = self.ours.of(results), self.theirs.of(results)
        if not ours or not theirs:
            return None
        return f"{theirs / ours:.1f}x ({ours:.3g} and {theirs:.3g})", theirs / ours >= self.times


@dataclass(frozen=True, slots=True)
class AtMost:
    """The time of `ours` is at most `ratio` of that of `other`."""

    text: str
    ours: Figure
    other: Figure
    ratio: float

    def measured(self, results: Mapping[str, Measured]) -> tuple[str, bool] | None:
        ours, other = self.ours.of(results), self.other.of(results)
        if not ours or not other:
            return None
        return f"{ours / other:.2f}x ({ours:.3g} and {other:.3g})", ours / other <= self.ratio


@dataclass(frozen=True, slots=True)
class FirstQuery:
    """The first query of a session takes at most `seconds` more than the later ones."""

    text: str
    engine: str
    way: str
    seconds: float

    def measured(self, results: Mapping[str, Measured]) -> tuple[str, bool] | None:
        first = Figure(self.engine, self.way, "snapshot", is_first=True).of(results)
        later = Figure(self.engine, self.way, "snapshot").of(results)
        if not first or not later:
            return None
        return f"{first - later:.2f} s more ({first:.3g} and {later:.3g})", (
            first - later <= self.seconds
        )


@dataclass(frozen=True, slots=True)
class Gain:
    """A query gains on merge-on-read at least what it gains on copy-on-write: its share of the time
    of the query of all columns and rows."""

    text: str
    what: str
    way: str = "scan"

    def measured(self, results: Mapping[str, Measured]) -> tuple[str, bool] | None:
        shares = []
        for engine in ("pyhudi-mor", "pyhudi-cow"):
            part = Figure(engine, self.way, self.what).of(results)
            whole = Figure(engine, self.way, "all columns").of(results)
            if not part or not whole:
                return None
            shares.append(part / whole)
        return f"{shares[0]:.2f} of all columns, copy-on-write {shares[1]:.2f}", (
            shares[0] <= shares[1]
        )


def _upsert(engine: str) -> Figure:
    return Figure(engine, "write", "upsert")


def _load(engine: str) -> Figure:
    return Figure(engine, "write", "load", is_first=True)


def _scan(kind: str, what: str = "snapshot") -> Figure:
    return Figure(f"pyhudi-{kind}", "scan", what)


def _rival(engine: str, what: str = "snapshot") -> Figure:
    return Figure(engine, "source", what)


def _against_apache_hudi() -> Iterator[Faster]:
    for suffix, text in (("", ""), ("-9", ", table version 9"), ("-bloom", ", bloom index")):
        for kind, times in (("cow", 7.0), ("mor", 6.0)):
            times = 5.0 if suffix == "-bloom" else times
            ours, theirs = f"pyhudi-{kind}{suffix}", f"hudi-{kind}{suffix}"
            name = f"upsert {kind.upper()}{text}: {times:g}x of Apache Hudi"
            yield Faster(name, _upsert(ours), _upsert(theirs), times)
    for kind in ("cow", "mor"):
        name = f"load {kind.upper()}: 8x of Apache Hudi"
        yield Faster(name, _load(f"pyhudi-{kind}"), _load(f"hudi-{kind}"), 8.0)


def _of_kinds() -> Iterator[AtMost | FirstQuery]:
    for kind in ("cow", "mor"):
        big, ours, rival = kind.upper(), f"pyhudi-{kind}", f"hudi-{kind}"
        yield AtMost(
            f"upsert {big}, transformed frame: 1.3x of the plain one",
            _upsert(f"{ours}-jvm"),
            _upsert(ours),
            1.3,
        )
        yield AtMost(
            f"bulk insert {big}, transformed frame: 1.2x of Delta",
            _load(f"{ours}-jvm"),
            _load("delta"),
            1.2,
        )
        yield AtMost(
            f"incremental {big}: 0.7x of Apache Hudi",
            _scan(kind, "incremental"),
            _rival(rival, "incremental"),
            0.7,
        )
        for what in ("snapshot", "all columns", "filter"):
            yield AtMost(
                f"format with enable, {big}, {what}: as hudi.read (1.1x)",
                Figure(ours, "enabled", what),
                _scan(kind, what),
                1.1,
            )
        for way in ("scan", "source", "enabled"):
            yield FirstQuery(
                f"first query of a session, {big}, {way}: at most 2 s more", ours, way, 2.0
            )
        for what, figure in (("load", _load), ("upsert", _upsert)):
            yield AtMost(
                f"{what} {big}, version 9: 1.1x of version 6",
                figure(f"{ours}-9"),
                figure(ours),
                1.1,
            )
        for what in ("snapshot", "all columns"):
            yield AtMost(
                f"{what} {big}, version 9: 1.1x of version 6",
                Figure(f"{ours}-9", "scan", what),
                _scan(kind, what),
                1.1,
            )


def goals() -> Iterator[Faster | AtMost | FirstQuery | Gain]:
    yield from _against_apache_hudi()
    yield Faster("upsert COW: 2.5x of Delta", _upsert("pyhudi-cow"), _upsert("delta"), 2.5)
    for what in ("snapshot", "all columns"):
        yield AtMost(f"MOR, {what}: 2x of COW", _scan("mor", what), _scan("cow", what), 2.0)
        yield AtMost(
            f"MOR, {what}: 0.4x of Apache Hudi MOR",
            _scan("mor", what),
            _rival("hudi-mor", what),
            0.4,
        )
    yield Gain("filter: gains on MOR what it gains on COW", "filter")
    yield Gain("two columns: gain on MOR what they gain on COW", "columns")
    yield AtMost(
        "format without enable, COW, all columns: 3x of hudi.read",
        Figure("pyhudi-cow", "source", "all columns"),
        _scan("cow", "all columns"),
        3.0,
    )
    yield from _of_kinds()
    yield AtMost(
        "disk COW: 1x of Delta",
        Figure("pyhudi-cow", "source", "disk MB"),
        Figure("delta", "source", "disk MB"),
        1.0,
    )


def goal_lines(results: Mapping[str, Measured]) -> Iterator[str]:
    """A line for each goal whose engines were measured."""
    for goal in goals():
        found = goal.measured(results)
        if found is not None:
            text, is_held = found
            ratio, _, figure = text.partition(" (")
            yield line(f"Spark: {goal.text}", figure.rstrip(")"), ratio, is_held=is_held)
