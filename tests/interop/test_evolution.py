"""Evolved tables and every key generator: what Apache Hudi reads of them, and how it writes on.

One table holds every pair of types that may widen, new columns and new nested fields; older files
stay beside newer ones, some are rewritten, some get logs of the newer types.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi import PythonKeys, TimestampPartition
from pyhudi.formats.schema_conform import conform
from tests.support.apache_hudi import VERSIONS, ApacheHudi, newest_table_version
from tests.write.schema_matrix import TYPES, VALUES, pairs

pytestmark = pytest.mark.interop
FEW = {"hoodie.metadata.record.index.min.filegroup.count": "1"}


def plain(table: pa.Table, names: list[str]) -> dict[str, list[Any]]:
    """Values by column, ordered by key."""
    return {
        name: [repr(value) for value in column]
        for name, column in table.select(names).sort_by("id").to_pydict().items()
    }


def read_by(hudi: ApacheHudi, path: Path) -> pa.Table:
    out = path.parent / f"{path.name}-{hudi.version}.parquet"
    out.unlink(missing_ok=True)
    hudi.call("read", path=str(path), out=str(out))
    return pq.ParquetFile(out).read()


def all_agree(path: Path, want: pa.Table, hudis: list[ApacheHudi]) -> None:
    names = want.schema.names
    assert plain(pyhudi.open_table(path).scan(names).to_arrow(), names) == plain(want, names)
    for hudi in hudis:
        found = plain(read_by(hudi, path), names)
        for name, values in plain(want, names).items():
            assert found[name] == values, f"Apache Hudi {hudi.version}: {name}"


WIDENED = list(pairs("widens"))
INNER = pa.struct([("x", pa.int32())])
MORE = pa.struct([("x", pa.int32()), ("y", pa.string())])


def evolving(ids: list[str], part: str, *, newer: bool) -> pa.Table:
    """Rows with a column for each pair, of its older or its newer type."""
    columns: dict[str, pa.Array] = {"id": pa.array(ids), "part": pa.array([part] * len(ids))}
    columns["ts"] = pa.array([int(newer)] * len(ids), pa.int64())
    for number, names in enumerate(WIDENED):
        values = VALUES[names[newer]]
        taken = [values[n % len(values)] for n in range(len(ids))]
        columns[f"c{number}"] = pa.array([*taken[:-1], None], TYPES[names[newer]])
    value = {"x": 1, "y": "ü"} if newer else {"x": 1}
    kind = MORE if newer else INNER
    columns["s"] = pa.array([value] * len(ids), kind)
    columns["l"] = pa.array([[value]] * len(ids), pa.list_(pa.field("element", kind)))
    columns["m"] = pa.array([[("k", value)]] * len(ids), pa.map_(pa.string(), kind))
    if newer:
        columns["new"] = pa.array(["n"] * len(ids))
    return pa.table(columns)


@pytest.mark.parametrize(
    ("kind", "log_format"), [("cow", "parquet"), ("mor", "parquet"), ("mor", "avro")]
)
def test_every_allowed_change_reads_equal_and_is_written_on(
    kind: str, log_format: str, tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    path = tmp_path / "t"
    before = [evolving([f"{part}{n}" for n in range(4)], part, newer=False) for part in "pqr"]
    table = pyhudi.create_table(
        path, before[0].schema, record_key="id", partition_by="part", ordering="ts",
        table_type=kind,
        version=newest_table_version(hudis),
        options={**FEW, "hoodie.logfile.data.block.format": log_format},
    )  # fmt: skip
    table.upsert(pa.concat_tables(before))
    after = pa.concat_tables(
        [evolving(["q0", "q1", "q9"], "q", newer=True), evolving(["z0", "z1"], "z", newer=True)]
    )
    report = table.upsert(after, schema_mode="widen")
    assert set(report.added_columns) == {"s.y", "l.element.y", "m.value.y", "new"}
    rows = {row["id"]: row for part in before for row in conform(part, after.schema).to_pylist()}
    rows.update({row["id"]: row for row in after.to_pylist()})
    want = pa.Table.from_pylist(list(rows.values()), after.schema)
    all_agree(path, want, hudis)
    for turn, hudi in enumerate(hudis):
        batch = evolving([f"p{turn}", f"w{turn}"], "p", newer=True)
        file = tmp_path / f"batch{turn}.parquet"
        pq.write_table(batch, file)
        hudi.call("write", path=str(path), rows=str(file))
        rows.update({row["id"]: row for row in batch.to_pylist()})
        all_agree(path, pa.Table.from_pylist(list(rows.values()), after.schema), hudis)


KEYED = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("day", pa.string()), ("ts", pa.int64())]
)


def keyed(*numbers: int) -> pa.Table:
    cities = ["a b", None, "x=1/y", "Zürich"]
    days = ["2023-11-14", "2024-02-29", None]
    return pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "city": [cities[n % 4] for n in numbers],
            "day": [days[n % 3] for n in numbers],
            "ts": [1] * len(numbers),
        },
        KEYED,
    )


TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
    "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
    "hoodie.keygen.timebased.output.dateformat": "yyyyMM",
    "hoodie.keygen.timebased.timezone": "UTC",
}
DAY = TimestampPartition("day", "DATE_STRING", "yyyyMM", "yyyy-MM-dd", "UTC")
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
TYPED = {"hoodie.datasource.write.partitionpath.field": "city:SIMPLE,day:TIMESTAMP"}
COMPLEX = {"hoodie.datasource.write.keygenerator.type": "COMPLEX"}
BARE = {"hoodie.write.complex.keygen.new.encoding": "true"}
VALID = {"hoodie.write.complex.keygen.validation.enable": "false"}
GENERATORS: Mapping[str, tuple[Any, Mapping[str, str], Mapping[str, str], tuple[str, ...]]] = {
    "simple": ("city", ENCODED, {}, VERSIONS),
    "timestamp": (DAY, {}, TIMES, VERSIONS),
    "custom": (["city", DAY], ENCODED, {**TIMES, **TYPED}, VERSIONS),
    "complex of one field": ("city", {**ENCODED, **COMPLEX}, VALID, ("1.2.0",)),
    "complex, bare": ("city", {**ENCODED, **COMPLEX, **BARE}, {**VALID, **BARE}, VERSIONS),
}
"""How the table is partitioned, options to create it, options Java writes it with, and who can."""


@pytest.mark.parametrize("name", GENERATORS)
def test_apache_hudi_makes_the_same_keys_and_paths(
    name: str, tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    partition_by, options, java, writers = GENERATORS[name]
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path,
        KEYED,
        record_key="id",
        partition_by=partition_by,
        ordering="ts",
        version=newest_table_version(hudis),
        options={**FEW, **options},
    )
    table.upsert(keyed(*range(12)))
    all_agree(path, table.scan(["id", "_hoodie_record_key"]).to_arrow(), hudis)
    for turn, hudi in enumerate(h for h in hudis if h.version in writers):
        file = tmp_path / f"batch{turn}.parquet"
        pq.write_table(keyed(*range(6), 20 + turn), file)
        hudi.call("write", path=str(path), rows=str(file), conf={**options, **java})
        found = pyhudi.open_table(path).scan().to_arrow()
        assert found.num_rows == 13 + turn, f"Apache Hudi {hudi.version} made other keys"
        report = pyhudi.open_table(path).upsert(keyed(*range(12), 20 + turn))
        assert (report.inserted, report.updated) == (0, 13)
        paths = "_hoodie_partition_path"
        after = pyhudi.open_table(path).scan().to_arrow()
        assert plain(after, ["id", paths]) == plain(found, ["id", paths])


def test_apache_hudi_reads_tables_of_python_keys(tmp_path: Path, hudis: list[ApacheHudi]) -> None:
    def paths(rows: pa.Table) -> list[str]:
        return [f"{text[:4]}" if text else "none" for text in rows["day"].to_pylist()]

    path = tmp_path / "t"
    functions = PythonKeys(paths, columns=("day",))
    table = pyhudi.create_table(
        path,
        KEYED,
        record_key="id",
        partition_by=functions,
        ordering="ts",
        version=newest_table_version(hudis),
        options=FEW,
    )
    table.upsert(keyed(*range(12)))
    # Apache Hudi reads `day`, a partition field, from the paths
    all_agree(path, table.scan(["id", "city", "_hoodie_record_key"]).to_arrow(), hudis)
