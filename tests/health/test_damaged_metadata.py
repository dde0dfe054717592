"""Damage to the metadata table: rows stay right, repair and rebuild are not refused."""

from __future__ import annotations

import pytest

from pyhudi.table.properties import TableType
from tests.health.metadata_damage import TABLES, Totals, run, sound


@pytest.mark.parametrize(
    ("version", "kind"),
    [(9, TableType.MERGE_ON_READ), (8, TableType.COPY_ON_WRITE), (6, TableType.MERGE_ON_READ)],
)
def test_a_table_with_a_damaged_metadata_table_can_be_repaired(
    version: int, kind: TableType
) -> None:
    totals, table = Totals(), sound(version, kind)
    for seed in range(3):
        run(table, seed, totals)
    assert not totals.bad


@pytest.mark.slow
def test_random_damage_to_metadata_tables() -> None:
    totals, tables = Totals(), [sound(*each) for each in TABLES]
    for seed in range(300):
        run(tables[seed % len(tables)], seed, totals)
    print(totals)
    assert not totals.bad
