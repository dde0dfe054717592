"""Random MERGEs, UPDATEs and DELETEs of two processes on one table, on the same and other keys.

    python -m tests.sql.concurrent [--tables 60] [--seed 0]

A table of drawn version, type, index, partitions, ordering field, mode of concurrency and services
is written by two processes at the same time.  Every statement adds to numbers of rows that both
know, or writes rows of its own process, so that any order of the statements gives the same rows:
the test compares them all.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import pyhudi

SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("g", pa.int64()), ("n", pa.int64()),
     ("ts", pa.int64()), ("owner", pa.string())]
)  # fmt: skip
GROUPS: Final = 3
STORED, NEW, OWN, TURNS = 9, 4, 8, 6
INDEXES: Final = ("record", "record", "bloom", "global_bloom", "simple", "bucket")
SERVICES: Final = {
    "hoodie.compact.inline": True, "hoodie.compact.inline.max.delta.commits": 3,
    "hoodie.clean.automatic": True, "hoodie.clean.commits.retained": 4,
    "hoodie.keep.min.commits": 6, "hoodie.keep.max.commits": 8,
}  # fmt: skip
Row = dict[str, Any]
Rows = dict[str, Row]


def row(key: str, number: int, group: int | None = None, owner: str | None = None) -> Row:
    place = int("".join(filter(str.isdigit, key))) % 2  # a key has one partition
    return {"id": key, "p": f"p{place}", "g": group, "n": number, "ts": 1, "owner": owner}


def first_rows() -> list[Row]:
    return [row(f"s{number}", 0, number % GROUPS) for number in range(STORED)]


class Process:
    """Draws the statements of one process: text, rows of the source, and the change of a model.

    The model has the numbers of rows that both processes add to, as a sum, and its own rows.
    """

    def __init__(self, seed: int, me: str) -> None:
        self.draw, self.me, self.turn = random.Random(f"{seed} {me}"), me, 1
        self.added: Counter[str] = Counter()
        self.own: Rows = {}

    def statement(self) -> tuple[str, list[Row]]:
        self.turn += 1
        kinds = (self.same, self.same, self.mine, self.mine, self.by_source, self.join,
                 self.join_by_source, self.of_target, self.update, self.delete)  # fmt: skip
        return self.draw.choice(kinds)()

    def add_to(self, groups: set[int]) -> None:
        self.added.update(one["id"] for one in first_rows() if one["g"] in groups)

    def on(self) -> str:
        return self.draw.choice(("t.id = s.id", "t.id = s.id and t.p = s.p"))

    def same(self) -> tuple[str, list[Row]]:
        """Adds one to rows that both processes insert or update."""
        known = [*first_rows(), *(row(f"n{number}", 1) for number in range(NEW))]
        source = self.draw.sample(known, self.draw.randint(1, 6))
        self.added.update(one["id"] for one in source)
        return (
            f"merge into t using s on {self.on()} when matched then update set n = t.n + 1 "
            "when not matched then insert (id, p, n, ts) values (s.id, s.p, 1, 1)",
            source,
        )

    def some_of_mine(self) -> list[Row]:
        numbers = self.draw.sample(range(OWN), self.draw.randint(1, OWN - 1))
        return [
            row(f"{self.me}{number}", self.turn * 100 + number, owner=self.me) | {"ts": self.turn}
            for number in numbers
        ]

    def mine(self) -> tuple[str, list[Row]]:
        """Inserts, updates and deletes rows that only this process writes."""
        source = self.some_of_mine()
        for one in source:
            if one["n"] % 3 == 0 and one["id"] in self.own:
                del self.own[one["id"]]
            else:
                self.own[one["id"]] = one
        return (
            f"merge into t using s on {self.on()} when matched and s.n % 3 = 0 then delete "
            "when matched then update set * when not matched then insert *",
            source,
        )

    def by_source(self) -> tuple[str, list[Row]]:
        """Leaves of its own rows those of the source."""
        source = self.some_of_mine()
        self.own = {one["id"]: one for one in source}
        return (
            f"merge into t using s on {self.on()} when matched then update set * "
            "when not matched then insert * "
            f"when not matched by source and t.owner = '{self.me}' then delete",
            source,
        )

    def join(self) -> tuple[str, list[Row]]:
        group = self.draw.randrange(GROUPS)
        self.add_to({group})
        text = f"merge into t using (select {group} as h) s on t.g = s.h "
        return text + "when matched then update set n = t.n + 1", []

    def join_by_source(self) -> tuple[str, list[Row]]:
        """Adds one to each group but one, and deletes its own rows."""
        group = self.draw.randrange(GROUPS)
        self.add_to({*range(GROUPS)} - {group})
        self.own = {}
        return (
            f"merge into t using (select {group} as h) s on t.g = s.h "
            f"when not matched by source and t.owner = '{self.me}' then delete "
            "when not matched by source and t.g is not null then update set n = t.n + 1",
            [],
        )

    def of_target(self) -> tuple[str, list[Row]]:
        group = self.draw.randrange(GROUPS)
        self.add_to({group})
        text = f"merge into t using (select id, p, n + 1 as m from t where g = {group}) s "
        return text + f"on {self.on()} when matched then update set n = s.m", []

    def update(self) -> tuple[str, list[Row]]:
        group = self.draw.randrange(GROUPS)
        self.add_to({group})
        return f"update t set n = n + 1 where g = {group}", []

    def delete(self) -> tuple[str, list[Row]]:
        gone = f"{self.me}{self.draw.randrange(OWN)}"
        self.own.pop(gone, None)
        return f"delete from t where id = '{gone}'", []


def work(seed: int, me: str, path: str, options: dict[str, Any]) -> int:
    """Run the statements; how often another commit made one plan again."""
    process, conflicts = Process(seed, me), 0
    for _ in range(TURNS):
        text, source = process.statement()
        given = {"t": path, "s": pa.Table.from_pylist(source, SCHEMA)}
        conflicts += pyhudi.sql(text, tables=given, options=options).conflicts
    return conflicts


def expected(seed: int) -> Rows:
    rows, added = {one["id"]: one for one in first_rows()}, Counter[str]()
    for me in "ab":
        process = Process(seed, me)
        for _ in range(TURNS):
            process.statement()
        added += process.added
        rows |= process.own
    for key, count in added.items():
        rows[key] = {**rows.get(key, row(key, 0)), "n": count}
    return rows


class Pair:
    """Two processes that work at the same time."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.sql.concurrent", "--work"]
        self.processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in "ab"
        ]
        assert [self.answer(one) for one in self.processes] == ["ready", "ready"]

    def answer(self, process: subprocess.Popen[str]) -> Any:
        assert process.stdout
        return json.loads(process.stdout.readline() or '"the process ended"')

    def run(self, seed: int, path: Path, options: dict[str, Any]) -> list[Any]:
        for me, process in zip("ab", self.processes, strict=True):
            assert process.stdin
            process.stdin.write(json.dumps([seed, me, str(path), options]) + "\n")
            process.stdin.flush()
        return [self.answer(one) for one in self.processes]

    def close(self) -> None:
        for process in self.processes:
            process.communicate()


