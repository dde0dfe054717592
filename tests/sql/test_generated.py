"""Random programs of MERGE, UPDATE and DELETE, compared with DuckDB's own statements on a copy."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import pyhudi

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.float64()), ("p", pa.string())])
KINDS = ["cow", "mor"]
INDEXES = ["record", "global_simple"]


class Program:
    """Draws statements over `t` and rows of `s`."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def rows(self, count: int) -> pa.Table:
        """Rows with distinct keys; each key has its partition."""
        keys = self.draw.sample(range(24), count)
        numbers: list[int | None] = [None, 0, 1, 2, 3]
        return pa.table(
            {
                "id": keys,
                "a": [self.draw.choice(numbers) for _ in keys],
                "b": [float(self.draw.randrange(5)) for _ in keys],
                "p": [f"p{key % 3}" for key in keys],
            },
            schema=SCHEMA,
        )

    def number(self, *sides: str) -> str:
        side = self.draw.choice(sides)
        return self.draw.choice(
            [f"{side}.a", f"{side}.b", f"{side}.id", "2", f"{side}.a + {sides[0]}.b",
             f"coalesce({side}.a, 7)", f"abs({side}.b - 3)", f"greatest({side}.a, 1)",
             f"case when {side}.a > 1 then {sides[-1]}.b else 0 end"]
        )  # fmt: skip

    def condition(self, *sides: str) -> str:
        one, two = self.number(*sides), self.number(*sides)
        side = self.draw.choice(sides)
        return self.draw.choice(
            [f"{one} < {two}", f"{one} = {two}", f"{side}.a is null", f"not ({one} >= {two})",
             f"{side}.p in ('p0', 'p2')", f"{one} > {two} or {side}.id = 3",
             f"{side}.a in (select a from s where b > 2)"]
        )  # fmt: skip

    def merge(self) -> tuple[str, str]:
        """A MERGE of Spark's SQL, and the same for DuckDB."""
        on = self.draw.choice(
            ["t.id = s.id"] * 5
            + ["s.id = t.id and t.p = s.p", f"t.id = s.id and {self.condition('t')}",
               f"t.id = s.id and {self.condition('s')}", "t.id + 0 = s.id"]
        )  # fmt: skip
        ours, theirs = [], []
        inserts = "and s.a" not in on and "and t." not in on.replace("and t.p", "")
        for _ in range(self.draw.randint(1, 4)):
            kind = self.draw.choice(
                ["update", "update *", "delete", "insert", "insert *", "rest", "rest"]
            )
            if kind.startswith("insert") and (not inserts or "and" in on):
                continue
            sides = ["s"] if kind.startswith("insert") else ["t"] if kind == "rest" else ["t", "s"]
            where = f" and {self.condition(*sides)}"
            value = self.number(*sides)
            match kind:
                case "update":
                    clause = f"when matched{where} then update set b = {value}"
                    ours, theirs = [*ours, clause], [*theirs, clause]
                case "update *":
                    ours.append(f"when matched{where} then update set *")
                    theirs.append(f"when matched{where} then update set a = s.a, b = s.b")
                case "delete":
                    clause = f"when matched{where} then delete"
                    ours, theirs = [*ours, clause], [*theirs, clause]
                case "insert":
                    columns = f"(id, p, b) values (s.id, s.p, {value})"
                    clause = f"when not matched{where} then insert {columns}"
                    ours, theirs = [*ours, clause], [*theirs, clause]
                case "insert *":
                    ours.append(f"when not matched{where} then insert *")
                    theirs.append(
                        f"when not matched{where} then insert (id, a, b, p) "
                        "values (s.id, s.a, s.b, s.p)"
                    )
                case "rest":
                    act = self.draw.choice(["delete", f"update set b = {value}"])
                    clause = f"when not matched by source{where} then {act}"
                    ours, theirs = [*ours, clause], [*theirs, clause]
        if not ours:
            return self.update()
        begin = f"merge into t using s on {on} "
        return begin + " ".join(ours), begin + " ".join(theirs)

    def update(self) -> tuple[str, str]:
        text = f"update t set b = {self.number('t')} where {self.condition('t')}"
        return text, text

    def delete(self) -> tuple[str, str]:
        text = f"delete from t where {self.condition('t')} and {self.condition('t')}"
        return text, text

    def statement(self) -> tuple[str, str]:
        return self.draw.choice([self.merge] * 4 + [self.update, self.delete])()


def content(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(
        (tuple(row[name] for name in SCHEMA.names) for row in rows.to_pylist()),
        key=lambda row: row[0],
    )


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("blocks", [1, pytest.param(100, marks=pytest.mark.long)])
def test_programs_leave_what_duckdb_leaves(
    tmp_path: Path, kind: str, index: str, blocks: int
) -> None:
    for seed in range(blocks * 2):
        program = Program(seed)
        table = pyhudi.create_table(
            tmp_path / str(seed), SCHEMA, record_key="id", partition_by="p", table_type=kind,
            index=index,
        )  # fmt: skip
        first = program.rows(12)
        table.upsert(first)
        con = duckdb.connect()
        con.register("first", first)
        con.execute("create table t as select * from first")
        for step in range(3):
            source = program.rows(program.draw.randrange(10))
            con.execute("drop table if exists s")
            con.register("given", source)
            con.execute("create table s as select * from given")
            ours, theirs = program.statement()
            con.execute(theirs)
            pyhudi.sql(ours, tables={"t": table, "s": source})
            expected = content(con.sql("select * from t").to_arrow_table())
            assert content(table.to_arrow()) == expected, f"seed {seed}, step {step}: {ours}"
        con.close()
