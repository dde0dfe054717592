"""Random programs of MERGE, UPDATE and DELETE, against a model and DuckDB's own statements.

    python -m tests.sql.programs [--programs 500] [--seed 0]

A table of drawn version, type, index, keys, partitions and ordering field lives through several
programs, with compaction, cleaning and archival after commits.  A program is one to three
statements.  After each, the table has the rows of the model, which evaluates the drawn expressions
in Python, and those of DuckDB, which runs the statement on a copy.  A statement that the model
refuses raises an error of pyhudi and changes nothing.

DuckDB knows no ordering fields: there its source has one row a key, and a clause before each update
leaves rows alone that an older ordering value would change.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

import pyhudi

Row = dict[str, Any]
Env = dict[str, Any]
Rows = list[tuple[Any, ...]]
COLUMNS: Final = {
    "id": pa.int64(), "k": pa.string(), "a": pa.int64(), "b": pa.float64(), "c": pa.string(),
    "ts": pa.int64(), "p": pa.string(), "q": pa.int64(),
}  # fmt: skip
SCHEMA: Final = pa.schema(list(COLUMNS.items()))
INDEXES: Final = ("record", "global_simple", "simple", "bloom", "global_bloom", "bucket")
A_TABLE: Final = 10
"""Programs that one table lives through."""
SERVICES: Final = {
    "hoodie.compact.inline": True, "hoodie.compact.inline.max.delta.commits": 3,
    "hoodie.clean.automatic": True, "hoodie.clean.commits.retained": 2,
    "hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 6,
}  # fmt: skip


class RefusedError(Exception):
    """The model refuses the statement; the text says why."""


class SkippedError(Exception):
    """The statement is not run: which row of the source counts is not stated by its text."""


@dataclass(frozen=True)
class Term:
    """An expression: its text for pyhudi and for DuckDB, and its value for a pair of rows."""

    text: str
    duck: str
    of: Callable[[Env], Any]


def strict(text: str, value: Callable[..., Any], *terms: Term, duck: str = "") -> Term:
    """An expression that is null if one of its terms is."""

    def of(env: Env) -> Any:
        values = [term.of(env) for term in terms]
        return None if None in values else value(*values)

    return loose(text, of, *terms, duck=duck)


def loose(text: str, of: Callable[[Env], Any], *terms: Term, duck: str = "") -> Term:
    return Term(
        text.format(*(term.text for term in terms)),
        (duck or text).format(*(term.duck for term in terms)),
        of,
    )


def both(one: Any, other: Any) -> Any:
    return False if one is False or other is False else None if None in (one, other) else True


def negated(one: Any) -> Any:
    return None if one is None else not one


@dataclass
class Source:
    """What MERGE reads: its text for both, its columns, and its rows."""

    text: str
    duck: str
    columns: tuple[str, ...]
    rows: list[Row]


@dataclass
class Clause:
    pair: str
    act: str
    where: Term | None
    values: dict[str, Term] | None

    def text(self, *, duck: bool, table: Mapping[str, Any], source: Sequence[str]) -> str:
        show: Callable[[Term], str] = (lambda t: t.duck) if duck else (lambda t: t.text)
        begin = f"when {self.pair}" + (f" and {show(self.where)}" if self.where else "")
        values = None if self.values is None else {n: show(v) for n, v in self.values.items()}
        if duck and values is None and self.act != "delete":
            fixed = table["keys"] + table["partitions"] if self.act == "update" else []
            values = {n: f"s.{n}" for n in COLUMNS if n in source and n not in fixed}
        if self.act == "delete":
            return f"{begin} then delete"
        if self.act == "insert":
            if values is None:
                return f"{begin} then insert *"
            return (
                f"{begin} then insert ({', '.join(values)}) values ({', '.join(values.values())})"
            )
        if values is None:
            return f"{begin} then update set *"
        if not values:
            return f"{begin} then do nothing"
        return f"{begin} then update set " + ", ".join(f"{n} = {v}" for n, v in values.items())


@dataclass
class Drawer:
    """Draws expressions.  parameters: those of the statement."""

    draw: random.Random
    parameters: dict[str, Any] = field(default_factory=dict)
    has_subqueries: bool = True

    def one(self, *of: Any) -> Any:
        return self.draw.choice(of)

    def literal(self, value: Any) -> Term:
        shown = "null" if value is None else repr(value)
        if isinstance(value, str):
            shown = "'" + value.replace("'", "''") + "'"
        text = shown
        if value is not None and self.draw.random() < 0.2:
            name = f"v{len(self.parameters)}"
            self.parameters[name], text = value, f":{name}"
        return Term(text, shown, lambda env: value)

    def column(self, sides: Mapping[str, Sequence[str]], names: Sequence[str]) -> Term | None:
        found = [(s, n) for s, columns in sides.items() for n in columns if n in names]
        if not found:
            return None
        side, name = self.draw.choice(found)
        return Term(f"{side}.{name}", f"{side}.{name}", lambda env: env[side][name])

    def integer(self, sides: Mapping[str, Sequence[str]], depth: int = 2) -> Term:
        leaf = self.column(sides, ("a", "ts", "id")) or self.literal(self.draw.randrange(5))
        if depth == 0 or self.draw.random() < 0.35:
            return leaf
        one, two = self.integer(sides, depth - 1), self.integer(sides, depth - 1)
        number = self.literal(self.draw.randrange(5))
        kind = self.draw.randrange(10)
        match kind:
            case 0:
                return strict("({} + {})", lambda x, y: x + y, one, two)
            case 1:
                return strict("({} - {})", lambda x, y: x - y, one, number)
            case 2:
                return loose("coalesce({}, {}, 7)", _first(one, two, 7), one, two)
            case 3:
                return strict("abs({})", abs, one)
            case 4:
                name = self.one("greatest", "least")
                of = max if name == "greatest" else min
                return loose(f"{name}({{}}, {{}})", _extreme(of, one, two), one, two)
            case 5:
                return loose("nullif({}, {})", _unless_equal(one, two), one, two)
            case 6:
                real = self.real(sides, depth - 1)
                return strict("cast({} as bigint)", int, real, duck="cast(trunc({}) as bigint)")
            case 7:
                return strict("length({})", len, self.text(sides, depth - 1))
            case 8 if self.has_subqueries:
                name = self.one("min", "max", "count")
                whose, rows = self.one(("news", "news"), ("trips", "trips"))
                return Term(*[f"(select {name}(u.a) from {whose} u)"] * 2, _aggregate(name, rows))
            case _:
                when = self.condition(sides, depth - 1)
                return loose(
                    "case when {} then {} else {} end",
                    lambda env: (one if when.of(env) else two).of(env), when, one, two,
                )  # fmt: skip

    def real(self, sides: Mapping[str, Sequence[str]], depth: int = 2) -> Term:
        leaf = self.column(sides, ("b", "x")) or Term("1.5e0", "1.5e0", lambda env: 1.5)
        one = self.integer(sides, max(depth - 1, 0))
        match self.draw.randrange(4) if depth else 0:
            case 0:
                return leaf
            case 1:
                return strict("({} + {})", lambda x, y: float(x + y), leaf, one)
            case 2:
                return strict("({} * 0.5e0)", lambda x: x * 0.5, leaf)
            case _:
                return strict("cast({} as double)", float, one)

    def text(self, sides: Mapping[str, Sequence[str]], depth: int = 1) -> Term:
        values = ("", "x", "it's", "é", "-- no", "; drop", "p1")
        leaf = self.column(sides, ("c", "p", "k")) or self.literal(self.one(*values))
        match self.draw.randrange(7) if depth else 0:
            case 0 | 1:
                return leaf
            case 2:
                return self.literal(self.one(*values))
            case 3:
                other = self.text(sides, 0)
                return strict("concat({}, {})", lambda x, y: x + y, leaf, other, duck="({} || {})")
            case 4:
                return strict("upper({})", str.upper, leaf)
            case 5:
                return strict("cast({} as string)", str, self.integer(sides, 0))
            case _:
                return strict("substr({}, 1, 1)", lambda x: x[:1], leaf)

    def condition(self, sides: Mapping[str, Sequence[str]], depth: int = 2) -> Term:
        draws = [self.integer, self.real, self.text]
        draw = self.draw.choice(draws[:2] if depth else draws[:1])
        one, two = draw(sides, max(depth - 1, 0)), draw(sides, max(depth - 1, 0))
        kind = self.draw.randrange(11 if depth else 4)
        match kind:
            case 0 | 1:
                sign, of = self.one(*_COMPARED)
                return strict(f"({{}} {sign} {{}})", of, one, two)
            case 2:
                return loose("({} is null)", lambda env: one.of(env) is None, one)
            case 3:
                return loose(
                    "({} <=> {})", lambda env: one.of(env) == two.of(env), one, two,
                    duck="({} is not distinct from {})",
                )  # fmt: skip
            case 4:
                known = [self.literal(self.draw.randrange(5)) for _ in range(2)]
                listed = [*known, self.literal(None)] if self.draw.random() < 0.2 else known
                number = self.integer(sides, depth - 1)
                text = (
                    f"({{}} {self.one('in', 'not in')} (" + ", ".join(["{}"] * len(listed)) + "))"
                )
                return loose(text, _among(number, listed, "not in" in text), number, *listed)
            case 5:
                last = draw(sides, 0)
                return loose("({} between {} and {})", _between(one, two, last), one, two, last)
            case 6:
                word = self.text(sides, 0)
                return strict("({} like 'x%')", lambda x: x.startswith("x"), word)
            case 7:
                first = self.condition(sides, depth - 1)
                return loose("(not {})", lambda env: negated(first.of(env)), first)
            case 8 if self.has_subqueries:
                number = self.integer(sides, 0)
                of = _among_rows(number)
                return loose("({} in (select u.a from news u where u.x > 1))", of, number)
            case _:
                first, second = self.condition(sides, depth - 1), self.condition(sides, depth - 1)
                if self.draw.random() < 0.5:
                    return loose("({} and {})", lambda env: both(first.of(env), second.of(env)),
                                 first, second)  # fmt: skip
                return loose(
                    "({} or {})",
                    lambda env: negated(both(negated(first.of(env)), negated(second.of(env)))),
                    first, second,
                )  # fmt: skip

    def value(self, name: str, sides: Mapping[str, Sequence[str]]) -> Term:
        if self.draw.random() < 0.07 and name != "ts":
            return Term("null", "null", lambda env: None)
        if name == "b":
            return self.one(self.real, self.integer)(sides)
        return self.text(sides) if name == "c" else self.integer(sides)


_COMPARED: Final = (
    ("<", lambda x, y: x < y), (">=", lambda x, y: x >= y), ("=", lambda x, y: x == y),
    ("<>", lambda x, y: x != y),
)  # fmt: skip


def _first(one: Term, two: Term, last: Any) -> Callable[[Env], Any]:
    return lambda env: next(v for v in (one.of(env), two.of(env), last) if v is not None)


def _extreme(of: Any, one: Term, two: Term) -> Callable[[Env], Any]:
    return lambda env: of((v for v in (one.of(env), two.of(env)) if v is not None), default=None)


def _unless_equal(one: Term, two: Term) -> Callable[[Env], Any]:
    def of(env: Env) -> Any:
        value = one.of(env)
        return None if value is not None and value == two.of(env) else value

    return of


def _aggregate(name: str, whose: str) -> Callable[[Env], Any]:
    def of(env: Env) -> Any:
        values = [row["a"] for row in env[whose] if row["a"] is not None]
        if name == "count":
            return len(values)
        return (min if name == "min" else max)(values, default=None)

    return of


def _between(one: Term, low: Term, high: Term) -> Callable[[Env], Any]:
    def of(env: Env) -> Any:
        value, least, most = one.of(env), low.of(env), high.of(env)
        above = None if None in (value, least) else value >= least
        return both(above, None if None in (value, most) else value <= most)

    return of


def _in(value: Any, known: list[Any]) -> Any:
    if not known:
        return False
    if value is None:
        return None
    return True if value in known else None if None in known else False


def _among(number: Term, listed: Sequence[Term], is_not: bool) -> Callable[[Env], Any]:
    def of(env: Env) -> Any:
        found = _in(number.of(env), [one.of(env) for one in listed])
        return negated(found) if is_not else found

    return of


def _among_rows(number: Term) -> Callable[[Env], Any]:
    def of(env: Env) -> Any:
        rows = [r["a"] for r in env["news"] if r["x"] is not None and r["x"] > 1]
        return _in(number.of(env), rows)

    return of


@dataclass
class Statement:
    """run: changes the model's rows, and may raise RefusedError.  may_refuse: pyhudi may refuse
    what the model accepts."""

    text: str
    duck: str
    run: Callable[[dict[Any, Row]], dict[Any, Row]]
    parameters: dict[str, Any]
    may_refuse: bool = False


class World:
    """A table, its model and its copy in DuckDB."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.draw = draw = random.Random(seed)
        self.keys = ["id"] if draw.random() < 0.75 else ["id", "k"]
        self.partitions = list(draw.choice(((), ("p",), ("p",), ("p", "q"))))
        self.ordering = "ts" if draw.random() < 0.5 else None
        self.index = draw.choice(INDEXES)
        self.version = draw.choice((6, 8, 9, 9))
        self.kind = draw.choice(("cow", "mor"))
        self.fixed: dict[str, Any] = {"keys": self.keys, "partitions": self.partitions}
        self.table = pyhudi.create_table(
            folder, SCHEMA, record_key=self.keys, partition_by=self.partitions or None,
            table_type=self.kind, index=self.index, ordering=self.ordering, version=self.version,
            options=SERVICES,
        )  # fmt: skip
        self.con = duckdb.connect()
        self.con.execute("set threads = 1")
        first = self.rows(12)
        self.model = {self.key(row): {**row, "ts": row["ts"] or 0} for row in first}
        given = pa.Table.from_pylist(list(self.model.values()), SCHEMA)
        self.table.upsert(given)
        self.con.register("given", given)
        self.con.execute("create table trips as select * from given")

    def __str__(self) -> str:
        return (
            f"{self.kind}, version {self.version}, {self.index}, keys {self.keys}, partitions "
            f"{self.partitions}, ordering {self.ordering}"
        )

    def key(self, row: Row) -> Any:
        return tuple(row[name] for name in self.keys)

    def rows(self, count: int) -> list[Row]:
        """Rows with distinct keys; a key has one partition."""
        draw = self.draw
        return [
            {
                "id": one, "k": f"k{one % 2}", "a": draw.choice((None, 0, 1, 2, 3)),
                "b": draw.choice((None, 0.0, 0.5, 1.5, 4.0)),
                "c": draw.choice((None, "", "x", "xy", "it's", "é")),
                "ts": draw.randrange(5), "p": f"p{one % 3}", "q": one % 2,
            }
            for one in draw.sample(range(24), count)
        ]  # fmt: skip

    # -- statements ----------------------------------------------------------------------------

    def news(self) -> list[Row]:
        """Rows of the source, with x; some with the key of another one, or without a key."""
        found: list[Row] = self.rows(self.draw.randrange(10))
        rate = self.draw.random()
        if found and rate < 0.15:
            count = self.draw.randint(1, 2)
            same = [dict(self.draw.choice(found)) for _ in range(count)]
            for number, row in enumerate(same):
                row |= {"ts": 10 + number, "a": self.draw.randrange(4)}
            found += same
        elif found and rate < 0.2:
            found[0]["id"] = None
        elif found and rate < 0.25:
            found[-1]["ts"] = None
        return [{**row, "x": self.draw.choice((None, 0.5, 1.5, 2.5))} for row in found]

    def source(self, news: list[Row]) -> Source:
        everything = (*COLUMNS, "x")
        fixed = tuple(dict.fromkeys((*self.keys, *self.partitions)))
        stored = list(self.model.values())
        few = tuple(n for n in everything if n in fixed or self.draw.random() < 0.5)
        kind = self.draw.choice(("all", "all", "few", "few", "where", "self", "union", "cast"))
        if kind == "self":
            few = tuple(n for n in few if n != "x")
            text = f"(select {', '.join(few)} from trips where a > 1)"
            rows = [{n: r[n] for n in few} for r in stored if r["a"] is not None and r["a"] > 1]
            return Source(text, text, few, rows)
        if kind == "few":
            text = f"(select {', '.join(few)} from news)"
            return Source(text, text, few, [{n: r[n] for n in few} for r in news])
        if kind == "where":
            text = "(select * from news where a is not null)"
            return Source(text, text, everything, [r for r in news if r["a"] is not None])
        if kind == "union":
            one = f"select {', '.join(few)} from news where x > 1"
            two = f"select {', '.join(few)} from news where x <= 1 or x is null"
            text = f"({one} union all {two})"
            return Source(text, text, few, [{n: r[n] for n in few} for r in news])
        if kind == "cast":
            others = tuple(n for n in fixed if n != "a")
            text = f"(select {', '.join(others)}, cast(a as int) as a from news)"
            names = (*others, "a")
            return Source(text, text, names, [{n: r[n] for n in names} for r in news])
        return Source("news", "news", everything, news)

    def merge(self) -> Statement:
        news = self.news()
        self.set_news(news)
        source = self.source(news)
        drawer = Drawer(self.draw)
        sides = {"t": tuple(COLUMNS), "s": source.columns}
        equal = [f"t.{n} = s.{n}" for n in self.keys]
        extra: list[Term] = []
        kind = self.draw.choice(("key",) * 5 + ("partition", "target", "source", "sum", "other"))
        if kind == "partition":
            equal += [f"s.{n} = t.{n}" for n in self.partitions]
        elif kind in ("target", "source"):
            extra = [drawer.condition({kind[0]: sides[kind[0]]}, 1)]
        elif kind == "sum":
            equal[0] = "t.id + 0 = s.id"
        elif kind == "other" and "a" in source.columns:
            equal, extra = ["t.a = s.a"], [drawer.condition({"t": sides["t"]}, 1)]
        by_other = equal[0] == "t.a = s.a"
        on = " and ".join([*equal, *(one.text for one in extra)])
        duck_on = " and ".join([*equal, *(one.duck for one in extra)])
        clauses = [self.clause(drawer, sides) for _ in range(self.draw.randint(1, 4))]
        clauses = _reachable(clauses)
        given = {"table": self.fixed, "source": source.columns}
        text = f"merge into trips as t using {source.text} as s on {on} "
        text += " ".join(one.text(duck=False, **given) for one in clauses)
        has_key = kind != "sum" and not by_other
        by_ordering = self.ordering if has_key and self.ordering in source.columns else None
        rows = source.duck
        keyed = ", ".join(self.keys)
        if by_ordering:
            order = f"row_number() over (partition by {keyed} order by ts desc nulls last)"
            rows = f"(select * from {rows} qualify {order} = 1)"
        duck = f"merge into trips as t using {rows} as s on {duck_on} "
        for one in clauses:
            if one.act == "update" and self.ordering and (newer := self.newer(one, source)):
                older = f"({newer} < t.ts)"
                where = f" and {one.where.duck}" if one.where else ""
                duck += f"when {one.pair}{where} and {older} then do nothing "
            duck += one.text(duck=True, **given) + " "

        def matches(target: Row, row: Row) -> bool:
            env = self.env(target, row, news)
            names = ["a"] if by_other else [*self.keys]
            names += self.partitions if kind == "partition" else []
            same = all(target[n] is not None and target[n] == row[n] for n in names)
            return same and all(one.of(env) is True for one in extra)

        unclear = any(row["id"] is None for row in source.rows)
        keys = [self.key(row) for row in source.rows]
        unclear |= len(set(keys)) < len(keys) and by_ordering is None
        unclear |= by_ordering is not None and any(row["ts"] is None for row in source.rows)
        return Statement(
            text, duck, lambda model: self.merged(model, source, clauses, matches, news, has_key),
            drawer.parameters, unclear,
        )  # fmt: skip

    def newer(self, clause: Clause, source: Source) -> str:
        """DuckDB's text of the ordering value that an update writes, if it writes one."""
        if clause.values is None:
            return "s.ts" if "ts" in source.columns else ""
        return clause.values["ts"].duck if "ts" in clause.values else ""

    def clause(self, drawer: Drawer, sides: Mapping[str, Sequence[str]]) -> Clause:
        kind = self.draw.choice(
            ("update", "update", "update *", "update *", "delete", "insert", "insert *", "rest",
             "rest delete")
        )  # fmt: skip
        pair = {"i": "not matched", "r": "not matched by source"}.get(kind[0], "matched")
        own = {"not matched": ("s",), "not matched by source": ("t",)}.get(pair, ("t", "s"))
        seen = {side: sides[side] for side in own}
        drawer.has_subqueries = self.draw.random() < 0.3
        where = drawer.condition(seen) if self.draw.random() < 0.7 else None
        if kind in ("delete", "rest delete"):
            return Clause(pair, "delete", where, None)
        if kind in ("update *", "insert *"):
            return Clause(pair, kind.split()[0], where, None)
        names = [n for n in ("a", "b", "c", "ts") if self.draw.random() < 0.5] or ["b"]
        values = {n: drawer.value(n, seen) for n in names}
        if kind == "insert":
            fixed = tuple(dict.fromkeys((*self.keys, *self.partitions)))
            own_values = {n: Term(f"s.{n}", f"s.{n}", _source_of(n)) for n in fixed}
            return Clause(pair, "insert", where, {**own_values, **values})
        return Clause(pair, "update", where, values)

    def env(self, target: Row | None, row: Row | None, news: list[Row]) -> Env:
        return {"t": target, "s": row, "news": news, "trips": self.before}

    def merged(
        self, model: dict[Any, Row], source: Source, clauses: list[Clause],
        matches: Callable[[Row, Row], bool], news: list[Row], has_key: bool,
    ) -> dict[Any, Row]:  # fmt: skip
        """The rows after a MERGE.  Raises RefusedError and SkippedError."""
        self.before = list(model.values())
        rows = source.rows
        decides = self.ordering is not None and self.ordering in source.columns
        if decides and has_key:
            best: dict[Any, Row] = {}
            for row in rows:
                known = best.get(self.key(row))
                if known is None or (row["ts"] or -1) > (known["ts"] or -1):
                    best[self.key(row)] = row
            rows = list(best.values())
        elif decides and len({self.key(row) for row in rows}) < len(rows):
            raise SkippedError
        after, acted = dict(model), Counter[Any]()
        paired: set[Any] = set()
        for row in rows:
            found = [key for key, target in model.items() if matches(target, row)]
            if decides and not has_key and not paired.isdisjoint(found):
                raise SkippedError
            paired.update(found)
            for key in found:
                self.act("matched", clauses, key, self.env(model[key], row, news), after, acted)
            if not found:
                self.act("not matched", clauses, None, self.env(None, row, news), after, acted)
        for key in model.keys() - paired:
            env = self.env(model[key], None, news)
            self.act("not matched by source", clauses, key, env, after, acted)
        if any(count > 1 for count in acted.values()):
            raise RefusedError("several source rows")
        return after

    def act(
        self, pair: str, clauses: list[Clause], key: Any, env: Env, after: dict[Any, Row],
        acted: Counter[Any],
    ) -> None:  # fmt: skip
        """Apply the first clause to a pair of rows."""
        for clause in clauses:
            if clause.pair != pair or (clause.where and clause.where.of(env) is not True):
                continue
            if clause.act == "delete":
                acted[key] += 1
                after.pop(key, None)
                return
            row = env["s"] or {}
            if clause.values is None:
                changed = {n: row[n] for n in COLUMNS if n in row}
                if clause.act == "update":
                    fixed = {*self.keys, *self.partitions}
                    changed = {n: v for n, v in changed.items() if n not in fixed}
            else:
                changed = {n: term.of(env) for n, term in clause.values.items()}
            if "b" in changed and changed["b"] is not None:
                changed["b"] = float(changed["b"])
            if clause.act == "insert":
                changed = {**dict.fromkeys(COLUMNS), **changed}
                key = self.key(changed)
                if not any(part is not None for part in key) or key in self.before_keys():
                    raise RefusedError("all of the key is null, or it is stored")
            acted[key] += 1
            self.written(key, env["t"], changed, after)
            return

    def before_keys(self) -> set[Any]:
        return {self.key(row) for row in self.before}

    def written(self, key: Any, old: Row | None, new: Row, after: dict[Any, Row]) -> None:
        """One row of an update or insert, by the rules of the table."""
        found = {**(old or {}), **new}
        if self.ordering:
            if found["ts"] is None:
                raise RefusedError("the ordering value is null")
            if old is not None and found["ts"] < old["ts"]:
                return
        after[key] = found

    def update(self) -> Statement:
        self.set_news(news := self.news())
        drawer, sides = Drawer(self.draw), {"t": tuple(COLUMNS)}
        where = drawer.condition(sides)
        values = {
            n: drawer.value(n, sides) for n in ("a", "b", "c", "ts") if self.draw.random() < 0.4
        } or {"b": drawer.value("b", sides)}
        shown = ", ".join(f"{n} = {v.text}" for n, v in values.items())
        ducks = ", ".join(f"{n} = {v.duck}" for n, v in values.items())
        duck = f"update trips as t set {ducks} where {where.duck}"
        if self.ordering and "ts" in values:
            duck += f" and not coalesce({values['ts'].duck} < t.ts, false)"

        def run(model: dict[Any, Row]) -> dict[Any, Row]:
            self.before, after = list(model.values()), dict(model)
            for key, row in model.items():
                env = self.env(row, None, news)
                if where.of(env) is True:
                    new = {n: v.of(env) for n, v in values.items()}
                    if new.get("b") is not None:
                        new["b"] = float(new["b"])
                    self.written(key, row, new, after)
            return after

        text = f"update trips as t set {shown} where {where.text}"
        return Statement(text, duck, run, drawer.parameters)

    def delete(self) -> Statement:
        self.set_news(news := self.news())
        drawer, sides = Drawer(self.draw), {"t": tuple(COLUMNS)}
        where = drawer.condition(sides)

        def run(model: dict[Any, Row]) -> dict[Any, Row]:
            self.before = list(model.values())
            return {
                key: row
                for key, row in model.items()
                if where.of(self.env(row, None, news)) is not True
            }

        text = "delete from trips as t where "
        return Statement(text + where.text, text + where.duck, run, drawer.parameters)

    def set_news(self, news: list[Row]) -> None:
        kinds = pa.schema([*SCHEMA, ("x", pa.float64())])
        self.given = pa.Table.from_pylist(news, kinds)
        self.con.register("given", self.given)
        self.con.execute("create or replace table news as select * from given")

    # -- programs ------------------------------------------------------------------------------

    def program(self, counts: Counter[str]) -> None:
        for _ in range(self.draw.randint(1, 3)):
            make = self.draw.choice([self.merge] * 4 + [self.update, self.delete])
            self.step(make(), counts)
        if len(self.model) < 6:
            more = [row for row in self.rows(12) if self.key(row) not in self.model]
            given = pa.Table.from_pylist(more, SCHEMA)
            self.table.upsert(given)
            self.con.register("more", given)
            self.con.execute("insert into trips select * from more")
            self.model |= {self.key(row): row for row in more}
        counts["programs"] += 1

    def step(self, statement: Statement, counts: Counter[str]) -> None:
        where = f"{self}\n{statement.text}\n{statement.parameters}\nnews {self.given.to_pylist()}"
        counts["statements"] += 1
        named = set(re.findall(r":(v\d+)", statement.text))
        parameters = {n: v for n, v in statement.parameters.items() if n in named}
        try:
            after: dict[Any, Row] | None = statement.run(self.model)
        except RefusedError:
            after = None
        except SkippedError:
            counts["skipped"] += 1
            return
        try:
            pyhudi.sql(
                statement.text, tables={"trips": self.table, "news": self.given},
                parameters=parameters or None,
            )  # fmt: skip
        except pyhudi.PyhudiError as error:
            assert after is None or statement.may_refuse, f"{where}\n{error}"
            counts["refused"] += 1
        else:
            assert after is not None, f"not refused: {where}"
            self.con.execute(statement.duck)
            self.model = after
        found = content(self.table.to_arrow().to_pylist())
        self.same(found, content(self.model.values()), f"model: {where}")
        copy = self.con.sql("select * from trips").to_arrow_table().to_pylist()
        self.same(found, content(copy), f"DuckDB: {where}\n{statement.duck}")

    def same(self, found: Rows, expected: Rows, what: str) -> None:
        assert found == expected, (
            f"{what}\nfound {[row for row in found if row not in expected]}"
            f"\nexpected {[row for row in expected if row not in found]}\nbefore {self.before}"
        )


def _source_of(name: str) -> Callable[[Env], Any]:
    return lambda env: env["s"][name]


def _reachable(clauses: list[Clause]) -> list[Clause]:
    """Without clauses that an earlier one leaves no rows for."""
    found: list[Clause] = []
    for clause in clauses:
        if not any(c.pair == clause.pair and c.where is None for c in found):
            found.append(clause)
    return found


def content(rows: Any) -> Rows:
    return sorted((tuple(row[name] for name in COLUMNS) for row in rows), key=repr)


def run(programs: int, seed: int, folder: Path) -> Counter[str]:
    """Raises AssertionError that shows the statement."""
    counts: Counter[str] = Counter()
    number = seed
    while counts["programs"] < programs:
        world = World(number, folder / str(number))
        for _ in range(min(A_TABLE, programs - counts["programs"])):
            try:
                world.program(counts)
            except Exception:
                print(f"seed {number}", file=sys.stderr)
                raise
        world.con.close()
        number += 1
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        found = run(given.programs, given.seed, Path(made))
    print(", ".join(f"{count} {name}" for name, count in found.items()) + ", 0 differences")
