"""Arguments of a wrong kind are a UserError that names them, before anything is read or made."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.ingest import FileSource
from pyhudi.storage.url_resolver import locate_all

ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [1, 2]})
NOT_STORED = ("t\0", "t\ud800", "t\udce9", "memory:t\ud800", "s3://bucket/t\0")
"""Texts that no path can be."""
Call = Callable[[Any, Path], Any]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("arguments") / "t"
    table = pyhudi.create_table(found, ROWS.schema, record_key="id", partition_by="city")
    table.bulk_insert(ROWS)
    return found


def new(path: Path, **arguments: Any) -> pyhudi.Table:
    return pyhudi.create_table(
        path.parent / "new", **({"schema": ROWS.schema, "record_key": "id"} | arguments)
    )


def merged(path: Path) -> Any:
    return pyhudi.open_table(path).merge(ROWS)


OPENERS: tuple[Call, ...] = (
    lambda given, _: pyhudi.open_table(given),
    lambda given, _: pyhudi.create_table(given, ROWS.schema, record_key="id"),
    lambda given, _: pyhudi.doctor(given),
    lambda given, _: pyhudi.repair(given),
    lambda given, _: pyhudi.open_index(given),
    lambda given, _: pyhudi.connect(given),
    lambda given, path: pyhudi.open_table(path).copy(given),
)
MAPPINGS: tuple[Call, ...] = (
    lambda given, path: pyhudi.open_table(path, options=given),
    lambda given, path: pyhudi.open_table(path, storage_options=given),
    lambda given, path: pyhudi.open_index(path, storage_options=given),
    lambda given, path: new(path, options=given),
)
NAMES: tuple[Call, ...] = (
    lambda given, path: new(path, record_key=given),
    lambda given, path: new(path, ordering=given),
    lambda given, path: new(path, partition_by=given),
    lambda given, path: pyhudi.open_table(path).cluster(given),
    lambda given, path: pyhudi.open_table(path).cluster(partitions=given),
    lambda given, path: pyhudi.open_table(path).schedule_clustering(given, dry_run=True),
)
SET: tuple[Call, ...] = (
    lambda given, path: pyhudi.open_table(path).update({given: 1}),
    lambda given, path: merged(path).when_matched_update(set={given: "ts"}).execute(),
    lambda given, path: merged(path).when_not_matched_insert(set={given: "ts"}).execute(),
    lambda given, path: merged(path).when_not_matched_by_source_update(set={given: 1}).execute(),
    lambda given, path: pyhudi.open_table(path).index.create("secondary", given),
)
WORDS: tuple[Call, ...] = (
    lambda given, path: new(path, schema=given),
    lambda given, path: new(path, table_type=given),
    lambda given, path: new(path, index=given),
    lambda given, path: new(path, name=given),
    lambda given, path: pyhudi.open_table(path).cluster(layout=given),
    lambda given, path: pyhudi.open_table(path).index.rebuild(kind=given),
    lambda given, path: pyhudi.open_table(path).scan(mode=given),
    lambda given, path: pyhudi.open_table(path).changes("000", hollow_commits=given),
    lambda given, path: pyhudi.open_table(path).upsert(ROWS, schema_mode=given),
    lambda given, path: pyhudi.open_table(path).savepoint(given),
    lambda given, path: pyhudi.open_table(path).reset_checkpoint(given),
    lambda given, path: pyhudi.open_table(path).ingest(ROWS, checkpoint=given, after=None),
    lambda given, path: pyhudi.open_table(path).savepoint("why", given),
    lambda given, path: pyhudi.open_table(path).rollback(given),
    lambda given, path: pyhudi.open_table(path).restore(given),
    lambda given, path: pyhudi.open_table(path).delete_savepoint(given),
)
NUMBERS: tuple[Call, ...] = (
    lambda given, path: pyhudi.open_table(path).index.rebuild(given),
    lambda given, path: pyhudi.open_table(path).index.rebuild(given, dry_run=True),
    lambda given, path: pyhudi.open_table(path).index.verify(sample=given),
    lambda given, path: pyhudi.open_table(path).services.start(every_seconds=given),
    lambda given, path: pyhudi.open_index(path, max_age_seconds=given),
)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        *(
            (call, given)
            for call in OPENERS
            for given in (None, 3, b"t", ["t"], object(), "", *NOT_STORED)
        ),
        *(
            (call, given)
            for call in MAPPINGS
            for given in ("x=y", ["x"], 3, True, {1: 2}, {None: 1})
        ),
        *((call, given) for call in NAMES for given in (3, b"id", [3], ["id", None], object())),
        *((call, given) for call in SET for given in (3, None, b"id", object(), "\ud800")),
        *((call, given) for call in WORDS for given in (3, b"x", ["x"], object(), "a\ud800")),
        *((call, given) for call in NUMBERS for given in ("3", -1, float("nan"), [3], True)),
        (lambda given, path: pyhudi.open_table(path).savepoint(given), None),
        (lambda given, path: pyhudi.open_table(path).reset_checkpoint(given), None),
        (lambda given, path: pyhudi.open_table(path).head(given), True),
        (lambda given, path: pyhudi.open_table(path).index.verify(given), 2**70),
        (lambda given, path: pyhudi.sql("select 1", parameters=given), 5),
        (lambda given, path: pyhudi.sql("select 1", tables=given), 5),
        (lambda given, path: pyhudi.sql("select 1", tables={given: path}), 5),
    ],
)
def test_an_argument_of_a_wrong_kind_is_a_user_error(call: Call, given: Any, path: Path) -> None:
    before = sorted(path.parent.rglob("*.commit*"))
    with pytest.raises(UserError) as raised:
        call(given, path)
    assert not isinstance(raised.value.__cause__, AssertionError)
    assert sorted(path.parent.rglob("*.commit*")) == before
    assert not (path.parent / "new").exists()


def test_head_takes_any_number_of_rows(path: Path) -> None:
    assert pyhudi.open_table(path).head(2**70).num_rows == 2


def found(index: pyhudi.OpenIndex) -> list[bool]:
    """A task of another process."""
    answers: list[bool] = index.contains(["a", "nobody"]).to_pylist()
    return answers


def test_an_opened_index_is_pickled_by_its_path_and_opened_again(path: Path) -> None:
    index = pyhudi.open_index(path, max_age_seconds=5.0)
    twin = pickle.loads(pickle.dumps(index))
    assert (twin.get("a"), repr(twin)) == (index.get("a"), repr(index))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(found, index).result() == [True, False]


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        ([{"id": "a"}], r"pa\.Table\.from_pylist\(rows\)"),
        ({"id": ["a"]}, r"pa\.table\(rows\)"),
        (None, "__arrow_c_stream__"),
        ("rows.parquet", r"pyarrow\.parquet\.read_table\(path\)"),
        ("id = 'a'", "where="),
    ],
)
def test_rows_of_python_name_the_call_that_converts_them(path: Path, rows: Any, hint: str) -> None:
    with pytest.raises(UserError, match=f"rows must be Arrow data.*{hint}"):
        pyhudi.open_table(path).upsert(rows)


@pytest.mark.parametrize("column", [pa.array(["a"]), pa.chunked_array([["a"]]), pa.array([None])])
def test_a_column_without_a_name_is_not_rows(path: Path, tmp_path: Path, column: Any) -> None:
    for verb in ("upsert", "insert", "delete", "merge"):
        with pytest.raises(UserError, match="rows must have named columns"):
            getattr(pyhudi.open_table(path), verb)(column)
    for schema in (column, pa.field("id", pa.string())):
        with pytest.raises(UserError, match="not a schema or rows"):
            pyhudi.create_table(tmp_path / "t", schema, record_key="id")


def test_lazy_frames_of_polars_are_collected(tmp_path: Path) -> None:
    import polars

    table = pyhudi.create_table(tmp_path / "t", ROWS.schema, record_key="id")
    assert table.upsert(polars.DataFrame(ROWS).lazy().filter(polars.col("ts") > 1)).inserted == 1


def _polars() -> Any:
    import polars

    return polars.col("ts") > 1


def _duckdb() -> Any:
    import duckdb

    return duckdb.ColumnExpression("ts") > duckdb.ConstantExpression(1)


def _pandas() -> Any:
    return ROWS.to_pandas()["ts"] > 1


def _spark() -> Any:
    from pyspark.sql.classic.column import Column  # needs no session

    return Column.__new__(Column)


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        (_polars, r"given=Expr of polars; .*pyhudi\.polars\.scan\(table\).*SQL text"),
        (_duckdb, r"of duckdb; pass str\(expression\)"),
        (_pandas, r"given=Series of pandas; .*to_pandas\(\).*SQL text"),
        (_spark, r"given=Column of pyspark; .*pyhudi\.spark\.open_table"),
        (lambda: [("ts", ">", 1)], r"given=list; write SQL text"),
        (lambda: lambda row: row["ts"] > 1, r"given=function; write SQL text"),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda table, where: table.scan(where=where).to_arrow(),
        lambda table, where: table.count(where),
        lambda table, where: table.delete(where=where),
        lambda table, where: table.update({"ts": "1"}, where=where),
        lambda table, where: table.diff("000", table.position(), where=where),
        lambda table, where: table.changes("000", where=where).to_arrow(),
        lambda table, where: table.lookup(where=where),
        lambda table, where: pyhudi.read(table.url, where=where).to_arrow(),
    ],
    ids=("scan", "count", "delete", "update", "diff", "changes", "lookup", "read"),
)
def test_conditions_of_other_libraries_name_what_to_write(
    path: Path, condition: Callable[[], Any], hint: str, call: Callable[..., Any]
) -> None:
    with pytest.raises(UserError, match=f"where takes SQL text.*{hint}"):
        call(pyhudi.open_table(path), condition())


def test_the_text_of_an_expression_of_duckdb_is_a_filter(path: Path) -> None:
    table = pyhudi.open_table(path)
    assert table.scan(["id"], str(_duckdb())).to_arrow() == table.scan(["id"], "ts > 1").to_arrow()


def test_rows_are_counted_by_a_filter(path: Path) -> None:
    assert pyhudi.open_table(path).count(where="ts > 1") == 1


@pytest.mark.parametrize("place", ["t", "file:///t", "memory://t", "C:/t"])
@pytest.mark.parametrize(
    "call",
    [
        pyhudi.open_table,
        pyhudi.open_index,
        pyhudi.read,
        lambda place, **given: pyhudi.create_table(place, ROWS.schema, record_key="id", **given),
        lambda place, **given: pyhudi.upsert(place, ROWS, record_key="id", **given),
    ],
)
def test_storage_options_of_a_path_that_takes_none_are_an_error(
    place: str, call: Callable[..., Any]
) -> None:
    with pytest.raises(UserError, match=r"takes no storage options.*options=endpoint, region"):
        call(place, storage_options={"endpoint": "http://127.0.0.1:1", "region": "x"})


def test_paths_that_share_storage_options_need_one_that_takes_them(tmp_path: Path) -> None:
    options = {"skip_signature": True}
    local, far = locate_all(tmp_path, "s3://bucket/x", storage_options=options)
    assert (local.url, far.url) == (str(tmp_path), "s3://bucket/x")
    with pytest.raises(UserError, match="takes no storage options"):
        locate_all(tmp_path, "memory://x", storage_options=options)
    with pytest.raises(UserError, match="takes no storage options"):
        FileSource(tmp_path, after_commit="archive", archive=tmp_path, storage_options=options)
    FileSource(tmp_path, after_commit="archive", archive="s3://b/x", storage_options=options)


def test_fetching_no_keys_is_an_error(path: Path) -> None:
    with pytest.raises(UserError, match="no keys given"):
        pyhudi.open_table(path).fetch(None)


def test_a_scan_shows_its_request(path: Path) -> None:
    scan = pyhudi.open_table(path).scan(["id"], "ts > 1")
    assert repr(scan) == "Scan(columns=('id',), where='ts > 1')"
