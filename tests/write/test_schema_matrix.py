"""Every pair of types: refused with the table untouched, or written and read back equal."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import SchemaError
from pyhudi.formats.schema_conform import conform
from pyhudi.options import SchemaMode
from pyhudi.records import META_COLUMNS
from pyhudi.write.input.schema_check import SchemaRules, fit_schema
from tests.write.schema_matrix import TYPES, VALUES, pairs, way


def rows(first: int, kind: str) -> pa.Table:
    values = VALUES[kind]
    ids = list(range(first, first + len(values)))
    parts = [["p", "q"][n % 2] for n in range(len(values))]
    return pa.table({"id": ids, "part": parts, "c": pa.array(values, TYPES[kind])})


def stored(table: pyhudi.Table) -> pa.Table:
    found = table.scan().to_arrow().sort_by("id")
    return found.drop_columns(list(META_COLUMNS)).combine_chunks()


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize(("old", "new"), list(pairs("widens", "narrower")))
def test_what_is_allowed_reads_back_equal(tmp_path, old: str, new: str, table_type: str) -> None:
    """Older files beside new ones, files rewritten, and logs behind older base files."""
    before, after = rows(0, old), rows(10, new)
    table = pyhudi.create_table(
        tmp_path, before.schema, record_key="id", partition_by="part", table_type=table_type,
        options={"hoodie.metadata.record.index.min.filegroup.count": "1"},
    )  # fmt: skip
    table.upsert(before)
    widened = way(TYPES[old], TYPES[new]) == "widens"
    try:
        table.upsert(after.slice(0, 1), schema_mode="widen")
    except SchemaError:  # a value that a floating-point column does not hold
        assert not widened
        return
    target = pa.schema([*before.schema][:2]).append(
        pa.field("c", TYPES[new] if widened else TYPES[old])
    )
    expected = pa.concat_tables([conform(t, target) for t in (before, after.slice(0, 1))])
    assert stored(table).equals(expected.combine_chunks())
    again = before.slice(0, 1)
    table.upsert(again)
    assert stored(table).equals(expected.combine_chunks())


@pytest.mark.parametrize(("old", "new"), list(pairs("refused")))
def test_what_is_refused_is_refused_by_every_mode(old: str, new: str) -> None:
    for mode in SchemaMode:
        with pytest.raises(SchemaError, match="~ c"):
            fit_schema(
                pa.schema([("c", TYPES[new])]), pa.schema([("c", TYPES[old])]), SchemaRules(mode)
            )


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize(("old", "new"), list(pairs("widens")))
def test_filters_find_widened_rows(tmp_path, old: str, new: str, table_type: str) -> None:
    """Statistics of older files are of the older type: none of their rows may be skipped."""
    table = pyhudi.create_table(
        tmp_path, rows(0, old).schema, record_key="id", partition_by="part", table_type=table_type,
        options={
            "hoodie.metadata.record.index.min.filegroup.count": "1",
            "hoodie.metadata.index.column.stats.enable": "true",
        },
    )  # fmt: skip
    table.upsert(rows(0, old))
    table.upsert(rows(10, new), schema_mode="widen")
    found = stored(table)
    for value in found["c"]:
        for filter_ in (pc.field("c") == value, pc.field("c") <= value, pc.field("c") >= value):
            retained = table.scan(["id"], filter_).to_arrow()["id"].to_pylist()
            assert sorted(retained) == found.filter(filter_)["id"].to_pylist()
