"""The merge of base and log against a plain model: one dict, one entry at a time."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.payload_classes import DeleteMark
from pyhudi.merge.slice_merge import Deletes, LogEntries, merge
from pyhudi.records import IS_DELETED, RECORD_KEY

COLUMNS = [RECORD_KEY, "ts", "value"]
EVENT_TIME = MergeRules(RECORD_KEY, ("ts",))
COMMIT_TIME = MergeRules(RECORD_KEY)


@dataclass(frozen=True)
class Entry:
    """One log entry: a row, or a delete.  ts None: no ordering value."""

    key: str
    ts: Any
    value: int
    kind: str  # "row", "marked" (a row that is a delete), "delete"


def table(entries: list[Entry], ts_type: pa.DataType) -> pa.Table:
    return pa.table(
        {
            RECORD_KEY: pa.array([e.key for e in entries], pa.string()),
            "ts": pa.array([e.ts for e in entries], ts_type),
            "value": pa.array([e.value for e in entries], pa.int64()),
            IS_DELETED: pa.array([e.kind == "marked" for e in entries], pa.bool_()),
        }
    )


def log_of(entries: list[Entry], ts_type: pa.DataType) -> list[LogEntries]:
    """Entries as blocks: runs of rows, runs of deletes."""
    blocks: list[LogEntries] = []
    run: list[Entry] = []
    for entry in [*entries, None]:
        if run and (entry is None or (entry.kind == "delete") != (run[0].kind == "delete")):
            if run[0].kind == "delete":
                keys = pa.array([e.key for e in run], pa.string())
                blocks.append(Deletes(keys, pa.array([e.ts for e in run], ts_type)))
            else:
                blocks.append(table(run, ts_type))
            run = []
        if entry is not None:
            run.append(entry)
    return blocks


def model(base: list[Entry], log: list[Entry], *, event_time: bool) -> dict[str, tuple[Any, int]]:
    """The state of each key after every entry in turn; deleted keys keep their ordering value."""
    state: dict[str, tuple[Any, int | None]] = {}
    reset = set()
    for entry in log:
        natural = entry.kind == "delete" and entry.ts is None
        found = state.get(entry.key)
        loses = (
            event_time
            and not natural
            and found is not None
            and found[0] is not None
            and entry.ts is not None
            and entry.ts < found[0]
        )
        if loses:
            continue
        if natural:
            reset.add(entry.key)
        state[entry.key] = (entry.ts, entry.value if entry.kind == "row" else None)
    result = {row.key: (row.ts, row.value) for row in base}
    for key, (ts, value) in state.items():
        stored = result.get(key)
        stays = (
            event_time
            and stored is not None
            and key not in reset
            and stored[0] is not None
            and ts is not None
            and stored[0] > ts
        )
        if stays:
            continue
        result.pop(key, None)
        if value is not None:
            result[key] = (ts, value)
    return result


def merged(
    base: list[Entry] | None, log: list[Entry], rules: MergeRules, ts_type: pa.DataType
) -> dict[str, tuple[Any, int]]:
    stored = None if base is None else table(base, ts_type)
    rows = merge(stored, log_of(log, ts_type), rules, columns=COLUMNS)
    assert rows.column_names == COLUMNS
    found = [(r[RECORD_KEY], (r["ts"], r["value"])) for r in rows.to_pylist()]
    assert len(dict(found)) == len(found), "a key came twice"
    return dict(found)


KEYS = st.sampled_from(["a", "b", "c", "dd", "é", "日本"])
TIMES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int32": (pa.int32(), st.integers(-3, 3)),
    "int64": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])),
    "double": (pa.float64(), st.sampled_from([float("-inf"), -1.5, 0.5, 1.5, float("inf")])),
    "string": (pa.string(), st.sampled_from(["", "a", "ab", "b", "é"])),
    "decimal": (
        pa.decimal128(10, 2),
        st.sampled_from([decimal.Decimal(x) for x in ("-1.50", "0.00", "0.01", "99.99")]),
    ),
    "date": (pa.date32(), st.dates(datetime.date(1969, 12, 30), datetime.date(1970, 1, 3))),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.sampled_from([datetime.datetime(1960, 1, d, tzinfo=datetime.UTC) for d in (1, 2, 3)]),
    ),
    "bool": (pa.bool_(), st.booleans()),
}


@st.composite
def histories(
    draw: st.DrawFn, times: st.SearchStrategy[Any]
) -> tuple[list[Entry] | None, list[Entry]]:
    maybe = st.one_of(times, st.none())
    numbers = iter(range(1000))
    keys = draw(st.lists(KEYS, unique=True))
    base = [Entry(key, draw(maybe), next(numbers), "row") for key in keys]
    log = [
        Entry(key, draw(maybe), next(numbers), kind)
        for key, kind in draw(
            st.lists(
                st.tuples(KEYS, st.sampled_from(["row", "row", "marked", "delete"])), min_size=1
            )
        )
    ]
    has_rows = any(entry.kind != "delete" for entry in log)
    return (None if has_rows and draw(st.booleans()) else base), log


@pytest.mark.parametrize("kind", TIMES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_event_time_merge_equals_the_model(kind: str, data: st.DataObject) -> None:
    ts_type, times = TIMES[kind]
    base, log = data.draw(histories(times))
    assert merged(base, log, EVENT_TIME, ts_type) == model(base or [], log, event_time=True)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_commit_time_merge_equals_the_model(data: st.DataObject) -> None:
    base, log = data.draw(histories(st.integers(0, 3)))
    assert merged(base, log, COMMIT_TIME, pa.int64()) == model(base or [], log, event_time=False)


def test_not_a_number_is_the_largest() -> None:
    base = [Entry("a", float("nan"), 1, "row")]
    log = [Entry("a", float("inf"), 2, "row")]
    rows = merge(
        table(base, pa.float64()), log_of(log, pa.float64()), EVENT_TIME, columns=["value"]
    )
    assert rows.column("value").to_pylist() == [1]


def test_several_ordering_columns_compare_one_after_the_other() -> None:
    def rows(*triples: tuple[str, int, str]) -> pa.Table:
        keys, first, second = zip(*triples, strict=True)
        return pa.table({RECORD_KEY: list(keys), "x": list(first), "y": list(second)})

    base = rows(("a", 1, "m"), ("b", 1, "m"), ("c", 1, "m"), ("d", 2, "a"))
    log = rows(("a", 1, "l"), ("b", 1, "n"), ("c", 2, "a"), ("d", 1, "z"))
    got = merge(base, [log], MergeRules(RECORD_KEY, ("x", "y")), columns=base.column_names)
    expected = {("a", 1, "m"), ("b", 1, "n"), ("c", 2, "a"), ("d", 2, "a")}
    assert {tuple(row.values()) for row in got.to_pylist()} == expected


def test_an_older_row_does_not_revive_a_later_delete() -> None:
    log = [Entry("a", 160, 0, "delete"), Entry("a", 120, 1, "row")]
    assert merged([Entry("a", 100, 2, "row")], log, EVENT_TIME, pa.int64()) == {}


def test_a_row_after_a_natural_delete_is_a_new_row() -> None:
    log = [Entry("a", None, 0, "delete"), Entry("a", 50, 1, "row")]
    assert merged([Entry("a", 100, 2, "row")], log, EVENT_TIME, pa.int64()) == {"a": (50, 1)}


def test_a_configured_delete_marker_deletes() -> None:
    rules = MergeRules(RECORD_KEY, ("ts",), marks=(DeleteMark("value", "9"),))
    base = [Entry("a", 1, 1, "row"), Entry("b", 1, 2, "row")]
    log = [Entry("a", 2, 9, "row"), Entry("b", 2, 8, "row")]
    assert merged(base, log, rules, pa.int64()) == {"b": (2, 8)}
