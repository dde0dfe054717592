"""Differences of snapshots and histories of records, against a model of plain dicts."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError
from pyhudi.options import parse_options
from pyhudi.read.changes.row_equality import rows_differ
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from tests.support.examples import examples
from tests.support.filesystems import OpenCountingFileSystem
from tests.support.handmade import Handmade, file_id
from tests.support.versions import end_of

SCHEMA = pa.schema({"id": pa.string(), "part": pa.string(), "v": pa.int64()})
T1, T2, T3, T4 = (f"2026010{n}000000000" for n in range(1, 5))
KEYS = ("a", "b", "c", "d")
NAMES = itertools.count()

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("upsert"),
            st.dictionaries(st.sampled_from(KEYS), st.integers(0, 2), min_size=1),
        ),
        st.tuples(st.just("delete"), st.sets(st.sampled_from(KEYS), min_size=1)),
    ),
    min_size=1,
    max_size=5,
)


def new_table(kind: str, version: int = 9) -> Table:
    return pyhudi.create_table(
        f"memory://diff{next(NAMES)}", SCHEMA, record_key="id", partition_by="part",
        table_type=kind, version=version,
        options={"hoodie.metadata.record.index.min.filegroup.count": 1},
    )  # fmt: skip


def rows(found: dict[str, int]) -> pa.Table:
    return pa.table(
        {
            "id": list(found),
            "part": ["pq"[ord(k[0]) % 2] for k in found],
            "v": list(found.values()),
        },
        schema=SCHEMA,
    )


def apply(table: Table, state: dict[str, int], step: tuple[str, Any]) -> dict[str, int]:
    verb, what = step
    if verb == "upsert":
        table.upsert(rows(what))
        return {**state, **what}
    table.delete(keys=sorted(what))
    return {k: v for k, v in state.items() if k not in what}


def rows_of_diff(diff: pa.Table) -> dict[str, tuple[str, int | None, int | None]]:
    return {
        row["record_key"]: (
            row["change"],
            row["before"] and row["before"]["v"],
            row["after"] and row["after"]["v"],
        )
        for row in diff.to_pylist()
    }


def expected(old: dict[str, int], new: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in old.keys() | new.keys():
        if key not in new:
            found[key] = ("delete", old[key], None)
        elif key not in old:
            found[key] = ("insert", None, new[key])
        elif old[key] != new[key]:
            found[key] = ("update", old[key], new[key])
    return found


@pytest.mark.parametrize(("kind", "version"), [("cow", 6), ("mor", 6), ("mor", 9)])
@examples(5, 12, settings(suppress_health_check=list(HealthCheck)), taken=steps)
def test_diff_and_history_equal_those_of_a_model(kind: str, version: int, taken: list[Any]) -> None:
    table = new_table(kind, version)
    states: list[dict[str, int]] = [{}]
    times = ["000"]
    for step in taken:
        states.append(apply(table, states[-1], step))
        last = table.timeline.commits.last
        times.append("000" if last is None else last.completed_at or last.time)
    for one, other in itertools.product(range(len(states)), repeat=2):
        assert rows_of_diff(table.diff(times[one], times[other])) == expected(
            states[one], states[other]
        )
    assert rows_of_diff(table.diff("000")) == expected({}, states[-1])
    for key in KEYS:
        seen = [(r["change"], r["row"] and r["row"]["v"]) for r in table.history(key).to_pylist()]
        assert [value for _, value in seen] == _model_history(key, taken)


def _model_history(key: str, taken: list[Any]) -> list[int | None]:
    found: list[int | None] = []
    for verb, what in taken:
        if verb == "upsert" and key in what:
            found.append(what[key])
        elif verb == "delete" and key in what and found and found[-1] is not None:
            found.append(None)
    return found


def test_a_diff_reads_only_groups_that_commits_between_touched() -> None:
    memory = MemoryFileSystem()
    made = Handmade(memory, SCHEMA, ordering=(), table_type=TableType.COPY_ON_WRITE)
    for n in range(1, 21):
        made.base(n, T1, rows({f"k{n}": n}))
    made.commit(T1, action="commit")
    made.base(7, T2, rows({"k7": 70}))
    made.commit(T2, action="commit")
    fs = OpenCountingFileSystem(memory)
    table = Table(fs, options=parse_options({}), engine=LocalEngine(2))
    assert rows_of_diff(table.diff(T1)) == {"k7": ("update", 7, 70)}
    data = {path for path in fs.opened if not path.startswith(".hoodie")}
    assert data == {f"{file_id(7)}_0-0-0_{time}.parquet" for time in (T1, T2)}


def test_rows_that_moved_to_another_group_are_no_difference() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA, ordering=(), table_type=TableType.COPY_ON_WRITE)
    made.base(1, T1, rows({"a": 1, "b": 2}))
    made.base(2, T1, rows({"c": 3}))
    made.commit(T1, action="commit")
    made.base(3, T2, rows({"a": 1, "b": 20, "c": 3, "d": 4}))
    made.commit(
        T2, action="replacecommit", operation="INSERT_OVERWRITE_TABLE",
        replaced={"": (file_id(1), file_id(2))},
    )  # fmt: skip
    table = Table(made.fs, options=parse_options({}), engine=LocalEngine(1))
    assert rows_of_diff(table.diff(T1)) == {"b": ("update", 2, 20), "d": ("insert", None, 4)}
    assert rows_of_diff(table.diff(T2, T1)) == {"b": ("update", 20, 2), "d": ("delete", 4, None)}


@pytest.mark.parametrize("version", [6, 9])
def test_a_diff_of_some_columns_and_filtered_rows(version: int) -> None:
    table = new_table("cow", version)
    first = end_of(table.upsert(rows({"a": 1, "b": 2, "c": 3})))
    table.upsert(rows({"a": 10, "b": 2, "c": 30}))
    assert rows_of_diff(table.diff(first, where=pc.field("part") == "q")) == {
        "a": ("update", 1, 10), "c": ("update", 3, 30),
    }  # fmt: skip
    assert table.diff(first, columns=["id"]).num_rows == 0
    with pytest.raises(UserError, match="meta columns"):
        table.diff(first, columns=["_hoodie_commit_time"])


@pytest.mark.parametrize("version", [6, 9])
def test_a_change_is_selected_whole_where_its_row_matches_before_or_after(version: int) -> None:
    table = new_table("mor", version)
    first = end_of(table.upsert(rows({"a": 1, "b": 2, "c": 3})))
    table.upsert(rows({"a": 10, "b": 20, "d": 1}))
    assert rows_of_diff(table.diff(first, where="v < 2")) == {
        "a": ("update", 1, 10), "d": ("insert", None, 1),
    }  # fmt: skip
    assert rows_of_diff(table.diff(first, where="v > 10")) == {"b": ("update", 2, 20)}
    assert rows_of_diff(table.diff(first, where="v is null")) == {}
    later = table.diff(first, columns=["id"], where="v < 2")
    assert later.drop_columns(["partition_path"]).to_pylist() == [
        {"record_key": "d", "change": "insert", "before": None, "after": {"id": "d"}}
    ]
    written = table.diff(first, where=f"_hoodie_commit_time <= '{first}'")
    assert {"a", "b"} == set(rows_of_diff(written)), "by the meta columns of either side"


def test_a_diff_and_a_history_say_what_has_been_cleaned() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA, ordering=(), table_type=TableType.COPY_ON_WRITE)
    for number, time in enumerate((T1, T2, T3), 1):
        made.base(1, time, rows({"a": number}))
        made.commit(time, action="commit")
    made.fs.delete([f"{file_id(1)}_0-0-0_{T1}.parquet"])
    table = Table(made.fs, options=parse_options({}), engine=LocalEngine(1))
    lines = table.history("a").select(["instant", "change", "row"]).to_pylist()
    assert [(line["instant"], line["change"]) for line in lines] == [
        (T1, "gone"), (T2, "found"), (T3, "update"),
    ]  # fmt: skip
    assert [line["row"] and line["row"]["v"] for line in lines] == [None, 2, 3]
    assert rows_of_diff(table.diff(T2, T3)) == {"a": ("update", 2, 3)}


def test_a_key_that_never_was_has_no_history() -> None:
    table = new_table("cow")
    table.upsert(rows({"a": 1}))
    found = table.history("zz")
    assert found.num_rows == 0
    assert found.schema.field("row").type == pa.struct(list(SCHEMA))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [1.0, float("nan"), None, 0.5]),
        (pa.list_(pa.int64()), [[1, 2], [], None, [1, None], [2, 1]]),
        (pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())}),
         [{"x": 1, "y": ["a"]}, {"x": 1, "y": None}, None, {"x": None, "y": []}]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("a", 2)], [], None, [("b", 1)]]),
        (pa.list_(pa.list_(pa.string())), [[["a"], []], [["a"]], [], None, [["b"], []]]),
        (pa.binary(), [b"", b"a", None]),
        (pa.null(), [None]),
    ],
)  # fmt: skip
def test_values_differ_exactly_where_python_says_so(kind: pa.DataType, values: list[Any]) -> None:
    pairs = list(itertools.product(range(len(values)), repeat=2))
    left = pa.table({"v": pa.array([values[i] for i, _ in pairs], kind)})
    right = pa.table({"v": pa.array([values[j] for _, j in pairs], kind)})
    assert rows_differ(left, right).tolist() == [i != j for i, j in pairs]
    assert rows_differ(left.slice(1), right.slice(1)).tolist() == [i != j for i, j in pairs[1:]]
