"""Rows that Spark reads are those of the local engine, with and without its own reader.

Random batches under every merge rule, columns that are added and widened between them, and every
kind of query; logs are read both by Spark's reader (property `minBytes` 0) and in Python.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import PyhudiError
from pyhudi.spark.merged_logs import BYTES_MAX
from pyhudi.spark.parquet_reader import Reader
from pyhudi.spark.scan import BYTES_MIN
from tests.properties.test_merge_rules import small_rows
from tests.spark.test_native import plain
from tests.spark.test_native_logs import sorted_rows
from tests.support.merge_model import RULES, SCHEMA, VERSION_9

NEWER = sorted(RULES.keys() - {"debezium mysql"})
"""Rules of version 9: of the rule left out, that version has other ordering columns."""

WHERES = (
    None, None, "price > 1", "name = 'x' or price is null", "ts >= 3", "extra < 5", "not ts = 2",
    "id in ('a', 'b', 'f')", "upper(name) = 'X'", "addr is null",
)  # fmt: skip
COLUMNS = (None, None, ["id"], ["price", "id"], ["extra", "name"], ["_hoodie_commit_time", "tags"])
WAYS = (("0", "0"), ("0", str(1 << 30)), ("0", str(1 << 30)), (str(1 << 40), "0"))
"""`minBytes` and `maxBytes`: logs merged by each query, merged once (for a scan of few columns or
rows the second time), and read in Python."""

BATCH = st.lists(small_rows(), min_size=1, max_size=6)
STEPS = st.lists(
    st.tuples(st.just("upsert"), BATCH)
    | st.tuples(st.sampled_from(["add", "widen"]), BATCH)
    | st.tuples(st.just("delete"), st.lists(st.sampled_from("abcdef"), min_size=1, max_size=2)),
    min_size=1,
    max_size=4,
)
QUERIES = st.tuples(
    st.sampled_from(["scan", "scan", "as_of", "read_optimized", "changes"]),
    st.sampled_from(COLUMNS),
    st.sampled_from(WHERES),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
)


@pytest.fixture(autouse=True)
def restored(spark: Any) -> Iterator[None]:
    yield
    spark.conf.unset(BYTES_MIN)
    spark.conf.unset(BYTES_MAX)


def written(path: Path, draw: st.DataObject, rule: Any, version: int) -> pyhudi.Table:
    """A table of random steps.  Steps that the rules of the table refuse are left out."""
    log_format = draw.draw(st.sampled_from(["parquet", "avro"]), "log format")
    options = {**rule.table_options, "hoodie.logfile.data.block.format": log_format}
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", ordering=rule.ordering or None, index="bloom",
        table_type=draw.draw(st.sampled_from(["mor", "mor", "cow"]), "type"), options=options,
        merge=rule.function, version=version,
    )  # fmt: skip
    table.upsert(pa.Table.from_pylist(draw.draw(BATCH, "first"), SCHEMA))
    extra: pa.DataType | None = None
    for kind, content in draw.draw(STEPS, "steps"):
        if kind == "delete":
            table.delete(keys=content)
            continue
        added = {"add": extra or pa.int32(), "widen": pa.int64() if extra else None}.get(
            kind, extra
        )
        rows = pa.Table.from_pylist(content, SCHEMA)
        if added is not None:
            numbers = pa.array([n if n % 3 else None for n in range(rows.num_rows)], added)
            rows = rows.append_column("extra", numbers)
        mode = {"add": "add", "widen": "widen"}.get(kind) if added != extra else None
        try:
            table.upsert(rows, schema_mode=mode)
        except PyhudiError:
            continue
        extra = added
    return table


def query(
    table: Any, kind: str, scan: dict[str, Any], bounds: tuple[int, int], at: list[str]
) -> Any:
    """The frame, or the scan of the local engine.  A table without commits, whose writes were
    all deletes of keys that it lacks, has no instant to travel to."""
    if kind == "as_of" and len(at) > 1:
        return table.scan(**scan, as_of=at[1 + bounds[0] % (len(at) - 1)])
    if kind == "changes":
        low, high = sorted(bound % len(at) for bound in bounds)
        return table.changes(at[low], at[high], **scan)
    return table.scan(**scan, mode="read_optimized" if kind == "read_optimized" else "snapshot")


def check(spark: Any, draw: st.DataObject, rule: Any, version: int, *, queries: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        written(path, draw, rule, version)
        local = pyhudi.open_table(path, merge=rule.function)
        mine = hudi.open_table(spark, path, merge=rule.function)
        names = local.schema.names
        commits = list(local.timeline.commits)
        at = [
            "000",
            *(str(i.completed_at or i.time) if version > 6 else str(i.time) for i in commits),
        ]
        for _ in range(queries):
            kind, columns, where, bounds = draw.draw(QUERIES, "query")
            if "extra" not in names and ("extra" in (columns or ()) or "extra" in (where or "")):
                continue
            scan = {"columns": columns, "where": where}
            compare(spark, (local, mine), kind, scan, bounds, at)


def compare(
    spark: Any,
    tables: tuple[Any, Any],
    kind: str,
    scan: dict[str, Any],
    bounds: tuple[int, int],
    at: list[str],
) -> None:
    local, mine = tables
    try:
        expected = query(local, kind, scan, bounds, at).to_arrow()
    except PyhudiError as refused:
        with pytest.raises(type(refused)):
            query(mine, kind, scan, bounds, at).collect()
        return
    rows = sorted_rows(row.values() for row in expected.to_pylist())
    for bytes_min, bytes_max in WAYS:
        spark.conf.set(BYTES_MIN, bytes_min)
        spark.conf.set(BYTES_MAX, bytes_max)
        frame = query(mine, kind, scan, bounds, at)
        assert frame.columns == expected.schema.names
        assert sorted_rows(map(plain, tuple(row)) for row in frame.collect()) == rows


PROPERTY = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@given(draw=st.data(), name=st.sampled_from(sorted(RULES)))
@settings(PROPERTY, max_examples=2)
def test_both_readers_give_the_rows_of_the_local_engine(
    spark: Any, draw: st.DataObject, name: str
) -> None:
    check(spark, draw, RULES[name], 6, queries=2)


@given(draw=st.data(), name=st.sampled_from(NEWER))
@settings(PROPERTY, max_examples=2)
def test_both_readers_agree_on_tables_of_version_9(
    spark: Any, draw: st.DataObject, name: str
) -> None:
    check(spark, draw, VERSION_9.get(name, RULES[name]), 9, queries=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "name"), [*((6, name) for name in sorted(RULES)), *((9, name) for name in NEWER)]
)
@given(draw=st.data())
@settings(PROPERTY, max_examples=30)
def test_both_readers_give_the_rows_of_the_local_engine_long(
    spark: Any, draw: st.DataObject, version: int, name: str
) -> None:
    rule = VERSION_9.get(name, RULES[name]) if version == 9 else RULES[name]
    check(spark, draw, rule, version, queries=4)


def test_logs_are_read_by_both_readers_here(spark: Any, tmp_path: Path) -> None:
    rule = RULES["later wins"]
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", table_type="mor", index="bloom",
        options=rule.table_options, ordering="ts",
    )  # fmt: skip
    row = {"id": "a", "ts": 1, "price": 1.0}
    table.upsert(pa.Table.from_pylist([row], SCHEMA))
    table.upsert(pa.Table.from_pylist([{**row, "ts": 2}], SCHEMA))
    for bytes_min, reader in (("0", Reader.SPARK_AND_LOGS), (str(1 << 40), Reader.PYHUDI)):
        spark.conf.set(BYTES_MIN, bytes_min)
        plan = hudi.open_table(spark, tmp_path / "t").explain()
        assert [chosen.reader for chosen in plan.readers] == [reader]
