"""Log merge, native and by rounds, rewrite and batch give one truth table."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.merge.combine_batch import greatest_rows, merged_rows, newest_rows
from pyhudi.merge.log_fold import DATA, NATURAL_DELETE, ORDERED_DELETE, Entries, fold_entries
from pyhudi.merge.ordering_values import ordering_ranks
from pyhudi.merge.precedence import Ranked
from pyhudi.merge.resolve_updates import outcome, resolve_updates
from pyhudi.merge.slice_merge import Deletes, LogEntries, merge
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.records import IS_DELETED, RECORD_KEY
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.merge.truth_table import CASES, DELETE, ROW, Case, Record

COLUMNS = [RECORD_KEY, "ts", "value"]
FIELDS = [(RECORD_KEY, pa.string()), ("ts", pa.float64()), ("value", pa.int64())]
Left = tuple[float | None, int | None] | None


def rows_of(*records: Record) -> pa.Table:
    columns = (["k"] * len(records), [r.ts for r in records], [r.value for r in records])
    arrays = [pa.array(c, kind) for c, (_, kind) in zip(columns, FIELDS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(FIELDS))


def entry_of(record: Record, case: Case) -> LogEntries:
    if record.kind == ROW:
        return rows_of(record)
    ordering = pa.array([record.ts], pa.float64()) if case.rules.is_event_time else None
    return Deletes(pa.array(["k"]), ordering)


def left_of(rows: pa.Table) -> Left:
    found = rows.select(COLUMNS).to_pylist()
    assert len(found) <= 1
    return (found[0]["ts"], found[0]["value"]) if found else None


def same(found: Left, expected: Left) -> bool:
    if found is None or expected is None:
        return found is expected
    return repr(found) == repr(
        (expected[0] if expected[0] is None else float(expected[0]), expected[1])
    )


def by_log(case: Case) -> Left:
    log = [entry_of(case.older, case), entry_of(case.newer, case)]
    return left_of(merge(rows_of(), log, case.rules, columns=COLUMNS))


def by_base_and_log(case: Case) -> Left:
    log = [entry_of(case.newer, case)]
    return left_of(merge(rows_of(case.older), log, case.rules, columns=COLUMNS))


def by_rewrite(case: Case) -> Left:
    stored, incoming = rows_of(case.older), rows_of(case.newer)
    puts = np.array([case.newer.kind == ROW])
    natural = case.newer.kind == DELETE and case.newer.ts is None
    decision = resolve_updates(stored, incoming, puts, case.rules, natural_deletes=natural)
    written = outcome(stored, incoming, decision, case.rules)
    return left_of(pa.concat_tables([stored.filter(pa.array(decision.keep)), written]))


def by_batch(case: Case) -> Left:
    rows, rules = rows_of(case.older, case.newer), case.rules
    if not rules.picks:
        return left_of(merged_rows(np.zeros(2, np.int64), rows, rules).rows)
    keys = rows.column(RECORD_KEY)
    at = greatest_rows(keys, rows, rules) if rules.ordering else newest_rows(keys)
    return left_of(rows.take(pa.array(at)))


def by_rounds(case: Case) -> Left:
    """The merge that rules without a native form take, entry by entry."""
    both = rows_of(case.older, case.newer)
    kinds = {(ROW, True): DATA, (ROW, False): DATA, (DELETE, True): NATURAL_DELETE}
    kind = [kinds.get((r.kind, r.ts is None), ORDERED_DELETE) for r in (case.older, case.newer)]
    order = Ranked.none(2)
    if case.rules.is_event_time:
        order = Ranked(*ordering_ranks([both.column("ts")]))
    key = np.zeros(2, np.int64)
    entries = Entries(key, 1, np.array(kind, np.uint8), order, np.arange(2), both)
    return left_of(fold_entries(entries, case.rules).rows)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_merge_by_rounds_gives_the_truth_table(case: Case) -> None:
    assert same(by_rounds(case), case.left)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_log_merge_gives_the_truth_table(case: Case) -> None:
    assert same(by_log(case), case.left)


@pytest.mark.parametrize("case", [c for c in CASES if c.older.kind == ROW], ids=str)
def test_a_merge_of_log_and_base_file_gives_the_truth_table(case: Case) -> None:
    assert same(by_base_and_log(case), case.left)


@pytest.mark.parametrize("case", [c for c in CASES if c.older.kind == ROW], ids=str)
def test_a_rewrite_gives_the_truth_table(case: Case) -> None:
    assert same(by_rewrite(case), case.left)


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in CASES
        if {c.older.kind, c.newer.kind} == {ROW} and None not in (c.older.ts, c.newer.ts)
    ],
    ids=str,
)
def test_a_batch_gives_the_truth_table(case: Case) -> None:
    assert same(by_batch(case), case.left)


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "two writes"])
def test_zeros_of_either_sign_are_ordered_alike_however_they_are_written(
    kind: TableType, together: bool
) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.float64()), ("v", pa.int64())])
    fs = MemoryFileSystem()
    create(fs, NewTable(schema, "t", kind, ("id",), (), ("ts",), parse_options({})))
    table = Table(fs, options=parse_options({}), engine=LocalEngine(1))
    table.upsert(pa.table({"id": ["k", "other"], "ts": [-1.0, 0.0], "v": [0, 0]}, schema=schema))
    both = pa.table({"id": ["k", "k"], "ts": [0.0, -0.0], "v": [1, 2]}, schema=schema)
    for rows in [both] if together else [both.slice(0, 1), both.slice(1)]:
        table.upsert(rows)
    (found,) = (r for r in table.scan(["id", "ts", "v"]).to_arrow().to_pylist() if r["id"] == "k")
    assert (found["v"], math.copysign(1, found["ts"])) == (1, 1)


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("is_reversed", [False, True], ids=["as given", "reversed"])
def test_a_delete_without_ordering_value_wins_over_the_rows_before_it_in_its_batch(
    kind: TableType, is_reversed: bool
) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), (IS_DELETED, pa.bool_())])
    fs = MemoryFileSystem()
    create(fs, NewTable(schema, "t", kind, ("id",), (), ("ts",), parse_options({})))
    table = Table(fs, options=parse_options({}), engine=LocalEngine(1))
    table.upsert(pa.table({"id": ["a", "b"], "ts": [1, 1], IS_DELETED: [False] * 2}, schema=schema))
    places = [1, 0] if is_reversed else [0, 1]
    pair = {"id": "abc", "ts": [5, None], IS_DELETED: [False, True]}
    rows = [
        {"id": key, "ts": pair["ts"][at], IS_DELETED: pair[IS_DELETED][at]}
        for at in places
        for key in pair["id"]
    ] + [{"id": "d", "ts": 1, IS_DELETED: False}]
    table.upsert(pa.Table.from_pylist(rows, schema))
    left = sorted(table.scan(["id"]).to_arrow()["id"].to_pylist())
    assert left == (["a", "b", "c", "d"] if is_reversed else ["d"])
