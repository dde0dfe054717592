"""Key tables, sorting and the merge of log entries against plain dictionaries and loops."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyhudi._native.keys import Fold, KeyTable, argsort, fold, is_strictly_sorted, latest
from pyhudi.errors import UserError

# Few letters and shared starts, so that keys repeat, begin one another and share long prefixes.
narrow = st.text("ab\0", max_size=5)
shared = st.builds(lambda n, tail: "p" * n + tail, st.integers(0, 40), narrow)
key = (narrow | shared | st.text(max_size=30)).map(str.encode) | st.binary(max_size=20)
keys = st.lists(key, max_size=150)


def column(values: list[bytes]) -> pa.Array:
    return pa.array(values, pa.binary())


@given(keys, keys)
def test_find_and_first_equal_a_dictionary(built: list[bytes], probes: list[bytes]) -> None:
    table = KeyTable(column(built))
    last = {value: row for row, value in enumerate(built)}
    first = {value: row for row, value in reversed(list(enumerate(built)))}
    looked_up = probes + built
    assert len(table) == len(last)
    assert table.find(column(looked_up)).tolist() == [last.get(value, -1) for value in looked_up]
    assert table.first(column(looked_up)).tolist() == [first.get(value, -1) for value in looked_up]
    assert table.contains(column(looked_up)).tolist() == [value in last for value in looked_up]


@pytest.mark.parametrize("repeat", [1, 3])
def test_large_tables_of_any_offset_width(repeat: int) -> None:
    built = [f"id-{row:012d}" for row in range(50_000)] * repeat
    probes = [f"id-{row:012d}" for row in range(49_000, 51_000)]
    for built_type in (pa.string(), pa.large_binary()):
        table = KeyTable(pa.array(built, pa.string()).cast(built_type))
        found = table.find(pa.array(probes, pa.large_string()))
        last = 50_000 * (repeat - 1)
        assert found.tolist() == [last + 49_000 + row for row in range(1000)] + [-1] * 1000
        assert len(table) == 50_000


def test_sliced_and_chunked_columns_are_positions_in_themselves() -> None:
    whole = pa.chunked_array([["x", "a"], ["b", "c"]])
    assert KeyTable(whole.slice(1)).find(["c", "b", "a", "x"]).tolist() == [2, 1, 0, -1]


def test_null_probes_are_absent_even_when_an_empty_key_is_present() -> None:
    table = KeyTable(["", "a"])
    assert table.find(pa.array([None, "", "a"])).tolist() == [-1, 0, 1]
    assert table.contains(pa.array([None, ""])).tolist() == [False, True]


def test_empty_tables_and_empty_probes() -> None:
    assert KeyTable([]).find(["a", ""]).tolist() == [-1, -1]
    assert KeyTable(["a"]).find([]).tolist() == []
    assert len(KeyTable([])) == 0


def test_a_null_key_is_refused_with_its_row() -> None:
    nulls = pa.array(["a", "b", None])
    for call in (KeyTable, argsort, is_strictly_sorted, latest):
        with pytest.raises(UserError, match="row=2"):
            call(nulls)
    with pytest.raises(UserError, match="row=2"):
        fold(nulls, [0, 0, 0], None, None, True)


def test_a_table_cannot_be_made_without_its_keys() -> None:
    for call in (lambda: KeyTable.__new__(KeyTable), lambda: KeyTable(None), Fold):
        with pytest.raises(TypeError):
            call()


def test_threads_share_a_table() -> None:
    table = KeyTable([str(row) for row in range(20_000)] * 2)
    probes = pa.array([str(row) for row in range(0, 30_000, 3)])
    expected = table.find(probes)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: table.find(probes), range(16)):
            assert np.array_equal(found, expected)


@given(keys)
@example([b"a\0", b"a", b"a\0\0", b"", b"\0", b"a"])
@example([b"p" * 100 + bytes([n % 7]) for n in range(200)])
def test_argsort_is_a_stable_sort_of_bytes(values: list[bytes]) -> None:
    expected = sorted(range(len(values)), key=lambda row: values[row])
    assert argsort(column(values)).tolist() == expected


@pytest.mark.parametrize("shape", ["{:036d}", "{:x}", "user:{},name:x", "{:08b}same-long-end"])
def test_argsort_of_many_keys(shape: str) -> None:
    numbers = np.random.default_rng(7).integers(0, 1 << 24, 40_000)
    values = [shape.format(number) for number in numbers.tolist()]
    expected = sorted(range(len(values)), key=lambda row: values[row].encode())
    assert argsort(pa.array(values)).tolist() == expected


@given(keys)
def test_strictly_sorted_means_each_is_greater(values: list[bytes]) -> None:
    assert is_strictly_sorted(column(values)) == all(a < b for a, b in pairwise(values))
    assert is_strictly_sorted(column(sorted(set(values))))


@given(st.lists(st.tuples(narrow, st.integers(-2, 2)), max_size=150))
def test_latest_takes_the_largest_rank_and_then_the_later_row(rows: list[tuple[str, int]]) -> None:
    names = pa.array([name for name, _ in rows], pa.string())
    ranks = np.array([rank for _, rank in rows], dtype=np.int64)
    by_rank: dict[str, int] = {}
    by_row: dict[str, int] = {}
    for row, (name, rank) in enumerate(rows):
        if name not in by_rank or rank >= rows[by_rank[name]][1]:
            by_rank[name] = row
        by_row[name] = row
    assert latest(names, ranks).tolist() == list(by_rank.values())
    assert latest(names).tolist() == list(by_row.values())


def test_ranks_of_another_length_are_refused() -> None:
    with pytest.raises(UserError, match="rank"):
        latest(["a", "b"], [1])
    with pytest.raises(UserError, match="ranks"):
        fold(["a", "b"], [0, 0], [1], None, True)
    with pytest.raises(UserError, match="unknown kind"):
        fold(["a", "b"], [0, 3], None, None, True)


@dataclass
class State:
    """What a slice's log says of one key; `rank` None where no comparison is possible."""

    winner: int = -1
    rank: int | None = None
    reset: bool = False


