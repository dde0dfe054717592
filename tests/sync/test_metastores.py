"""What a Catalog promises, of a metastore of the tests and of real ones: `make long-catalogs`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.errors import CatalogError
from pyhudi.storage.hive_thrift import connect
from pyhudi.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable
from pyhudi.sync.hive_metastore import HiveMetastore
from pyhudi.sync.table_entries import BASE_FILES, OUTPUT_FORMAT, SERDE
from tests.support.fake_metastore import metastore
from tests.support.query_engines import hive_metastore
from tests.sync.cases import CASES, SYNC
from tests.sync.entries import differences, entries
from tests.sync.golden_entries import DIFFERENT, where
from tests.sync.test_apache_hudi_entries import EXPECTED

REAL = [pytest.mark.catalogs, pytest.mark.slow]
KINDS = ("fake", pytest.param("3", marks=REAL), pytest.param("4", marks=REAL))
ODD = ["a b", "a/b", "x=1", "50%", "ö", "it's", "a:b", "{a}", "A"]
COLUMNS = (CatalogColumn("id", "string", "the key"), CatalogColumn("n", "int"))
KEYS = (CatalogColumn("city", "string"), CatalogColumn("day", "date"))


@pytest.fixture(scope="module", params=KINDS)
def uri(request: pytest.FixtureRequest) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "fake":
            yield stack.enter_context(metastore())[0]
        else:
            yield stack.enter_context(hive_metastore(request.param))


@pytest.fixture
def catalog(uri: str) -> Iterator[HiveMetastore]:
    opened = HiveMetastore(uri)
    opened.create_database("db")
    yield opened
    opened.close()


def entry(name: str, folder: Path, **changes: Any) -> CatalogTable:
    properties = {"EXTERNAL": "TRUE", "spark.sql.sources.provider": "hudi"}
    made = CatalogTable(
        "db", name, COLUMNS, KEYS, f"file:{folder}", BASE_FILES, OUTPUT_FORMAT, SERDE,
        {"path": str(folder)}, properties,
    )  # fmt: skip
    return replace(made, **changes)


def parts(folder: Path, cities: list[str]) -> list[CatalogPartition]:
    return [CatalogPartition((c, "2026-11-21"), f"file:{folder}/{n}") for n, c in enumerate(cities)]


def test_databases(catalog: HiveMetastore) -> None:
    assert catalog.has_database("db") and not catalog.has_database("nobody")
    catalog.create_database("db")


def test_an_entry_comes_back_as_it_was_written(catalog: HiveMetastore, tmp_path: Path) -> None:
    made = entry("whole", tmp_path)
    assert catalog.table("db", "whole") is None
    catalog.create_table(made)
    found = catalog.table("db", "whole")
    assert found is not None and not found.managed
    assert replace(found, properties={}, serde_properties={}) == replace(
        made, properties={}, serde_properties={}
    )
    assert found.properties.items() >= made.properties.items()
    assert found.serde_properties.items() >= made.serde_properties.items()
    with pytest.raises(CatalogError):
        catalog.create_table(made)
    catalog.drop_table("db", "whole")
    catalog.drop_table("db", "whole")
    assert catalog.table("db", "whole") is None


def test_partitions_with_any_values(catalog: HiveMetastore, tmp_path: Path) -> None:
    made = entry("odd", tmp_path)
    catalog.create_table(made)
    added = parts(tmp_path, ODD)
    catalog.add_partitions(made, added)
    catalog.add_partitions(made, added[:3])
    assert sorted(catalog.partitions(made), key=str) == sorted(added, key=str)
    some = [("a/b", "2026-11-21"), ("nobody", "2026-11-21"), ("x=1", "2026-11-21")]
    assert {p.values for p in catalog.find_partitions(made, some)} == {some[0], some[2]}
    catalog.move_partitions(made, [replace(added[0], location=f"file:{tmp_path}/moved")])
    (moved,) = catalog.find_partitions(made, [added[0].values])
    assert moved.location == f"file:{tmp_path}/moved"
    catalog.drop_partitions(made, [p.values for p in added[:-1]])
    assert catalog.partitions(made) == [added[-1]]
    catalog.drop_partitions(made, [added[0].values])


def test_partitions_that_a_metastore_repeats_are_found_once(tmp_path: Path) -> None:
    """As release 4.0.1 does with a small metastore.direct.sql.batch.size."""
    with metastore() as (uri, handler):
        catalog, made = HiveMetastore(uri), entry("repeated", tmp_path)
        catalog.create_database("db")
        catalog.create_table(made)
        added = parts(tmp_path, ["sf", "la"])
        catalog.add_partitions(made, added)
        handler.repeats = 10
        assert sorted(catalog.partitions(made), key=str) == sorted(added, key=str)
        catalog.close()


def test_a_cascade_changes_the_columns_of_partitions(uri: str, tmp_path: Path) -> None:
    catalog = HiveMetastore(uri)
    catalog.create_database("db")
    made = entry("cascade", tmp_path)
    catalog.create_table(made)
    catalog.add_partitions(made, parts(tmp_path, ["sf", "la"]))
    wider = (COLUMNS[0], CatalogColumn("n", "bigint"), CatalogColumn("m", "string"))
    properties = {"EXTERNAL": "TRUE", "a": "b"}
    catalog.change_table(replace(made, columns=wider, properties=properties), cascade=True)
    found = catalog.table("db", "cascade")
    assert found is not None and found.columns == wider and found.properties["a"] == "b"
    assert "spark.sql.sources.provider" not in found.properties
    client = connect("127.0.0.1", int(uri.rpartition(":")[2]))
    names = client.get_partition_names("db", "cascade", -1)
    stored = client.get_partitions_by_names("db", "cascade", names)
    assert {tuple(c.type for c in p.sd.cols) for p in stored} == {("string", "bigint", "string")}
    client.close()
    catalog.close()


def test_ten_thousand_partitions(
    catalog: HiveMetastore, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made = entry("many", tmp_path)
    catalog.create_table(made)
    count = 2_500 if "fake" in request.node.name else 10_000
    added = [CatalogPartition((f"c{n}", "2026-11-21"), f"file:{tmp_path}") for n in range(count)]
    for at in range(0, count, 1_000):
        catalog.add_partitions(made, added[at : at + 1_000])
    assert len(catalog.partitions(made)) == count
    for at in range(0, count, 1_000):
        catalog.drop_partitions(made, [p.values for p in added[at : at + 1_000]])
    assert catalog.partitions(made) == []


REAL_CASES = [
    "cow_types", "cow_plain", "cow_one", "cow_hive_three", "cow_days", "cow_evolved",
    "cow_dropped", "mor_one", "mor_evolved", "mor_dropped", "mor_v9",
]  # fmt: skip


@pytest.mark.catalogs
@pytest.mark.slow
@pytest.mark.parametrize("major", ["3", "4"])
def test_entries_in_a_real_metastore_equal_those_of_apache_hudi(major: str, tmp_path: Path) -> None:
    found: dict[str, list[str]] = {}
    with hive_metastore(major) as uri:
        client = connect("127.0.0.1", int(uri.rpartition(":")[2]))
        for name in REAL_CASES if major == "4" else sorted(CASES.keys() - DIFFERENT.keys()):
            case = CASES[name]
            table: pyhudi.Table = case.build(tmp_path / name)
            made = []
            for step in (None, *case.steps):
                if step is not None:
                    step(table)
                fields = ",".join(table.config.partition_fields)
                options = {SYNC + "partition_fields": fields, **case.options}
                table.sync("hive", uri=uri, database="db", table=name, options=options)
                again = table.sync("hive", uri=uri, database="db", table=name, options=options)
                assert again.is_empty, name
                made.append(entries(client, "db", name, where(table)))
            found[name] = differences(made, EXPECTED[name])
        client.close()
    assert {name: lines for name, lines in found.items() if lines} == {}
