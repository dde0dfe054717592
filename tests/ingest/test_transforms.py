"""Transforms of a batch: SQL, flattening, functions and chains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import OptionError, UserError
from pyhudi.ingest.streamer.classes import transforms_of
from pyhudi.ingest.transforms import Flatten, SqlTransform

ROWS = pa.table({"id": ["a", "b", "c"], "fare": [1.0, 2.0, 3.0]})


def doubled(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield batch.set_column(1, "fare", pc.multiply(batch["fare"], 2.0))

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def through(transform: Any, rows: pa.Table) -> list[dict[str, Any]]:
    return transform(rows.to_reader()).read_all().to_pylist()


def test_sql_reads_the_batch() -> None:
    query = SqlTransform("SELECT id, CAST(fare * 2 AS BIGINT) AS n FROM <SRC> WHERE fare > 1")
    assert through(query, ROWS) == [{"id": "b", "n": 4}, {"id": "c", "n": 6}]


def test_rows_stream_through_sql() -> None:
    """The first result is there before the source has ended."""
    read: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(200):
            read.append(number)
            yield pa.RecordBatch.from_pydict({"n": list(range(10_000))})

    schema = pa.schema({"n": pa.int64()})
    result = SqlTransform("SELECT n + 1 AS n FROM <SRC>")(
        pa.RecordBatchReader.from_batches(schema, batches())
    )
    assert result.read_next_batch().num_rows
    assert len(read) < 150


def test_sql_reaches_nothing_but_the_batch(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "secret.parquet")
    secret = ROWS  # a variable of the program that a query could name
    assert secret is not None
    for query in (
        f"SELECT * FROM <SRC>, '{tmp_path}/secret.parquet'",
        f"SELECT * FROM <SRC>, read_csv('{tmp_path}/secret.parquet')",
        "SELECT * FROM <SRC>, secret",
        f"COPY (SELECT * FROM <SRC>) TO '{tmp_path}/out.parquet'",
        "SET enable_external_access = true; SELECT * FROM <SRC>",
        "INSTALL httpfs; SELECT * FROM <SRC>",
    ):
        with pytest.raises(UserError, match="the query failed"):
            through(SqlTransform(query), ROWS)
    assert not (tmp_path / "out.parquet").exists()


def test_a_query_without_the_batch_is_an_error() -> None:
    with pytest.raises(OptionError, match="does not read the batch"):
        SqlTransform("SELECT 1")


def test_structs_are_flattened_at_any_depth() -> None:
    inner = pa.struct([("b", pa.struct([("c", pa.int64())])), ("d", pa.list_(pa.int64()))])
    rows = pa.table({"id": ["x", "y"], "a": pa.array([{"b": {"c": 1}, "d": [1]}, None], inner)})
    assert through(Flatten(), rows) == [
        {"id": "x", "a_b_c": 1, "a_d": [1]},
        {"id": "y", "a_b_c": None, "a_d": None},
    ]


def test_flattened_columns_with_one_name_are_an_error() -> None:
    rows = pa.table({"a_b": [1], "a": pa.array([{"b": 2}])})
    with pytest.raises(UserError, match="a_b"):
        Flatten()(rows.to_reader())


def test_transformers_of_apache_hudi_apply_in_order(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text("SELECT *, 'x' AS tag FROM <SRC>;\n")
    package = "org.apache.hudi.utilities.transform."
    classes = f"{package}SqlFileBasedTransformer,{__name__}:doubled,{package}AWSDmsTransformer"
    chain = transforms_of(classes, {"transformer.sql.file": str(tmp_path / "query.sql")})
    reader = ROWS.slice(0, 1).to_reader()
    for transform in chain:
        reader = transform(reader)
    assert reader.read_all().to_pylist() == [{"id": "a", "fare": 2.0, "tag": "x", "Op": ""}]


@pytest.mark.parametrize("name", ["org.example.Mine", "nowhere:function", f"{__name__}:ROWS"])
def test_an_unknown_transform_is_an_error(name: str) -> None:
    with pytest.raises(OptionError, match="transform"):
        transforms_of(name, {})


def test_a_transformer_names_the_property_that_it_needs() -> None:
    with pytest.raises(OptionError, match=r"hoodie\.streamer\.transformer\.sql"):
        transforms_of("SqlQueryBasedTransformer", {})
