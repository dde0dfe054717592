"""Keys of secondary indexes: escaping, text of values, file groups; compared with real files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError
from pyhudi.metadata.secondary_index.key_format import (
    HashedPart,
    entry_keys,
    groups_of,
    is_indexable,
    possible_texts,
    split_keys,
    value_texts,
)
from tests.metadata.secondary_index.foreign import INDEXES, foreign_entries


def keys_of(values: list[str | None], keys: list[str]) -> list[str]:
    return entry_keys(pa.array(values, pa.string()), pa.array(keys, pa.string())).to_pylist()


def test_special_characters_are_escaped_and_null_is_the_nul_character() -> None:
    assert keys_of(["a$b\\c", None, "\0", ""], ["k$", "k", "\\", "\0"]) == [
        "a\\$b\\\\c$k\\$", "\0$k", "\\\0$\\\\", "$\\\0",
    ]  # fmt: skip


TEXT = st.text(alphabet=st.sampled_from("ab$\\\0\n\u00e9\U0001f600"), max_size=6)


@given(st.lists(st.tuples(st.one_of(st.none(), TEXT), TEXT), max_size=8))
def test_keys_are_split_into_what_they_were_made_of(rows: list[tuple[str | None, str]]) -> None:
    values = pa.array([value for value, _ in rows], pa.string())
    keys = pa.array([key for _, key in rows], pa.string())
    found = split_keys(entry_keys(values, keys).cast(pa.binary()), path="x")
    assert found[0].to_pylist() == values.to_pylist()
    assert found[1].to_pylist() == keys.to_pylist()


@pytest.mark.parametrize("key", ["", "abc", "a\\$b"])
def test_a_key_without_separator_is_rejected(key: str) -> None:
    with pytest.raises(CorruptFileError):
        split_keys(pa.array([key]), path="x")


def test_values_are_stored_as_apache_hudi_prints_them() -> None:
    day = pa.array([dt.date(2024, 1, 20), None])
    assert value_texts(day).to_pylist() == ["19742", None]
    at = pa.array([dt.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("ms"))
    assert value_texts(at).to_pylist() == ["1000000"]
    assert value_texts(pa.array([-7], pa.int16())).to_pylist() == ["-7"]
    assert value_texts(pa.array(["b", "a", "b"]).dictionary_encode()).to_pylist() == ["b", "a", "b"]


def test_older_indexes_may_hold_another_text_of_a_date() -> None:
    day = pa.array([dt.date(2024, 1, 20)])
    assert possible_texts(day, HashedPart.VALUE).to_pylist() == ["19742"]
    assert possible_texts(day, HashedPart.WHOLE_KEY).to_pylist() == ["19742", "2024-01-20"]


def test_types_without_one_exact_text_cannot_be_indexed() -> None:
    assert all(map(is_indexable, (pa.string(), pa.int64(), pa.date32(), pa.timestamp("us"))))
    others = (pa.float64(), pa.bool_(), pa.decimal128(9, 2), pa.binary(), pa.list_(pa.int8()))
    assert not any(map(is_indexable, others))


@pytest.mark.parametrize("table, index", INDEXES)
def test_keys_of_apache_hudi_are_in_the_group_of_their_hash(
    table: str, index: str, tmp_path: Path
) -> None:
    entries = foreign_entries(tmp_path, table, index)
    part = HashedPart.WHOLE_KEY if "_v8_" in table else HashedPart.VALUE
    keys = pa.array([key for _, key in entries.keys], pa.string())
    assert len(keys) > 5
    homes = groups_of(keys, entries.group_count, part).tolist()
    assert homes == [group for group, _ in entries.keys]


@pytest.mark.parametrize("table, index", INDEXES)
def test_keys_of_apache_hudi_are_made_of_the_rows(table: str, index: str, tmp_path: Path) -> None:
    entries = foreign_entries(tmp_path, table, index)
    column = {"rider_idx": "rider", "merchant_idx": "merchant_name", "txn_date_idx": "txn_date"}
    rows = entries.table.scan(["_hoodie_record_key", column[index]]).to_arrow().combine_chunks()
    made = entry_keys(value_texts(rows.column(1).combine_chunks()), rows.column(0).combine_chunks())
    assert sorted(made.to_pylist()) == sorted(key for _, key in entries.keys)
