"""Record keys of secondary values, from tables of Apache Hudi and from damaged ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi.metadata.secondary_index.definition import secondary_indexes
from pyhudi.metadata.secondary_index.lookup import record_keys_of
from tests.metadata.secondary_index.foreign import foreign_table
from tests.support.inside import state_of

TABLES = (
    "mor_avro_v8_trips_8i3u1d",
    "cow_v9_txns_nonpart_meta",
    "mor_avro_v9_txns_simple_meta",
    "indexed_cow_v9",
)


@pytest.mark.parametrize("name", TABLES)
def test_each_value_leads_to_the_keys_of_its_rows(name: str, tmp_path: Path) -> None:
    table = foreign_table(tmp_path, name)
    state = state_of(table)
    assert state.metadata is not None
    indexes = secondary_indexes(state.fs, state.config)
    assert indexes
    for index in indexes:
        rows = table.scan(["_hoodie_record_key", index.column]).to_arrow()
        values = rows.column(1).combine_chunks()
        for value in values.unique().drop_null():
            expected = pa.array([value], values.type)
            mine = {r[0] for r in zip(*map(pa.ChunkedArray.to_pylist, rows.columns), strict=True)
                    if r[1] == value.as_py()}  # fmt: skip
            assert set(record_keys_of(state.metadata, index, expected).to_pylist()) == mine
        every = record_keys_of(state.metadata, index, values)
        with_value = rows.filter(rows.column(1).is_valid()).column(0)
        assert sorted(every.to_pylist()) == sorted(with_value.to_pylist())


def test_stale_entries_of_apache_hudi_lead_to_keys_without_rows(tmp_path: Path) -> None:
    state = state_of(foreign_table(tmp_path, "indexed_mor_v9"))
    assert state.metadata is not None
    by_name = {index.name: index for index in secondary_indexes(state.fs, state.config)}
    # the delete of k2 by a log reached one index only
    n, name = by_name["secondary_index_by_n"], by_name["secondary_index_by_name"]
    assert record_keys_of(state.metadata, n, pa.array([6], pa.int32())).to_pylist() == ["k2"]
    assert record_keys_of(state.metadata, name, pa.array(["BOB$x"])).to_pylist() == []


def test_a_value_without_rows_has_no_keys(tmp_path: Path) -> None:
    state = state_of(foreign_table(tmp_path, TABLES[0]))
    assert state.metadata is not None
    (index,) = secondary_indexes(state.fs, state.config)
    assert index.part.value == "V1"  # the definition has no version
    for value in ("rider", "rider-J", "rider-F", "$", ""):  # rider-J and rider-F were deleted
        assert not len(record_keys_of(state.metadata, index, pa.array([value])))
