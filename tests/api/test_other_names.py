"""Names of other packages lead to the name that is used here."""

from __future__ import annotations

import importlib
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.other_names import MERGE, PACKAGE, SCAN, SPARK, TABLE

ROWS = pa.table({"id": ["a"], "fare": [1.0]})


@pytest.fixture
def table(tmp_path: Path) -> pyhudi.Table:
    return pyhudi.create_table(tmp_path / "t", ROWS.schema, record_key="id")


def test_every_hint_names_what_exists(table: pyhudi.Table) -> None:
    merge = table.merge(ROWS)
    scan = table.scan()
    named = ((TABLE, table), (SCAN, scan), (MERGE, merge), (PACKAGE, pyhudi))
    for others, owner in named:
        for name, hint in others.items():
            with pytest.raises(AttributeError, match=re.escape(f"{name!r}; {hint}")):
                getattr(owner, name)
            for verb in re.findall(r"\btable\.(\w+)", hint):
                assert hasattr(table, verb), hint
            for verb in re.findall(r"\bscan\.(\w+)", hint):
                assert hasattr(scan, verb), hint
            for verb in re.findall(r"\bpyhudi\.(\w+)", hint):
                assert hasattr(pyhudi, verb) or verb == "duckdb", hint


def test_names_of_the_package_for_spark_lead_on_too() -> None:
    hudi = importlib.import_module("pyhudi.spark")
    for name, hint in SPARK.items():
        with pytest.raises(AttributeError, match=re.escape(f"{name!r}; {hint}")):
            getattr(hudi, name)
        assert all(hasattr(hudi, verb) for verb in re.findall(r"\bhudi\.(\w+)", hint)), hint
    with pytest.raises(UserError, match=r"must be a Spark DataFrame; type=str; upsert\(df, path"):
        hudi.upsert("t", ROWS, record_key="id")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("upserts", "upsert"), ("to_panda", "to_pandas"), ("Scan", "scan"),
        ("bulkInsert", "bulk_insert"), ("comapct", "compact"),
    ],
)  # fmt: skip
def test_a_misspelled_name_names_the_right_one(table: pyhudi.Table, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"did you mean {meant}\\?"):
        getattr(table, name)


def test_camel_case_is_understood(table: pyhudi.Table) -> None:
    with pytest.raises(AttributeError, match=r"when_matched_update\(\) without arguments"):
        table.merge(ROWS).whenMatchedUpdateAll()  # type: ignore[attr-defined]


def test_private_names_have_no_hint(table: pyhudi.Table) -> None:
    with pytest.raises(AttributeError) as raised:
        _ = table._repr_png_  # type: ignore[attr-defined]
    assert str(raised.value) == "a Table has no attribute '_repr_png_'"
    assert pickle.loads(pickle.dumps(table)).path == table.path
