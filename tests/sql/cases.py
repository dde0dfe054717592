"""Statements with the rows after them, or the error: the table of cases of the SQL suite.

The target is `trips` with BEFORE; `news` and `twins` are rows that the call gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("fare", pa.float64()), ("n", pa.int64()), ("ts", pa.int64()),
        ("city", pa.string()),
    ]
)  # fmt: skip
BEFORE = [
    ("a", 10.0, 1, 5, "sf"), ("b", 20.0, 2, 5, "sf"), ("c", 30.0, None, 5, "la"),
    ("d", None, 4, 5, "la"),
]  # fmt: skip
NEWS = pa.table(
    {
        "id": ["b", "d", "e"],
        "fare": [21.0, 41.0, 51.0],
        "n": pa.array([20, None, 50], pa.int64()),
        "ts": [6, 6, 6],
        "city": ["sf", "la", "sf"],
        "op": ["U", "D", "I"],
    }
)
TWINS = pa.table({"id": ["b", "b"], "fare": [1.0, 2.0], "city": ["sf", "sf"]})
SOURCES = {"news": NEWS, "twins": TWINS}


@dataclass(frozen=True)
class Case:
    """rows: of the query, or None for a write.  change: the rows that a write adds or changes, by
    key; None: the record is gone.  error: a part of the message.  ordered: whether only tables
    with an ordering field (True) or without (False) take part."""

    sql: str
    rows: Sequence[tuple[Any, ...]] | None = None
    change: Mapping[str, tuple[Any, ...] | None] | None = None
    error: str | None = None
    parameters: Any = None
    ordered: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def rows(sql: str, *found: tuple[Any, ...], parameters: Any = None) -> Case:
    return Case(sql, rows=found, parameters=parameters)


def changes(sql: str, parameters: Any = None, **found: tuple[Any, ...] | None) -> Case:
    return Case(sql, change=found, parameters=parameters)


def refused(sql: str, error: str, parameters: Any = None, ordered: bool | None = None) -> Case:
    return Case(sql, error=error, parameters=parameters, ordered=ordered)


QUERIES = [
    rows("select id, fare from trips where fare > 15", ("b", 20.0), ("c", 30.0)),
    rows("select id from trips where n is null", ("c",)),
    rows(
        "select city, count(*), sum(fare) from trips group by city",
        ("la", 2, 30.0),
        ("sf", 2, 30.0),
    ),
    rows("select t.id from trips t join news s on t.id = s.id", ("b",), ("d",)),
    rows("select id from trips except select id from news", ("a",), ("c",)),
    rows("with trips as (select 1 as one) select * from trips", (1,)),
    rows(
        "with x as (select id from trips), y as (select * from x) select * from y where id = 'a'",
        ("a",),
    ),
    rows("select id from TRIPS where ID = 'a'", ("a",)),
    rows("select trips.id from trips where trips.id = 'a'", ("a",)),
    rows('select `id` from trips where id = "a"', ("a",)),
    rows("select id from trips where id = ? or fare = ?", ("a",), ("c",), parameters=["a", 30.0]),
    rows("select id from trips where id = :key", ("b",), parameters={"key": "b"}),
    rows(
        "select id from trips where id in (:one, :two, :one)",
        ("a",),
        ("b",),
        parameters={"one": "a", "two": "b"},
    ),
    rows("select 'it''s', 'a\\'b', '?', ':x' -- ? :y", ("it's", "a'b", "?", ":x")),
    rows("select 1/2, 7 div 2, 7 % 4", (0.5, 3, 3)),
    rows("values (1, 'x'), (2, 'y')", (1, "x"), (2, "y")),
    rows(
        "select id, row_number() over (order by id desc) from trips where city = 'sf'",
        ("a", 2),
        ("b", 1),
    ),
    rows("select max(id) from trips where id < (select max(id) from trips)", ("c",)),
    rows("select if(fare is null, 'none', 'some') from trips where id = 'd'", ("none",)),
    rows("select count(distinct _hoodie_commit_time) from trips", (1,)),
    rows("select v.x from (values (1), (2)) as v(x) where x > 1", (2,)),
    rows("select x from (select explode(array(1, 2)) as x)", (1,), (2,)),
    rows(
        "select id from hudi_table_changes('trips', 'latest_state', 'earliest') where n < 3",
        ("a",),
        ("b",),
    ),
    rows("select id from pyhudi_lookup('trips', array('a', 'nobody'))", ("a",)),
    rows("select id from pyhudi_lookup('trips', ?)", ("c",), parameters=["c"]),
    rows(
        "select count(*) from hudi_query_timeline('trips') where action like '%commit'",
        (1,),
    ),
    rows(
        "select key, recordIndexMetadata.partitionName from hudi_metadata('trips') where type = 5",
        ("a", "sf"),
        ("b", "sf"),
        ("c", "la"),
        ("d", "la"),
    ),
    rows(
        "select key, type from hudi_metadata('trips') where type < 3 and "
        "element_at(filesystemMetadata, 'sf').isDeleted is distinct from true",
        ("__all_partitions__", 1),
        ("la", 2),
        ("sf", 2),
    ),
]

UPDATES = [
    changes(
        "update trips set fare = fare * 2 where city = 'sf'",
        a=("a", 20.0, 1, 5, "sf"),
        b=("b", 40.0, 2, 5, "sf"),
    ),
    changes("update trips as t set t.n = t.n + 1 where t.id = 'a'", a=("a", 10.0, 2, 5, "sf")),
    changes(
        "update trips set trips.n = 9, fare = null where trips.id = 'a'", a=("a", None, 9, 5, "sf")
    ),
    changes(
        "update trips set n = (select max(n) from news) where id = 'a'", a=("a", 10.0, 50, 5, "sf")
    ),
    changes(
        "update trips set fare = 0 where id in (select id from news)",
        b=("b", 0.0, 2, 5, "sf"),
        d=("d", 0.0, 4, 5, "la"),
    ),
    changes(
        "update trips set fare = 1.5 where exists "
        "(select 1 from news s where s.id = trips.id and op = 'U')",
        b=("b", 1.5, 2, 5, "sf"),
    ),
    changes(
        "update trips set n = length(id) + cast('3' as int) where id = 'c'",
        c=("c", 30.0, 4, 5, "la"),
    ),
    changes("update trips set FARE = ? where ID = ?", [7, "a"], a=("a", 7.0, 1, 5, "sf")),
    changes(
        "update trips set fare = :f where fare = :old",
        {"f": None, "old": 10.0},
        a=("a", None, 1, 5, "sf"),
    ),
    changes("update trips set fare = n, n = ts where id = 'b'", b=("b", 2.0, 5, 5, "sf")),
    changes(
        "update trips set fare = (select avg(u.fare) from trips u where u.city = trips.city) "
        "where id = 'd'",
        d=("d", 30.0, 4, 5, "la"),
    ),
    changes("update trips set fare = 1 where id = 'nobody'"),
    refused("update trips set id = 'x'", "cannot change record keys"),
    refused("update trips set city = 'x'", "cannot change record keys or partitions"),
    refused("update trips set nosuch = 1", "the table has no such column"),
    refused("update trips set n = 1.5 where id = 'a'", "does not fit the column"),
    refused("update trips set n = 'x' where id = 'a'", "does not fit the column"),
    refused("update trips set fare = nosuch", "rejected the query"),
    refused("update trips set n = 1, n = 2", "assigned twice"),
    refused("update news set n = 1", "cannot be written to"),
    refused("update trips set fare = ? where id = ?", "do not match", parameters=[1]),
    refused("update trips set fare = 1 from news where news.id = trips.id", "not supported"),
    refused("update trips set s.x = 1", "cannot be assigned"),
]

DELETES = [
    changes("delete from trips where city = 'sf'", a=None, b=None),
    changes("delete from trips", a=None, b=None, c=None, d=None),
    changes("delete from trips t where t.fare is null", d=None),
    changes("delete from trips where id in (select id from news where op = 'D')", d=None),
    changes("delete from trips where fare > (select avg(fare) from trips)", c=None),
    changes(
        "delete from trips where not exists (select 1 from news where news.id = trips.id)",
        a=None,
        c=None,
    ),
    changes("delete from trips where id = ?", ["a' or '1'='1"]),
    changes("delete from trips where id = :k", {"k": "a"}, a=None),
    refused("delete from nosuch", "no table has this name"),
    refused("delete from trips where nosuch = 1", "rejected the query"),
    refused("delete from trips using news where news.id = trips.id", "not supported"),
]

INSERTS = [
    changes("insert into trips values ('e', 1, 2, 6, 'sf')", e=("e", 1.0, 2, 6, "sf")),
    changes(
        "insert into trips (id, city, ts) values ('e', 'sf', 6), ('f', 'la', 6)",
        e=("e", None, None, 6, "sf"),
        f=("f", None, None, 6, "la"),
    ),
    changes(
        "insert into trips select id, fare, n, ts, city from news where op = 'I'",
        e=("e", 51.0, 50, 6, "sf"),
    ),
    changes("insert into trips (ts, id, city) select 6, 'e', 'sf'", e=("e", None, None, 6, "sf")),
    changes(
        "insert into trips by name select 'e' as id, 'sf' as city, 6 as ts",
        e=("e", None, None, 6, "sf"),
    ),
    changes(
        "insert into trips partition (city = 'ny') values ('e', 1, 2, 6)", e=("e", 1.0, 2, 6, "ny")
    ),
    changes(
        "insert into trips partition (city) values ('e', 1, 2, 6, 'ny')", e=("e", 1.0, 2, 6, "ny")
    ),
    changes(
        "insert into trips values (?, ?, ?, ?, ?)",
        ["e';--", 1.0, 2, 6, "sf"],
        **{"e';--": ("e';--", 1.0, 2, 6, "sf")},
    ),
    changes(
        "insert into trips with x as (select 'e' as id) select id, 1, 2, 6, 'sf' from x",
        e=("e", 1.0, 2, 6, "sf"),
    ),
    changes(
        "insert into trips select concat(id, 'x'), fare, n, ts, city from trips where id = 'a'",
        ax=("ax", 10.0, 1, 5, "sf"),
    ),
    Case(
        "insert into trips values ('a', 11, 1, 6, 'sf')",
        change={"a": ("a", 11.0, 1, 6, "sf")},
        ordered=True,
    ),
    Case(
        "insert into trips values ('a', 11, 1, 6, 'sf')",
        change={"a": ("a", 11.0, 1, 6, "sf")},
        ordered=False,
        options={"hoodie.spark.sql.insert.into.operation": "upsert"},
    ),
    Case(
        "insert into trips values ('a', 11, 1, 6, 'sf')",
        error="exist",
        ordered=False,
        options={"hoodie.datasource.insert.dup.policy": "fail"},
    ),
    Case(
        "insert into trips values ('e', 1, 1, 6, 'sf')",
        error="unknown operation",
        options={"hoodie.spark.sql.insert.into.operation": "x"},
    ),
    refused("insert into trips values ('e', 1)", "another number of columns"),
    refused("insert into trips (id, nosuch) values ('e', 1)", "no such column"),
    refused("insert into trips (id, id) values ('e', 'f')", "named twice"),
    refused("insert into trips (fare, ts, city) values (1, 6, 'sf')", "null"),
    refused("insert into trips values ('e', 'x', 2, 6, 'sf')", "does not fit the column"),
    changes(
        "insert overwrite trips values ('e', 1, 2, 6, 'sf')",
        a=None,
        b=None,
        c=None,
        d=None,
        e=("e", 1.0, 2, 6, "sf"),
    ),
    changes(
        "insert overwrite trips partition (city) values ('e', 1, 2, 6, 'sf')",
        a=None,
        b=None,
        e=("e", 1.0, 2, 6, "sf"),
    ),
    changes(
        "insert overwrite table trips partition (city = 'la') "
        "select id, fare, n, ts from news where op = 'I'",
        c=None,
        d=None,
        e=("e", 51.0, 50, 6, "la"),
    ),
]

ALL = "when matched then update set * when not matched then insert *"
CDC = (
    "when matched and s.op = 'D' then delete when matched then update set fare = s.fare, ts = s.ts "
    "when not matched and op != 'D' then insert (id, city, fare, ts) values (id, s.city, fare, ts)"
)
ON = "on t.id = s.id"


def merge(
    on: str, clauses: str, source: str = "news s", parameters: Any = None, **found: Any
) -> Case:
    sql = f"merge into trips as t using {source} {on} {clauses}"
    return Case(sql, change=found, parameters=parameters)


def merge_refused(on: str, clauses: str, error: str, source: str = "news s", **more: Any) -> Case:
    return Case(f"merge into trips as t using {source} {on} {clauses}", error=error, **more)


B, D, E = ("b", 21.0, 20, 6, "sf"), ("d", 41.0, None, 6, "la"), ("e", 51.0, 50, 6, "sf")
MERGES = [
    merge(ON, ALL, b=B, d=D, e=E),
    merge("on s.id = t.id", ALL, b=B, d=D, e=E),
    merge(ON, CDC, b=("b", 21.0, 2, 6, "sf"), d=None, e=("e", 51.0, None, 6, "sf")),
    merge("on t.id = s.id and t.city = s.city", ALL, b=B, d=D, e=E),
    merge(
        ON,
        "when matched then update set id = s.id, fare = s.fare",
        b=("b", 21.0, 2, 5, "sf"),
        d=("d", 41.0, 4, 5, "la"),
    ),
    merge(ON, "when matched then delete", b=None, d=None),
    merge(ON, "when not matched then insert *", e=E),
    merge(
        ON,
        "when matched and t.n > 3 then update set fare = t.n * 10 + s.fare, ts = 9",
        d=("d", 81.0, 4, 9, "la"),
    ),
    merge(
        ON,
        "when matched and t.fare < s.fare then update set n = t.n + length(s.city)",
        b=("b", 20.0, 4, 5, "sf"),
    ),
    merge(
        ON,
        "when matched then update set n = (select max(n) from trips)",
        b=("b", 20.0, 4, 5, "sf"),
        d=("d", None, 4, 5, "la"),
    ),
    merge(
        ON,
        "when matched then update set n = (select max(u.n) from trips u where u.city = t.city)",
        b=("b", 20.0, 2, 5, "sf"),
        d=("d", None, 4, 5, "la"),
    ),
    merge(
        ON,
        "when matched then update set fare = null",
        b=("b", None, 2, 5, "sf"),
        d=("d", None, 4, 5, "la"),
    ),
    merge(
        ON,
        "when matched and s.op = ? then update set fare = t.n + ?",
        parameters=["U", 0.5],
        b=("b", 2.5, 2, 5, "sf"),
    ),
    merge(ON, "when matched and s.op = :op then delete", parameters={"op": "U"}, b=None),
    merge(
        ON,
        "when matched then update set n = cast(substr(concat(t.id, '7'), 2) as int)",
        b=("b", 20.0, 7, 5, "sf"),
        d=("d", None, 7, 5, "la"),
    ),
    merge(ON, "when not matched by source then delete", a=None, c=None),
    merge(
        ON,
        "when not matched by source and t.n is null then delete "
        "when not matched by source then update set fare = t.fare + 1",
        c=None,
        a=("a", 11.0, 1, 5, "sf"),
    ),
    merge(
        ON, f"{ALL} when not matched by source and city = 'la' then delete", b=B, d=D, e=E, c=None
    ),
    merge(
        ON,
        "when not matched by source and n = ? then update set fare = ?",
        parameters=[1, 3],
        a=("a", 3.0, 1, 5, "sf"),
    ),
    merge(
        ON, "when not matched by source and t.n = (select min(n) from trips) then delete", a=None
    ),
    merge("on t.id = s.id and s.op = 'U'", "when matched then delete", b=None),
    merge(
        "on t.id = s.id and t.fare is null",
        "when matched then update set fare = s.fare",
        d=("d", 41.0, 4, 5, "la"),
    ),
    merge(
        "on t.id = s.id and t.fare is null",
        "when not matched by source then delete",
        a=None,
        b=None,
        c=None,
    ),
    merge(
        "on t.n = s.x",
        "when matched then update set fare = s.y",
        "(values (1, 5.5), (2, 6.5)) as s(x, y)",
        a=("a", 5.5, 1, 5, "sf"),
        b=("b", 6.5, 2, 5, "sf"),
    ),
    merge("on t.n < s.x", "when matched then delete", "(select 2 as x) s", a=None),
    merge(
        "on t.n = s.x",
        "when not matched then insert (id, city, ts, n) values ('z', 'sf', 6, x)",
        "(select 77 as x) s",
        z=("z", None, 77, 6, "sf"),
    ),
    merge(
        "on t.n = s.x",
        "when not matched by source then delete",
        "(select 1 as x) s",
        b=None,
        c=None,
        d=None,
    ),
    merge(
        "on t.id = s.key",
        "when matched then update set fare = s.f when not matched then insert "
        "(id, city, fare, ts) values (s.key, 'sf', f, 6)",
        "(select 'a' as key, 1.25 as f union all select 'z', 2) s",
        a=("a", 1.25, 1, 5, "sf"),
        z=("z", 2.0, None, 6, "sf"),
    ),
    merge(
        ON,
        "when matched then update set fare = s.f",
        "(select id, fare * 2 as f, city from trips) s",
        a=("a", 20.0, 1, 5, "sf"),
        b=("b", 40.0, 2, 5, "sf"),
        c=("c", 60.0, None, 5, "la"),
    ),
    merge(ON, ALL, "(select 'a' as id, 'sf' as city, 6 as ts) s", a=("a", 10.0, 1, 6, "sf")),
    merge(
        ON,
        ALL,
        "(select 'a' as id, 'sf' as city, 25.5 as fare, 6 as ts) s",
        a=("a", 25.5, 1, 6, "sf"),
    ),
    merge(
        ON,
        "when not matched then insert *",
        "(select 'z' as id, 'sf' as city, 25.5 as fare, 6 as ts) s",
        z=("z", 25.5, None, 6, "sf"),
    ),
    merge_refused(
        ON,
        "when matched then update set *",
        "do not fit",
        "(select 'a' as id, 'sf' as city, 25.5 as n, 6 as ts) s",
    ),
    merge(ON, "when matched then delete", "(select * from news where op = 'X') s"),
    Case(
        "merge into trips using news on trips.id = news.id when matched then delete",
        change={"b": None, "d": None},
    ),
    Case("with x as (select 1) select count(*) from trips", rows=[(4,)]),
    merge_refused(
        ON, "when matched then update set fare = s.fare", "several rows of the source", "twins s"
    ),
    merge_refused(ON, "when not matched then insert *", "several rows of the source", "twins s"),
    merge_refused(
        "on t.city = s.city",
        "when matched then update set n = s.n",
        "several rows",
        "(select * from news where city = 'sf') s",
        ordered=False,
    ),
    Case(  # the row is chosen before the clauses, by key and by join
        "merge into trips t using (select 'b' as id, 7 as ts, 1 as op, 'sf' as city union all "
        "select 'b', 8, 2, 'sf' union all select 'z', 7, 1, 'sf' union all select 'z', 8, 2, 'sf') "
        "s on t.id = s.id and t.city = s.city when matched and s.op = 1 then delete "
        "when not matched and s.op = 1 then insert (id, city, ts) values (s.id, s.city, s.ts) "
        "when not matched by source and t.id = 'a' then delete",
        change={"a": None},
        ordered=True,
    ),
    merge(
        ON,
        "when matched then update set n = cast(t.fare + s.fare as bigint)",
        "(select 'b' as id, 'sf' as city, 11.7e0 as fare) s",
        b=("b", 20.0, 31, 5, "sf"),
    ),
    merge_refused("on t.id = s.id and t.fare > 1000", ALL, "has the key of a stored record"),
    merge_refused(
        "on t.n = s.n", "when not matched then insert *", "has the key of a stored record"
    ),
    merge_refused(ON, "when matched then update set id = 'x'", "cannot change record keys"),
    merge_refused(ON, "when matched then delete when matched then update set *", "can never apply"),
    merge_refused(ON, "when matched then update set nosuch = 1", "no such column"),
    merge_refused(ON, "when matched then update set n = s.nosuch", "rejected the query"),
    merge_refused(ON, "when matched then update set n = nosuch", "unknown column"),
    merge_refused(ON, "when matched then update set n = fare", "that of two columns"),
    merge_refused(ON, "when matched then update set n = s.city", "fit"),
    merge_refused(ON, "when matched then insert *", "not possible"),
    merge_refused(ON, "when not matched by source then update set *", "not possible"),
    merge_refused(ON, "when not matched then insert (id, city) values (s.id)", "one value"),
    merge_refused("on trips.id = s.id", ALL, "", "nosuch s"),
    merge_refused("on t.id = t.id", "when matched then delete", "same name", "news t"),
    Case(
        "merge into news using trips on news.id = trips.id when matched then delete",
        error="cannot be written to",
    ),
]

REFUSED = [
    refused("selec 1", "not valid SQL"),
    refused("", "must be one statement"),
    refused("select 1; select 2", "must be one statement"),
    refused("select * from nosuch", "no table has this name"),
    refused("select * from trisp", "did you mean trips"),
    refused("select * from hudi.`/no/such/path`", "no Hudi table at this path"),
    refused("select * from read_csv('/etc/passwd')", "table function is not supported"),
    refused("select * from read_parquet('/etc/passwd')", "table function is not supported"),
    refused("select * from '/etc/passwd'", "no table has this name"),
    refused("select * from query('select 1')", "table function is not supported"),
    refused("select nosuch from trips", "rejected the query"),
    refused("delete trips", "DELETE needs FROM"),
    refused("delete trips where id = 'a'", "DELETE needs FROM"),
    refused("delete t from trips t", "not supported"),
    refused("truncate trips", "TRUNCATE needs TABLE"),
    refused("begin", "not supported"),
    refused("commit", "not supported"),
    refused("set a = b", "not supported"),
    refused("grant select on trips to x", "not supported"),
    refused("select 'open", "not valid SQL"),
    refused("select * from trips where id = ?", "do not match"),
    refused("select * from trips where id = :a", "do not match", parameters={"b": 1}),
    refused("select * from trips where id = ?", "other parameters", parameters={"b": 1}),
    refused("select * from trips where id = ? and n = :n", "one kind", parameters=[1]),
    refused("select id from hudi_table_changes('trips', 'x', 'earliest')", "not supported"),
    refused("select id from hudi_table_changes(concat('tr', 'ips'), 'cdc', '0')", "constant"),
    refused("select key from hudi_metadata('trips', 'files')", "not supported"),
    refused("select key from hudi_metadata('news')", "name is that of rows"),
    refused("select * from trips for update", "not supported"),
    refused("select " + "(" * 3000 + "1" + ")" * 3000, "nested too deeply"),
    refused("explain call help", "EXPLAIN"),
    refused("explain explain select 1", "EXPLAIN"),
    refused("select * from trips timestamp as of '1999-01-01'", "no commit at or before"),
    refused("select * from news timestamp as of '2026-01-01'", "no versions"),
]

CASES = [*QUERIES, *UPDATES, *DELETES, *INSERTS, *MERGES, *REFUSED]
