"""Record keys, partitions and ordering columns that are fields of a struct."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SchemaError, UserError
from pyhudi.options import parse_options
from tests.support.golden import turns_rows, turns_table

INNER = pa.struct([("k", pa.string()), ("ts", pa.int64()), ("p", pa.string())])
SCHEMA = pa.schema([("id", pa.string()), ("s", INNER), ("v", pa.int64())])
QUIET = {"hoodie.metadata.record.index.min.filegroup.count": "1"}


def row(number: int, ts: int, v: int) -> dict[str, Any]:
    part = None if number % 5 == 0 else f"p{number % 3}"
    return {"id": f"i{number}", "s": {"k": f"n{number}", "ts": ts, "p": part}, "v": v}


def rows_of(table: Table) -> list[dict[str, Any]]:
    found = table.scan(SCHEMA.names).to_arrow().to_pylist()
    return sorted(found, key=lambda found: found["s"]["k"])


def run(seed: int, folder: Path, steps: int) -> None:
    chance = random.Random(seed)
    kind, index = chance.choice(["cow", "mor"]), chance.choice(["record", "simple", "bucket"])
    keys = chance.choice(["s.k", ["s.k", "id"]])
    table = pyhudi.create_table(
        folder / "t", SCHEMA, record_key=keys, partition_by=chance.choice(["s.p", None]),
        table_type=kind, version=chance.choice([6, 8, 9]), index=index, options=QUIET,
    )  # fmt: skip
    model: dict[int, dict[str, Any]] = {}
    for ts in range(steps):
        table = pyhudi.open_table(folder / "t")
        numbers = chance.sample(range(20), 6)
        made = {number: row(number, ts, chance.randrange(9)) for number in numbers}
        match chance.choice(["upsert", "upsert", "keys", "rows", "where", "update", "compact"]):
            case "upsert":
                table.upsert(pa.Table.from_pylist(list(made.values()), SCHEMA))
                model |= made
            case "keys":
                gone = [n for n in numbers[:2] if n in model]
                values: list[Any] = [f"n{n}" for n in gone]
                if isinstance(keys, list):
                    values = [(f"n{n}", f"i{n}") for n in gone]
                if values and index == "record":
                    assert all(table.lookup(values).column("found").to_pylist())
                if values:
                    table.delete(keys=values)
                model = {n: left for n, left in model.items() if n not in gone}
            case "rows":
                gone = [n for n in numbers[:2] if n in model]
                if gone:
                    table.delete(pa.Table.from_pylist([model[n] for n in gone], SCHEMA))
                model = {n: left for n, left in model.items() if n not in gone}
            case "where":
                table.delete(where="v < 2")
                model = {n: left for n, left in model.items() if left["v"] >= 2}
            case "update":
                table.update({"v": 5}, where="v = 3")
                model = {
                    n: {**left, "v": 5} if left["v"] == 3 else left for n, left in model.items()
                }
            case "compact" if kind == "mor":
                table.compact()
        found = rows_of(pyhudi.open_table(folder / "t"))
        assert found == sorted(model.values(), key=lambda found: found["s"]["k"])
    assert not pyhudi.open_table(folder / "t").doctor().problems


@pytest.mark.parametrize("seed", range(5))
def test_random_operations_agree_with_a_model(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 180))
def test_many_random_operations_agree_with_a_model(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, 12)


def test_an_update_cannot_change_the_struct_of_a_key(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="s.k", options=QUIET)
    with pytest.raises(UserError, match="cannot change record keys"):
        table.update({"s": "null"})


@pytest.mark.parametrize("name", ["s.x", "x.k", "id.k", "s"])
def test_a_field_that_cannot_be_a_key_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        pyhudi.create_table(tmp_path / "t", SCHEMA, record_key=name)


def run_ordered(seed: int, folder: Path, steps: int) -> None:
    chance = random.Random(seed)
    kind = chance.choice(["cow", "mor"])
    ordering = chance.choice(["s.ts", ["s.ts", "v"]])
    table = pyhudi.create_table(
        folder / "t", SCHEMA, record_key="s.k", ordering=ordering, table_type=kind,
        version=chance.choice([6, 8, 9]), index=chance.choice(["record", "bucket"]),
        options={**QUIET, "hoodie.logfile.data.block.format": chance.choice(["parquet", "avro"])},
    )  # fmt: skip
    model: dict[int, dict[str, Any]] = {}

    def order(found: dict[str, Any]) -> tuple[int, int]:
        return found["s"]["ts"], found["v"] if isinstance(ordering, list) else 0

    for _ in range(steps):
        table = pyhudi.open_table(folder / "t")
        numbers = chance.sample(range(12), 5)
        match chance.choice(["upsert", "upsert", "upsert", "keys", "where", "compact"]):
            case "upsert":
                made = [row(n, chance.randrange(9), chance.randrange(9)) for n in numbers]
                table.upsert(pa.Table.from_pylist(made, SCHEMA))
                for number, new in zip(numbers, made, strict=True):
                    if number not in model or order(new) >= order(model[number]):
                        model[number] = new
            case "keys":
                table.delete(keys=[f"n{number}" for number in numbers[:2]])
                model = {n: left for n, left in model.items() if n not in numbers[:2]}
            case "where":
                table.delete(where="v < 2")
                model = {n: left for n, left in model.items() if left["v"] >= 2}
            case "compact" if kind == "mor":
                table.compact()
        found = rows_of(pyhudi.open_table(folder / "t"))
        assert found == sorted(model.values(), key=lambda found: found["s"]["k"])
    assert not pyhudi.open_table(folder / "t").doctor().problems


@pytest.mark.parametrize("seed", range(6))
def test_records_are_ordered_by_a_field_of_a_struct(seed: int, tmp_path: Path) -> None:
    run_ordered(seed, tmp_path, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_operations_on_records_ordered_by_a_field(seed: int, tmp_path: Path) -> None:
    run_ordered(seed, tmp_path, 12)


@pytest.mark.parametrize("name", ["nested_cow_v9", "nested_mor_v9", "nested_mor_v6"])
def test_tables_of_apache_hudi_are_read_and_written(name: str) -> None:
    options = parse_options({"hoodie.index.type": "RECORD_INDEX", **QUIET})
    table = Table(turns_table(name), options=options, engine=LocalEngine(1))
    expected = turns_rows(name).select(["id", "s", "v"]).to_pylist()
    expected.sort(key=lambda found: found["s"]["k"])
    assert rows_of(table) == expected
    partitions = sorted(table.partitions())
    newer = {**expected[0], "s": {**expected[0]["s"], "ts": 99}, "v": 99}
    older = {**expected[1], "s": {**expected[1]["s"], "ts": 0}, "v": 99}
    fields = pa.schema([table.schema.field(name) for name in SCHEMA.names])
    table.upsert(pa.Table.from_pylist([newer, older], fields))
    assert rows_of(table) == [newer, *expected[1:]]
    assert sorted(table.partitions()) == partitions
    if table.config.is_merge_on_read:
        table.compact()
        assert rows_of(table) == [newer, *expected[1:]]
    table.delete(keys=[expected[2]["s"]["k"]])
    assert rows_of(table) == [newer, expected[1], *expected[3:]]
    assert not table.doctor().problems
