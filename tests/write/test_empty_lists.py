"""Lists of length 0 as Arrow in the JVM before release 15 sends them: without offsets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi

_NOTHING = pa.array([-5] * 4, pa.int32()).buffers()[1].slice(0, 0)
"""An empty buffer; what reads past it finds a negative number."""


def empty_list(kind: pa.DataType) -> pa.Array:
    """An array of length 0 whose buffer of offsets is empty."""
    if pa.types.is_map(kind):
        pairs = [pa.array([], kind.key_type), pa.array([], kind.item_type)]
        child: pa.Array = pa.StructArray.from_arrays(
            pairs, fields=[kind.key_field, kind.item_field]
        )
    else:
        child = pa.array([], kind.value_type)
    return pa.Array.from_buffers(kind, 0, [None, _NOTHING], children=[child])


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int32()), pa.list_(pa.string()), pa.map_(pa.string(), pa.int32())], ids=str
)
def test_nested_lists_without_offsets_are_empty(tmp_path: Path, kind: pa.DataType) -> None:
    inner = empty_list(kind)
    outer = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), inner)
    rows = pa.table({"id": ["a", "b"], "deep": outer})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", table_type="mor")
    table.upsert(rows)
    table.upsert(rows)
    assert table.scan(["id", "deep"]).to_arrow().to_pylist() == [
        {"id": "a", "deep": []},
        {"id": "b", "deep": []},
    ]
