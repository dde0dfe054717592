"""Tables that other writers made, against the rows Apache Hudi 1.2.0 reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.formats.logical_types import with_logical_types
from pyhudi.formats.schema_conform import fit
from tests.support.foreign import expected_rows, foreign_table, row_counts


def test_a_timestamp_partition_column_has_the_value_of_the_path(tmp_path: Path) -> None:
    """Spark SQL writes date and time into the path, the stored value has milliseconds too."""
    table = pyhudi.open_table(foreign_table("timestamp_partition_v8", tmp_path))
    assert row_counts(table.scan().to_arrow()) == row_counts(expected_rows(tmp_path))
    exact = pc.field("part_timestamp") == datetime(2024, 1, 5, 18, tzinfo=UTC)
    assert table.scan(where=exact).to_arrow()["id"].to_pylist() == [5]
    assert table.scan(where=exact).plan.partitions_read == 1


@pytest.mark.parametrize(("name", "rows"), [("mor_v3", 99), ("mor_v4", 8), ("mor_v5", 8)])
def test_tables_of_older_versions_are_read(name: str, rows: int, tmp_path: Path) -> None:
    table = pyhudi.open_table(foreign_table(name, tmp_path))
    found = table.scan().to_arrow()
    assert found.num_rows == rows
    names = [n for n in found.column_names if n != "_hoodie_file_name"]
    assert row_counts(found, names) == row_counts(expected_rows(tmp_path), names)
    commits = [i.time for i in table.timeline.commits]
    assert table.changes("000").to_arrow().num_rows == rows
    assert 0 < table.changes(commits[-2]).to_arrow().num_rows <= rows
    assert table.scan(as_of=commits[-1]).to_arrow().num_rows == rows
    assert 0 < table.scan(as_of=commits[0]).to_arrow().num_rows <= rows
    assert table.scan(mode="read_optimized").to_arrow().num_rows > 0


def test_a_table_of_an_older_version_is_not_written(tmp_path: Path) -> None:
    """Writes and services are refused and change nothing; the lock file alone may come."""
    root = foreign_table("mor_v5", tmp_path)
    table = pyhudi.open_table(root, options={"hoodie.index.type": "SIMPLE"})
    rows = table.scan(with_meta=False).to_arrow()

    def content() -> dict[str, bytes]:
        files = (path for path in root.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files if "lock" not in path.name}

    before = content()
    attempts: list[Callable[[], object]] = [
        lambda: table.upsert(rows),
        lambda: table.delete(keys=["id1"]),
        table.compact,
        table.clean,
        table.archive,
        table.cluster,
        table.savepoint,
        lambda: table.rollback(table.timeline.commits.instants[-1].time),
        table.metadata.rebuild,
        table.index.rebuild,
    ]
    for attempt in attempts:
        with pytest.raises(pyhudi.UnsupportedTableError, match="version 5"):
            attempt()
        assert content() == before


def test_vector_columns_are_lists_of_numbers(tmp_path: Path) -> None:
    """Three vectors of 128 numbers, as floats, doubles and bytes."""
    table = pyhudi.open_table(foreign_table("vector_cow_v9", tmp_path))
    found = table.scan(with_meta=False).to_arrow().sort_by("id")
    for name, kind in (("1", pa.float32()), ("2", pa.float64()), ("3", pa.int8())):
        column = found.column(f"embedding{name}")
        assert column.type == pa.list_(pa.field("element", kind))
        assert set(column.combine_chunks().value_lengths().to_pylist()) == {128}
    numbers = pa.scalar(0.1, pa.float32()).as_py()
    assert found["embedding1"][0].as_py() == [numbers] * 128
    assert found["embedding2"][0].as_py() == [0.2] * 128
    assert found["embedding3"][0].as_py() == [3] * 128
    assert table.scan(where=pc.field("id") == 2).to_arrow()["embedding2"].to_pylist() == [
        found["embedding2"][1].as_py()
    ]
    assert table.changes("000").to_arrow().schema.field("embedding1").type == pa.list_(
        pa.field("element", pa.float32())
    )


def test_vectors_may_be_null_and_sliced() -> None:
    stored = pa.array([b"\x01\x02", None, b"\x03\x04"], pa.binary(2)).slice(1)
    fitted = fit(pa.chunked_array([stored]), pa.list_(pa.field("element", pa.int8())), name="v")
    assert fitted.to_pylist() == [None, [3, 4]]
    empty = pa.chunked_array([stored.slice(2)])
    assert fit(empty, pa.list_(pa.float16()), name="v").to_pylist() == []
    for kind in (pa.float32(), pa.string()):
        with pytest.raises(pyhudi.SchemaError, match="do not fit"):
            fit(pa.chunked_array([stored]), pa.list_(kind), name="v")


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        (
            {"type": "record", "name": "b", "fields": [], "logicalType": "blob"},
            pyhudi.UnsupportedTableError,
        ),
        ({"elementType": "INT4"}, pyhudi.UnsupportedTableError),
        ({"storageBacking": "LIST"}, pyhudi.UnsupportedTableError),
        ({"dimension": 3}, pyhudi.CorruptFileError),
        ({"dimension": None}, pyhudi.CorruptFileError),
    ],
)
def test_blobs_and_other_vectors_are_refused(
    declared: dict[str, object], error: type[pyhudi.PyhudiError]
) -> None:
    vector = {
        "type": "fixed", "name": "v", "size": 8, "logicalType": "vector", "dimension": 2,
        "elementType": "FLOAT", "storageBacking": "FIXED_BYTES",
    }  # fmt: skip
    columns = pa.schema([pa.field("v", pa.binary(8))])
    text = _record_of(vector)
    assert with_logical_types(columns, text).field("v").type == pa.list_(
        pa.field("element", pa.float32())
    )
    text = _record_of(vector | declared)
    with pytest.raises(error):
        with_logical_types(columns, text)


def _record_of(declared: dict[str, object]) -> str:
    field = {"name": "v", "type": ["null", declared]}
    return json.dumps({"type": "record", "name": "t", "fields": [field]})


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_tables_of_1_2_1_are_read_and_written_once_the_metadata_is_rebuilt(
    kind: str, tmp_path: Path
) -> None:
    """Its Java client lists column statistics without an index definition, which writers need."""
    root = foreign_table(f"java_{kind}_v9", tmp_path)
    properties = (root / ".hoodie" / "hoodie.properties").read_text("utf-8")
    assert "hudi_version=1.2.1" in properties
    table = pyhudi.open_table(root, options={"hoodie.index.type": "BLOOM"})
    expected = {f"k{n}": 1.0 if n < 50 else 2.0 for n in range(10, 120)}
    assert fares(table) == expected
    assert table.count(where="fare > 1.5 and city = 'a'") == 35
    commits = [i.time for i in table.timeline.commits]
    assert [table.scan(as_of=time).count() for time in commits] == [100, 120, 110]
    row = {"id": "k20", "city": "a", "ts": 9, "fare": 9.0}
    with pytest.raises(pyhudi.CorruptFileError, match=r"index definitions.*metadata\.rebuild"):
        table.upsert(pa.Table.from_pylist([row]))
    table.metadata.rebuild()
    report = table.upsert(pa.Table.from_pylist([row, row | {"id": "k500"}]))
    assert (report.inserted, report.updated) == (1, 1)
    assert fares(table) == expected | {"k20": 9.0, "k500": 9.0}
    assert not table.metadata.verify().findings


def fares(table: pyhudi.Table) -> dict[str, float]:
    rows = table.scan(columns=["id", "fare"]).to_arrow()
    assert len(set(rows["id"].to_pylist())) == rows.num_rows
    return dict(zip(rows["id"].to_pylist(), rows["fare"].to_pylist(), strict=True))
