"""Partitions whose paths separate the parts of a date by slashes: 2024-01-02 is at 2024/01/02."""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, UnsupportedTableError, UserError
from pyhudi.options import parse_options
from pyhudi.sync.partition_values import catalog_values
from pyhudi.table.properties import SLASHES, load_config, store_config
from tests.support.golden import turns_rows, turns_table
from tests.support.inside import fs_of

FIRST = date(2023, 12, 30)
TYPES = {"text": pa.string(), "date": pa.date32()}
QUIET = {"hoodie.metadata.record.index.min.filegroup.count": "1"}


def schema_of(kind: str) -> pa.Schema:
    return pa.schema(
        [("id", pa.string()), ("ts", pa.int64()), ("v", pa.int32()), ("day", TYPES[kind])]
    )


def golden(name: str, **options: str) -> Table:
    """The table; Apache Hudi stored the property in it only where SQL created it."""
    fs = turns_table(name)
    store_config(fs, load_config(fs).with_properties({SLASHES: "true"}))
    return Table(fs, options=parse_options(options), engine=LocalEngine(1))


def plain(rows: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    return sorted(rows.select(names).to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("name", ["slash_mor_v9", "slash_cow_v6"])
def test_rows_are_those_that_apache_hudi_reads(name: str) -> None:
    names = ["id", "ts", "v", "day"]
    expected = plain(turns_rows(name), names)
    for row in expected:  # without the property Apache Hudi reads the path
        row["day"] = row["day"] and row["day"].replace("/", "-")
    table = golden(name)
    assert plain(table.scan(names).to_arrow(), names) == expected
    found = table.scan(names, "day = '2024-01-02'").to_arrow()
    assert plain(found, names) == [row for row in expected if row["day"] == "2024-01-02"] != []
    later = table.scan(names, "day > '2024-01-02' and day < '2025'").to_arrow()
    assert plain(later, names) == [
        row for row in expected if row["day"] and "2024-01-02" < row["day"] < "2025"
    ]
    assert not table.doctor().problems


@pytest.mark.parametrize("name", ["slash_mor_v9", "slash_cow_v6"])
def test_writes_go_to_the_partitions_of_apache_hudi(name: str) -> None:
    table = golden(name, **{"hoodie.index.type": "SIMPLE"})
    partitions = sorted(table.partitions())
    before = table.scan(["id", "ts", "v", "day"]).to_arrow()
    assert "2024/01/02" in partitions
    later = [{**row, "v": row["v"] + 10, "ts": row["ts"] + 10} for row in before.to_pylist()]
    changed = pa.Table.from_pylist(later, before.schema)
    table.upsert(changed)
    assert sorted(table.partitions()) == partitions
    names = ["id", "ts", "v", "day"]
    assert plain(table.scan(names).to_arrow(), names) == plain(changed, names)
    table.delete(where="day = '2024-01-02'")
    left = [row for row in plain(changed, names) if row["day"] != "2024-01-02"]
    assert plain(table.scan(names).to_arrow(), names) == left
    assert not table.doctor().problems


class Model:
    """A table by key and day."""

    def __init__(self, kind: str, random_: random.Random) -> None:
        self.kind, self.random = kind, random_
        self.rows: dict[str, dict[str, Any]] = {}

    def batch(self, ts: int) -> pa.Table:
        keys = self.random.sample(range(40), 8)
        made = []
        for key in keys:
            day: Any = None
            if key % 7:
                day = FIRST + timedelta(days=key % 5)
                day = day if self.kind == "date" else day.isoformat()
            made.append({"id": f"k{key}", "ts": ts, "v": self.random.randrange(9), "day": day})
        return pa.Table.from_pylist(made, schema_of(self.kind))

    def check(self, table: Table) -> None:
        names = schema_of(self.kind).names
        rows = sorted(self.rows.values(), key=lambda row: row["id"])
        assert plain(table.scan(names).to_arrow(), names) == rows
        days = {row["day"] for row in rows}
        for day in days:
            where = "day is null" if day is None else f"day = '{day}'"
            if day is not None and self.kind == "date":
                where = f"day = date '{day}'"
            found = plain(table.scan(names, where).to_arrow(), names)
            assert found == [row for row in rows if row["day"] == day], where
        for path in table.partitions():
            (value,) = catalog_values(path, ("day",), extractor=None, decode=False)
            assert path.count("/") == 2 or path == "__HIVE_DEFAULT_PARTITION__"
            assert value.count("-") == 2 or value == path
        assert not table.doctor().problems


def run(seed: int, folder: Path, steps: int) -> None:
    chance = random.Random(seed)
    version, table_type = chance.choice([6, 8, 9]), chance.choice(["cow", "mor"])
    index = chance.choice(["record", "bloom", "simple", "bucket"])
    model = Model(chance.choice(list(TYPES)), chance)
    options = {**QUIET, SLASHES: "true"}
    if chance.random() < 0.3:
        options["hoodie.datasource.write.partitionpath.urlencode"] = "true"
    if chance.random() < 0.5:
        options["hoodie.metadata.index.column.stats.enable"] = "true"
    table = pyhudi.create_table(
        folder / "t", schema_of(model.kind), record_key="id", partition_by="day", ordering="ts",
        table_type=table_type, version=version, index=index, options=options,
    )  # fmt: skip
    for ts in range(steps):
        rows = model.batch(ts)
        table = pyhudi.open_table(folder / "t")
        match chance.choice(["upsert", "upsert", "delete", "where", "overwrite", "compact"]):
            case "upsert":
                table.upsert(rows)
                model.rows |= {row["id"]: row for row in rows.to_pylist()}
            case "delete":
                keys = rows.column("id").to_pylist()[:3]
                stored = [model.rows[key] for key in keys if key in model.rows]
                if stored:
                    table.delete(pa.Table.from_pylist(stored, rows.schema))
                for row in stored:
                    del model.rows[row["id"]]
            case "where":
                table.delete(where="v < 2")
                model.rows = {k: row for k, row in model.rows.items() if row["v"] >= 2}
            case "overwrite":
                days = set(rows.column("day").to_pylist())
                table.insert_overwrite(rows)
                remaining = {k: row for k, row in model.rows.items() if row["day"] not in days}
                model.rows = remaining | {row["id"]: row for row in rows.to_pylist()}
            case "compact" if table_type == "mor":
                table.compact()
            case _:
                continue
        model.check(pyhudi.open_table(folder / "t"))


@pytest.mark.parametrize("seed", range(6))
def test_random_operations_agree_with_a_model(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_random_operations_agree_with_a_model(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, 12)


@pytest.mark.parametrize("value", ["2024/01/02", "2024--02", "-1"])
def test_a_value_that_a_reader_would_not_find_again_is_refused(value: str, tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", schema_of("text"), record_key="id", partition_by="day", ordering="ts",
        options={SLASHES: "true"},
    )  # fmt: skip
    row = {"id": ["a"], "ts": [1], "v": [1], "day": [value]}
    with pytest.raises(UserError, match="partition value"):
        table.upsert(pa.table(row, schema_of("text")))
    assert not table.timeline.commits


@pytest.mark.parametrize(
    ("more", "partition_by"),
    [
        ({"hoodie.datasource.write.hive_style_partitioning": "true"}, "day"),
        ({}, ["day", "v"]),
        ({}, ["day:SIMPLE"]),
    ],
)
def test_layouts_on_which_writers_differ_are_refused(
    more: dict[str, str], partition_by: Any, tmp_path: Path
) -> None:
    given: Any = {"record_key": "id", "partition_by": partition_by, "ordering": "ts"}
    with pytest.raises(OptionError, match="slash"):
        pyhudi.create_table(
            tmp_path / "t", schema_of("text"), **given, options={**more, SLASHES: "true"}
        )
    table = pyhudi.create_table(tmp_path / "t", schema_of("text"), **given, options=more)
    store_config(fs_of(table), load_config(fs_of(table)).with_properties({SLASHES: "true"}))
    with pytest.raises(UnsupportedTableError, match="slash"):
        pyhudi.open_table(tmp_path / "t").upsert(schema_of("text").empty_table())


def test_an_option_that_contradicts_the_table_is_refused(tmp_path: Path) -> None:
    pyhudi.create_table(
        tmp_path / "t", schema_of("text"), record_key="id", partition_by="day", ordering="ts"
    )
    with pytest.raises(OptionError, match="slash"):
        pyhudi.open_table(tmp_path / "t", options={SLASHES: "true"})


def test_the_doctor_names_an_extractor_that_alone_hints_at_slashes() -> None:
    table = Table(turns_table("slash_cow_v6"), options=parse_options({}), engine=LocalEngine(1))
    rows = turns_rows("slash_cow_v6")
    assert plain(table.scan(rows.schema.names).to_arrow(), ["id", "day"]) == plain(
        rows, ["id", "day"]
    )
    (finding,) = table.doctor().findings
    assert finding.code == "slash-partitions"
    assert "SlashEncodedDayPartitionValueExtractor" in finding.what
