"""Other tools reading tables: the recipes of the documents, and what reaches the scan."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.read.scan import Scan

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
SCHEMA = pa.schema({"id": pa.string(), "city": pa.string(), "v": pa.int64()})
NAMES = itertools.count()


def recipes() -> list[tuple[str, str]]:
    """(title, code) of every block, the first one without a title."""
    found = []
    for section in PAGE.read_text("utf-8").split("\n## "):
        title = section.splitlines()[0].strip()
        found += [(title, code) for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL)]
    return found


def absent(code: str) -> list[str]:
    names = re.findall(r"^import (\w+)", code, re.MULTILINE)
    return [name for name in names if importlib.util.find_spec(name) is None]


TITLES = [title for title, _ in recipes()][1:]
LONG = {"Ray": pytest.mark.slow}  # starts a cluster, and is not installed for the other tests


@pytest.mark.parametrize("title", [pytest.param(t, marks=LONG.get(t, ())) for t in TITLES])
def test_recipes_run(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done: dict[str, Any] = {}
    (_, start), *others = recipes()
    for code in (start, *(code for name, code in others if name == title)):
        missing = absent(code)
        if missing:
            pytest.skip(f"{', '.join(missing)} is not installed")
        exec(compile(code, f"{PAGE.name}: {title}", "exec"), done)


@pytest.fixture
def table() -> pyhudi.Table:
    made = pyhudi.create_table(
        f"memory://near{next(NAMES)}", SCHEMA, record_key="id", partition_by="city",
        table_type="mor",
    )  # fmt: skip
    made.upsert(pa.table({"id": ["a", "b", "c"], "city": ["p", "p", "q"], "v": [1, 2, 3]}, SCHEMA))
    made.upsert(pa.table({"id": ["b"], "city": ["p"], "v": [20]}, SCHEMA))
    return made


def test_a_dataset_is_one_snapshot_narrowed_by_the_request(table: pyhudi.Table) -> None:
    dataset = table.to_pyarrow_dataset()
    assert dataset.schema == SCHEMA
    table.upsert(pa.table({"id": ["z"], "city": ["p"], "v": [26]}, SCHEMA))
    assert dataset.count_rows() == 3 and dataset.count_rows(pc.field("v") > 2) == 2
    found = dataset.to_table(["v"], filter=pc.field("city") == "p")
    assert sorted(found["v"].to_pylist()) == [1, 20]
    assert dataset.filter(pc.field("v") > 2).to_table(filter=pc.field("v") < 10).num_rows == 1
    assert dataset.head(2).num_rows == 2
    named = dataset.to_table({"double": pc.field("v") * 2})
    assert sorted(named["double"].to_pylist()) == [2, 6, 40]
    with pytest.raises(UserError):
        dataset.get_fragments()


def test_a_scan_keeps_its_own_filter_as_a_dataset(table: pyhudi.Table) -> None:
    dataset = table.scan(["id", "v"], pc.field("v") > 1).to_pyarrow_dataset()
    assert dataset.schema.names == ["id", "v"]
    assert dataset.to_table(filter=pc.field("id") != "c").to_pylist() == [{"id": "b", "v": 20}]


def test_filters_of_polars_and_duckdb_reach_the_scan(
    table: pyhudi.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    wheres: list[str] = []
    plain = Scan.to_batches

    def watched(scan: Scan) -> Any:
        wheres.append(str(scan._request.where))
        return plain(scan)

    monkeypatch.setattr(Scan, "to_batches", watched)
    dataset = table.to_pyarrow_dataset()
    lazy = pl.scan_pyarrow_dataset(dataset).filter(pl.col("city") == "q").select("v")
    assert lazy.collect().to_series().to_list() == [3]
    assert '(city == "q")' in wheres[-1]
    assert duckdb.sql("select v from dataset where city = 'q'").fetchall() == [(3,)]
    assert "city" in wheres[-1] and "q" in wheres[-1]
    assert duckdb.sql("select count(*) from dataset").fetchall() == [(3,)]
    assert pl.scan_pyarrow_dataset(dataset).select(pl.len()).collect().item() == 3
    assert dataset.to_table([]).num_rows == 3


def test_tables_timelines_scans_and_reports_show_as_small_escaped_html() -> None:
    name = f"memory://near{next(NAMES)}"
    table = pyhudi.create_table(name, SCHEMA, record_key="id", name="<script>&")
    for number in range(60):
        report = table.upsert(pa.table({"id": ["a"], "city": ["<b>"], "v": [number]}, SCHEMA))
    shown = [table, table.timeline, table.scan(where=pc.field("city") == "<b>"), report]
    for one in shown:
        text = one._repr_html_()
        assert "<script" not in text and "<b>&" not in text.replace("<b>&lt;", "")
        assert len(text) < 10_000
    assert "&lt;script&gt;&amp;" in table._repr_html_()


def test_lazy_frames_of_polars_and_dask_read_the_snapshot(table: pyhudi.Table) -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    lazy, frame = table.to_polars(lazy=True), table.scan(["id", "v"], "v > 1").to_dask()
    whole = table.to_dask()
    table.delete(keys=["a", "c"])
    assert sorted(lazy.filter(pl.col("city") == "p").select("v").collect()["v"]) == [1, 20]
    assert frame.npartitions == 2 and sorted(frame["v"].compute()) == [3, 20]
    assert list(whole.columns) == SCHEMA.names and len(whole) == 3
    narrowed = table.scan(["v"], "v > 1").to_polars(lazy=True)
    assert narrowed.collect()["v"].to_list() == [20]


def test_a_frame_of_dask_has_the_values_of_a_frame_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    fields: dict[str, tuple[pa.DataType, Any]] = {
        "id": (pa.string(), "a"),
        "price": (pa.decimal128(10, 2), Decimal("1.50")),
        "raw": (pa.binary(), b"\xff"),
        "day": (pa.date32(), date(2024, 2, 29)),
        "at": (pa.timestamp("us", "UTC"), datetime(2024, 2, 29, tzinfo=UTC)),
        "place": (pa.struct([("x", pa.int32())]), {"x": 1}),
        "tags": (pa.list_(pa.string()), ["t", None]),
    }
    schema = pa.schema({name: kind for name, (kind, _) in fields.items()})
    table = pyhudi.create_table(f"memory://near{next(NAMES)}", schema, record_key="id")
    assert table.to_dask().dtypes.equals(table.to_pandas().dtypes)  # without rows
    row = {name: value for name, (_, value) in fields.items()}
    table.upsert(pa.Table.from_pylist([row, {**dict.fromkeys(row), "id": "b"}], schema))
    frame = table.to_dask()
    found = frame.compute()
    back = pa.Table.from_pandas(found, schema, preserve_index=False)
    assert back.sort_by("id").to_pylist()[0] == row
    assert frame.dtypes.equals(found.dtypes) and found.dtypes.equals(table.to_pandas().dtypes)
    exact = table.to_dask(types_mapper=pandas.ArrowDtype)
    assert exact.groupby("id")["price"].sum().compute()["a"] == Decimal("1.50")


def test_a_lazy_frame_of_polars_selects_the_rows_that_a_frame_of_all_rows_does() -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    schema = pa.schema([("id", pa.string()), ("d", pa.float64()), ("v", pa.int64())])
    table = pyhudi.create_table(f"memory://near{next(NAMES)}", schema, record_key="id")
    values = [None, float("nan"), 0.0, -0.0, 1.5]
    rows = [{"id": str(n), "d": d, "v": n if d else None} for n, d in enumerate(values)]
    table.upsert(pa.Table.from_pylist(rows, schema))
    lazy, whole = table.to_polars(lazy=True), table.to_polars()
    d, v = pl.col("d"), pl.col("v")
    tests = [
        *(getattr(d, name)(1.0) for name in ("eq", "ne", "lt", "le", "gt", "ge", "eq_missing")),
        *(v.is_in(given, nulls_equal=e) for given in ([1], [1, None]) for e in (True, False)),
        d.is_in([0.0, float("nan")]), d.is_nan(), d.is_between(0, 2), v.is_null(), v % 2 == 0,
    ]  # fmt: skip
    for one in (*tests, *(~test for test in tests)):
        found = lazy.filter(one).select("id").collect()
        assert sorted(found["id"]) == sorted(whole.filter(one)["id"]), one
    assert lazy.select(pl.len()).collect().item() == lazy.select("id").collect().height == 5


def test_tables_without_rows_are_empty_frames() -> None:
    empty = pyhudi.create_table(f"memory://near{next(NAMES)}", SCHEMA, record_key="id")
    assert list(empty.to_dask().columns) == SCHEMA.names and len(empty.to_dask()) == 0
    assert empty.to_polars(lazy=True).collect().shape == (0, 3)


@pytest.mark.parametrize("name", ["pandas", "polars", "dask", "ray"])
def test_a_missing_library_is_named_with_its_extra(
    table: pyhudi.Table, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    for module in [each for each in sys.modules if each.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, module)
    for rows in (table, table.scan(["id"])):
        with pytest.raises(
            UserError, match=rf"the library {name} is not installed.*to_{name}.*\[{name}\]"
        ):
            getattr(rows, f"to_{name}")()
    extras = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text("utf-8"))
    assert extras["project"]["optional-dependencies"][name]


def test_a_table_states_its_path_and_url(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "a b", SCHEMA, record_key="id")
    assert table.path == str(tmp_path / "a b") and table.url == (tmp_path / "a b").as_uri()
    assert pyhudi.open_table(table.path).url == pyhudi.open_table(table.url).url == table.url
    name = f"memory://near{next(NAMES)}"
    assert pyhudi.create_table(name, SCHEMA, record_key="id").path == name
    assert pyhudi.open_table(name).url == name