Entry = tuple[str, int, int | None]


def model_fold(entries: list[Entry], event_time: bool) -> dict[str, State]:
    states: dict[str, State] = {}
    for row, (name, kind, rank) in enumerate(entries):
        state = states.setdefault(name, State())
        older = None not in (rank, state.rank) and rank < state.rank  # type: ignore[operator]
        if event_time and kind == 2:
            states[name] = State(-1, None, True)
        elif not (event_time and older):
            states[name] = State(row if kind == 0 else -1, rank, state.reset or kind == 2)
    return states


def model_merge(
    states: dict[str, State], base: list[tuple[str, int | None]], event_time: bool
) -> tuple[list[bool], list[int]]:
    staying = set()
    for name, rank in base:
        state = states.get(name)
        if not event_time or state is None or state.reset or None in (rank, state.rank):
            continue
        if rank > state.rank:  # type: ignore[operator]
            staying.add(name)
    keep = [name not in states or name in staying for name, _ in base]
    take = [s.winner for name, s in states.items() if s.winner >= 0 and name not in staying]
    return keep, take


names = st.sampled_from("abcdefgh")
ranks = st.none() | st.integers(-2, 3)


@settings(max_examples=400)
@given(
    st.lists(st.tuples(names, st.sampled_from([0, 0, 1, 2]), ranks), max_size=60),
    st.lists(st.tuples(names | st.just("z"), ranks), max_size=20),
    st.booleans(),
)
def test_fold_and_merge_equal_the_model(
    entries: list[Entry], base: list[tuple[str, int | None]], event_time: bool
) -> None:
    folded = fold(
        pa.array([name for name, _, _ in entries], pa.string()),
        np.array([kind for _, kind, _ in entries], dtype=np.uint8),
        np.array([rank or 0 for _, _, rank in entries], dtype=np.int64),
        np.array([rank is not None for _, _, rank in entries], dtype=np.bool_),
        event_time,
    )
    states = model_fold(entries, event_time)
    order = [name for name, _, _ in entries]
    assert folded.keys_position.tolist() == [order.index(name) for name in states]
    assert folded.winner.tolist() == [state.winner for state in states.values()]
    assert folded.reset.tolist() == [state.reset for state in states.values()]
    assert folded.comparable.tolist() == [s.rank is not None for s in states.values()]
    assert folded.rank.tolist() == [state.rank or 0 for state in states.values()]
    keep, take = folded.against_base(
        pa.array([name for name, _ in base], pa.string()),
        np.array([rank or 0 for _, rank in base], dtype=np.int64),
        np.array([rank is not None for _, rank in base], dtype=np.bool_),
    )
    assert keep.dtype == np.bool_
    assert (keep.tolist(), take.tolist()) == model_merge(states, base, event_time)


DATA, ORDERED, NATURAL = 0, 1, 2


@pytest.mark.parametrize(
    ("entries", "survives"),
    [
        ([(DATA, 5), (ORDERED, 7), (DATA, 6)], False),  # an older row does not revive a delete
        ([(DATA, 5), (ORDERED, 7), (DATA, 7)], True),  # a row as new as the delete does
        ([(DATA, 5), (ORDERED, 4)], True),  # an older delete deletes nothing
        ([(DATA, 5), (NATURAL, 0)], False),
        ([(DATA, 5), (NATURAL, 0), (DATA, 1)], True),  # behind it any row is an insert
    ],
)
def test_event_time_as_apache_hudi_reads_it(entries: list[tuple[int, int]], survives: bool) -> None:
    folded = fold(
        ["k"] * len(entries), [k for k, _ in entries], [r for _, r in entries], None, True
    )
    assert (folded.winner[0] >= 0) == survives


def test_a_newer_base_row_stays_unless_the_log_reset_the_key() -> None:
    plain = fold(["k"], [DATA], [5], None, True)
    assert [part.tolist() for part in plain.against_base(["k"], [6])] == [[True], []]
    assert [part.tolist() for part in plain.against_base(["k"], [5])] == [[False], [0]]
    assert [part.tolist() for part in plain.against_base(["k"])] == [[False], [0]]
    reset = fold(["k", "k"], [NATURAL, DATA], [0, 5], None, True)
    assert [part.tolist() for part in reset.against_base(["k"], [6])] == [[False], [1]]


def test_commit_time_lets_the_log_win_whatever_the_ranks() -> None:
    folded = fold(["k", "j"], [DATA, ORDERED], [1, 1], None, False)
    keep, take = folded.against_base(["k", "j", "i"], [9, 9, 9])
    assert (keep.tolist(), take.tolist()) == ([False, False, True], [0])


def test_merging_with_no_log_or_no_base() -> None:
    nothing = fold([], [], [], [], True)
    keep, take = nothing.against_base(["a", "b"], [1, 2])
    assert (keep.tolist(), take.tolist()) == ([True, True], [])
    keep, take = fold(["a"], [DATA], [1], None, True).against_base([], [])
    assert (keep.tolist(), take.tolist()) == ([], [0])
