"""`format("pyhudi")` by the calls PySpark makes: options, modes, plans, errors; no JVM."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import datasource

import pyhudi
from pyhudi.errors import OptionError, SchemaError, TableNotFoundError, UserError
from pyhudi.spark.source.partition_reads import read_slices
from pyhudi.spark.types import to_spark
from pyhudi.storage.spill import AGE_DAYS_MAX, sweep_staging
from tests.spark import source
from tests.support.inside import fs_of

sql: Any = datasource


def some_rows(*keys: str, ts: int = 1) -> pa.Table:
    return pa.table(
        {
            "id": list(keys),
            "ts": [ts] * len(keys),
            "part": ["ab"[int(key[1:]) % 2] for key in keys],
            "fare": [float(key[1:]) for key in keys],
        }
    )


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """k1 to k6 in two commits; k3 and k4 written by both."""
    path = tmp_path / "t"
    kind = {"hoodie__datasource__write__table__type": request.param}
    source.save(path, some_rows("k1", "k2", "k3", "k4"), "overwrite", **kind)
    source.save(path, some_rows("k3", "k4", "k5", "k6", ts=2), **kind)
    return path


def keys(rows: list[dict[str, Any]]) -> str:
    return " ".join(sorted(row["id"] for row in rows))


def leftovers(path: Path) -> list[Path]:
    return list((path / ".hoodie" / ".temp").glob("*"))


def test_rows_come_back_meta_columns_first(table: Path) -> None:
    rows = source.load(table)
    assert keys(rows) == "k1 k2 k3 k4 k5 k6"
    assert list(rows[0])[:5] == pyhudi.open_table(table).schema.names[:5]
    assert list(source.load(table, columns="fare, id")[0]) == ["fare", "id"]
    assert list(source.load(table, columns='["id"]')[0]) == ["id"]
    assert not leftovers(table)


def test_query_types(table: Path) -> None:
    first, second = (i.time for i in pyhudi.open_table(table).timeline.commits)
    incremental = {"hoodie__datasource__query__type": "incremental"}
    begin, end = (
        "hoodie__datasource__read__begin__instanttime",
        ("hoodie__datasource__read__end__instanttime"),
    )
    assert keys(source.load(table, **incremental, **{begin: first})) == "k3 k4 k5 k6"
    assert keys(source.load(table, **incremental, **{begin: "000", end: first})) == "k1 k2 k3 k4"
    day = f"{first[:4]}-{first[4:6]}-{first[6:8]}"
    exact = f"{day} {first[8:10]}:{first[10:12]}:{first[12:14]}.{first[14:]}"
    for form in (first, exact):
        assert keys(source.load(table, as__of__instant=form)) == "k1 k2 k3 k4"
    assert source.load(table, as__of__instant="2001-01-01") == []  # as in Apache Hudi
    optimized = source.load(table, hoodie__datasource__query__type="read_optimized")
    assert {row["ts"] for row in optimized if row["id"] in ("k3", "k4")} <= {1, 2}
    assert source.load(table, **incremental, **{begin: second}) == []


@pytest.mark.parametrize("has_schema", [True, False])
def test_a_range_that_ends_before_it_begins_is_an_error(table: Path, has_schema: bool) -> None:
    """The same as `table.changes` raises, whether Spark asks for the schema or is given one."""
    first, second = (i.time for i in pyhudi.open_table(table).timeline.commits)
    schema = to_spark(pyhudi.open_table(table).schema)
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": second,
        "hoodie.datasource.read.end.instanttime": first,
    }
    with pytest.raises(UserError, match="ends before it begins") as there:
        if has_schema:
            source.source(table, options).reader(schema).partitions()
        else:
            source.source(table, options).schema()
    with pytest.raises(UserError, match="ends before it begins") as here:
        pyhudi.open_table(table).changes(second, first)
    assert (there.value.what, there.value.facts) == (here.value.what, here.value.facts)


def test_a_time_before_the_first_commit_gives_no_rows_as_in_apache_hudi(
    spark: Any, table: Path
) -> None:
    frame = spark.read.format("pyhudi").option("as.of.instant", "2001-01-01").load(str(table))
    assert frame.count() == 0
    with pytest.raises(UserError, match="no commit at or before"):
        pyhudi.open_table(table).scan(as_of="2001-01-01").count()


@pytest.mark.parametrize(
    "options, what",
    [
        ({"hoodie__datasource__query__type": "incremental"}, "requires a begin"),
        ({"hoodie__datasource__query__type": "snap"}, "invalid option value"),
        ({"hoodie__datasource__read__begin__instanttime": "000"}, "have bounds"),
        ({"column": "id"}, "did you mean columns"),
        ({"columns": "nothing"}, "no such column"),
        ({"columns": "[1"}, "invalid option value"),
        ({"maxPartitionBytes": "none"}, "invalid option value"),
        ({"hoodie__metadata__enabel": "true"}, "did you mean hoodie.metadata.enable"),
        ({"as__of__instant": "yesterday"}, "not a point in time"),
    ],
)
def test_invalid_reads_are_refused(table: Path, options: dict[str, str], what: str) -> None:
    with pytest.raises(UserError, match=what):
        source.load(table, **options)


def test_a_missing_table_is_reported_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        source.source(tmp_path / "nothing").schema()
    with pytest.raises(TableNotFoundError, match="delete from"):
        source.writer(
            tmp_path / "nothing",
            pa.schema([("id", pa.string())]),
            hoodie__datasource__write__operation="delete",
        )
    assert not (tmp_path / "nothing").exists()


def test_a_frame_keeps_its_snapshot(table: Path) -> None:
    """Whether it runs before or after the table goes on."""
    kind = pyhudi.open_table(table).config.table_type.value
    one = source.reader(table)
    begin = {"hoodie__datasource__read__begin__instanttime": "000"}
    changes = source.reader(table, hoodie__datasource__query__type="incremental", **begin)
    source.save(table, some_rows("k1", "k7", ts=9), hoodie__datasource__write__table__type=kind)
    for mine, left in ((one, 6), (changes, 6)):
        rows = [row for p in mine.partitions() for b in mine.read(p) for row in b.to_pylist()]
        assert len(rows) == left and max(row["ts"] for row in rows) <= 2


def test_a_narrower_schema_reads_those_columns(table: Path) -> None:
    from pyspark.sql.types import LongType, StringType, StructType

    found = source.source(table)
    narrow = found.reader(StructType().add("fare", "double").add("id", StringType()))
    rows = [row for p in narrow.partitions() for b in narrow.read(p) for row in b.to_pylist()]
    assert list(rows[0]) == ["fare", "id"] and len(rows) == 6
    with pytest.raises(SchemaError, match="fare: bigint, the table has double"):
        found.reader(StructType().add("fare", LongType())).partitions()


def test_a_large_read_names_the_faster_way_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, blocks in (("small", 1), ("large", 17)):
        rows = pa.table({"id": [f"k{n}" for n in range(blocks)],
                         "bytes": [os.urandom(4 << 20) for _ in range(blocks)]})  # fmt: skip
        made = pyhudi.create_table(tmp_path / name, rows.schema, record_key="id")
        made.bulk_insert(rows)
        source.reader(tmp_path / name).partitions()
        source.reader(tmp_path / name).partitions()
    (warning,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert str(tmp_path / "large") in warning.getMessage()
    assert "pyhudi.spark.enable(spark)" in warning.getMessage()


def test_partitions_are_of_bounded_size(tmp_path: Path) -> None:
    """A large file is read by row groups, small ones together."""
    count = 600_000
    rows = pa.table(
        {
            "id": pa.array([f"k{n}" for n in range(count)]),
            "ts": pa.nulls(count, pa.int64()).fill_null(1),
            "part": pa.array(["a" if n else "b" for n in range(count)]),
        }
    )
    source.save(tmp_path / "t", rows, hoodie__datasource__write__operation="bulk_insert")
    size = max(s.size_bytes for s in pyhudi.open_table(tmp_path / "t").file_slices())
    cut = source.reader(tmp_path / "t", maxPartitionBytes=str(size // 2)).partitions()
    assert len(cut) >= 3
    assert sum(batch.num_rows for p in cut for batch in read_slices(source.again(p))) == count
    assert len(source.reader(tmp_path / "t").partitions()) < len(cut)


def test_every_operation(tmp_path: Path) -> None:
    path = tmp_path / "t"
    name = "hoodie__datasource__write__operation"
    source.save(path, some_rows("k1", "k2"), **{name: "insert"})
    source.save(path, some_rows("k3"), **{name: "bulk_insert"})
    source.save(path, some_rows("k1", "k4", ts=2), **{name: "upsert"})
    assert keys(source.load(path)) == "k1 k2 k3 k4"
    source.save(path, pa.table({"id": ["k2"], "part": ["a"]}), **{name: "delete"})
    assert keys(source.load(path)) == "k1 k3 k4"
    source.save(path, some_rows("k5"), **{name: "insert_overwrite"})
    assert keys(source.load(path)) == "k4 k5"
    for part in ("*", "a*"):  # values, not patterns
        source.save(path, pa.table({"id": ["k4"], "part": [part]}), **{name: "delete_partition"})
    assert keys(source.load(path)) == "k4 k5"
    source.save(path, some_rows("k4"), **{name: "delete_partition"})
    assert keys(source.load(path)) == "k5"
    source.save(path, some_rows("k6", "k7"), "overwrite", **{name: "insert_overwrite_table"})
    assert keys(source.load(path)) == "k6 k7"
    assert len(pyhudi.open_table(path).timeline.commits) == 7, "the table is the same"
    with pytest.raises(OptionError, match="invalid option value"):
        source.save(path, some_rows("k1"), **{name: "merge"})


def test_save_modes(tmp_path: Path) -> None:
    path = tmp_path / "t"
    source.save(path, some_rows("k1"), saveMode="errorifexists")
    first = pyhudi.open_table(path).timeline.commits.first
    with pytest.raises(UserError, match="a table already exists"):
        source.save(path, some_rows("k2"), saveMode="error")
    source.save(path, some_rows("k2"), saveMode="ignore")
    assert keys(source.load(path)) == "k1"
    (path / "a" / "stray.parquet").parent.mkdir(exist_ok=True)
    (path / "a" / "stray.parquet").touch()
    source.save(path, some_rows("k2"), "overwrite")
    assert keys(source.load(path)) == "k2"
    assert first not in list(pyhudi.open_table(path).timeline)
    assert not (path / "a" / "stray.parquet").exists()
    with pytest.raises(OptionError, match="requires save mode append"):
        source.save(
            path, some_rows("k2"), "overwrite", hoodie__datasource__write__operation="delete"
        )
    with pytest.raises(OptionError, match="invalid option value"):
        source.save(path, some_rows("k2"), saveMode="merge")
    with pytest.raises(OptionError, match="saveMode conflicts"):
        source.save(path, some_rows("k2"), "overwrite", saveMode="ignore")


def test_what_is_refused_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    """A new table is planned before one is made, and before an old one goes."""
    path = tmp_path / "t"
    no_key = some_rows("k1").set_column(0, "id", pa.array([None], pa.string()))
    with pytest.raises(UserError, match="a record key is null"):
        source.save(path, no_key)
    assert not (path / ".hoodie" / "hoodie.properties").exists()
    source.save(path, some_rows("k1"))
    before = pyhudi.open_table(path).scan().to_arrow()
    with pytest.raises(UserError, match="a record key is null"):
        source.save(path, no_key, "overwrite")
    with pytest.raises(SchemaError, match="missing in the batch"):
        source.save(path, some_rows("k1").drop(["fare"]))
    with pytest.raises(SchemaError, match="key columns are missing"):
        source.save(path, pa.table({"part": ["a"]}), hoodie__datasource__write__operation="delete")
    for name, value in [
        ("hoodie.datasource.write.recordkey.field", "fare"),
        ("hoodie.table.name", "other"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ"),
        ("hoodie.datasource.write.partitionpath.field", ""),
    ]:
        with pytest.raises(OptionError, match=r"conflicts with the table|disagree"):
            source.save(path, some_rows("k1"), **{name.replace(".", "__"): value})
    assert pyhudi.open_table(path).scan().to_arrow().equals(before)
    assert not leftovers(path)


@pytest.mark.parametrize("limit", [{"maxBatchRows": "2"}, {"maxBatchBytes": "64b"}])
def test_a_batch_above_the_limit_is_written_from_disk_with_a_warning(
    tmp_path: Path, limit: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    source.save(path, some_rows("k1", "k2", "k3", "k4"), **limit)
    source.save(path, some_rows("k5", "k6", "k7"), **limit)
    assert keys(source.load(path)) == "k1 k2 k3 k4 k5 k6 k7"
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 2 and all("pyhudi.spark.enable" in text for text in warned)
    assert not leftovers(path)


def test_an_aborted_batch_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    source.save(path, some_rows("k1"))
    mine = source.writer(path, some_rows("k1").schema)
    message = source.again(mine).write(iter(some_rows("k2").to_batches()))
    assert leftovers(path)
    mine.abort([message, None])
    assert not leftovers(path)
    assert keys(source.load(path)) == "k1"


def test_rows_of_unreported_attempts_are_not_written(tmp_path: Path) -> None:
    """A task that ran twice parked twice: what its first attempt parked is dropped."""
    path = tmp_path / "t"
    mine = source.writer(path, some_rows("k1").schema)
    source.again(mine).write(iter(some_rows("k9").to_batches()))
    mine.commit([source.again(mine).write(iter(some_rows("k1").to_batches()))])
    assert keys(source.load(path)) == "k1"
    assert not leftovers(path)


def test_the_sweep_takes_what_is_days_old(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", pa.schema([("id", pa.string())]), record_key="id")
    temp = tmp_path / "t" / ".hoodie" / ".temp"
    old, new = "parked-1700000000000-0123456789abcdef", "parked-9999999999999-0123456789abcdef"
    for name in (old, new, "20240101000000000"):
        (temp / name).mkdir(parents=True)
    sweep_staging(fs_of(table))
    assert sorted(p.name for p in temp.iterdir()) == ["20240101000000000", new]
    assert AGE_DAYS_MAX >= 1
    table.upsert(pa.table({"id": ["a"]}))
    assert (temp / new).exists(), "another writer's rows are not its remains"


def test_meta_columns_of_a_frame_are_not_written(table: Path) -> None:
    """As what Apache Hudi does with a frame that was read from a table."""
    rows = pyhudi.open_table(table).scan(where=pc.field("id") == "k1").to_arrow()
    kind = pyhudi.open_table(table).config.table_type.value
    source.save(table, rows, hoodie__datasource__write__table__type=kind)
    newest = pyhudi.open_table(table).timeline.commits.last
    assert newest is not None
    row = next(row for row in source.load(table) if row["id"] == "k1")
    assert row["_hoodie_commit_time"] == newest.time
