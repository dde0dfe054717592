"""Apache Hudi 1.2.0 reads and writes tables of versions 8 and 9 that pyhudi created, by every merge
mode; after each write both read the same rows.  Payload classes of version 8: it reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.merge.test_partial_modes import MARKED, MODES, SCHEMA, rows_of
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

RULES: dict[str, dict[str, str]] = {
    **MODES,
    "delete_field": {
        "hoodie.payload.delete.field": "Op",
        "hoodie.payload.delete.marker": "D",
    },
}
ORDERING = {"commit_without_ordering": ()}
BY_CLASS = {(8, name) for name in MODES if "class" in str(MODES[name])}
"""Apache Hudi 1.2.0 fails to write these, or merges its own logs otherwise (docs/compatibility)."""
COLUMNS = ["_hoodie_record_key", "_event_lsn", "v", "n"]
CASES = [
    (version, name, kind) for version in (9, 8) for name in (*RULES, *ORDERING)
    for kind in ("cow", "mor")
]  # fmt: skip


def batch(records: list[str]) -> pa.Table:
    """One row a record, of the keys k00, k01, ..."""
    rows = [rows_of(record).drop_columns(["_hoodie_record_key"]) for record in records]
    return pa.concat_tables(rows).set_column(
        0, "id", pa.array([f"k{n:02}" for n in range(len(records))])
    )


def texts(rows: pa.Table) -> list[str]:
    return sorted(repr(row) for row in rows.select(COLUMNS).to_pylist())


def same_rows(path: Path, apache: ApacheHudi) -> list[str]:
    ours = texts(pyhudi.open_table(path).scan().to_arrow())
    for mdt in ("off", "on"):
        assert texts(apache.read(path, mdt=mdt)) == ours, mdt
    return ours


def upsert_by_java(path: Path, rows: pa.Table, apache: ApacheHudi, folder: Path) -> None:
    file = folder / "rows.parquet"
    pq.write_table(rows, file)
    conf: dict[str, Any] = {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.datasource.write.keygenerator.type": "NON_PARTITION",
    }
    apache.call("write", path=str(path), rows=str(file), operation="upsert", conf=conf)


@pytest.mark.parametrize("apache", ["1.2.0"], indirect=True)
@pytest.mark.parametrize(("version", "name", "kind"), CASES)
def test_apache_hudi_takes_turns_on_a_new_table(
    version: int, name: str, kind: str, tmp_path: Path, apache: ApacheHudi
) -> None:
    path = tmp_path / "t"
    pairs = [pair for pair in MARKED if pair.mode == "event"]
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", ordering=ORDERING.get(name, "_event_lsn"),
        table_type=kind, version=version, options=RULES.get(name),
    )  # fmt: skip
    properties = dict(table.config.properties)
    table.upsert(batch(["1 base 0"] * len(pairs)))
    table.upsert(batch([pair.older for pair in pairs]))
    same_rows(path, apache)
    if (version, name) not in BY_CLASS:
        upsert_by_java(path, batch([pair.newer for pair in pairs]), apache, tmp_path)
        same_rows(path, apache)
    table.upsert(batch([pair.older for pair in reversed(pairs)]))
    after = same_rows(path, apache)
    if kind == "mor":
        table.compact()
        assert same_rows(path, apache) == after
    apache.call("validate", path=str(path))
    stated = pyhudi.open_table(path).config.properties
    changed = {key for key in {*stated, *properties} if stated.get(key) != properties.get(key)}
    assert changed <= {
        "hoodie.table.metadata.partitions",
        "hoodie.table.metadata.partitions.inflight",
        "hoodie.table.index.defs.path",
    }