def check(seed: int, folder: Path, pair: Pair, counts: Counter[str]) -> None:
    """Raises AssertionError that names the table and the rows which differ."""
    draw = random.Random(seed)
    ordering, version = draw.choice((None, "ts")), draw.choice((6, 8, 9, 9))
    kind, index = draw.choice(("cow", "mor")), draw.choice(INDEXES)
    partition = draw.choice((None, "p"))
    mode = draw.choice(("single_writer", "optimistic_concurrency_control"))
    options = {"hoodie.write.concurrency.mode": mode, **(draw.choice(({}, SERVICES)))}
    table = pyhudi.create_table(
        folder, SCHEMA, record_key="id", partition_by=partition, table_type=kind, index=index,
        ordering=ordering, version=version,
    )  # fmt: skip
    table.upsert(pa.Table.from_pylist(first_rows(), SCHEMA))
    what = f"seed {seed}: {kind} {version} {index} {partition} {ordering} {options}"
    conflicts = pair.run(seed, folder, options)
    assert all(isinstance(one, int) for one in conflicts), f"{what}\n{conflicts}"
    found = sorted(pyhudi.open_table(folder).to_arrow().to_pylist(), key=lambda one: str(one["id"]))
    model = sorted(expected(seed).values(), key=lambda one: str(one["id"]))
    wrong = [one for one in found if one not in model]
    lost = [one for one in model if one not in found]
    assert found == model, f"{what}\nfound {wrong}\nexpected {lost}"
    assert pyhudi.open_table(folder).doctor().findings == (), what
    counts += Counter(tables=1, statements=2 * TURNS, conflicts=sum(conflicts))


def run(tables: int, seed: int, folder: Path) -> Counter[str]:
    counts, pair = Counter[str](), Pair()
    try:
        for number in range(seed, seed + tables):
            check(number, folder / str(number), pair, counts)
    finally:
        pair.close()
    return counts


def answer_requests() -> None:
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            found: Any = work(*json.loads(line))
        except pyhudi.PyhudiError as error:
            found = str(error)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", action="store_true", help="answer requests on standard input")
    given = parser.parse_args()
    if given.work:
        answer_requests()
    else:
        with tempfile.TemporaryDirectory() as made:
            totals = run(given.tables, given.seed, Path(made))
        print(", ".join(f"{count} {name}" for name, count in totals.items()) + ", 0 differences")
