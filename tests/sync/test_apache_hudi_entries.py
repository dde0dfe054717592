"""Entries equal those that Apache Hudi's HiveSyncTool wrote for the same tables.

golden/*.json are what HiveSyncTool of that release stored in a Hive Metastore 3.1.3, before the
first step of each case and after each (`python -m tests.sync.golden_entries`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyhudi.storage.hive_thrift import connect
from tests.support.fake_metastore import metastore
from tests.sync.cases import CASES, SYNC
from tests.sync.entries import OF_THE_WRITER, differences, entries
from tests.sync.golden_entries import DIFFERENT, DIFFERENT_0_15_0, GOLDEN, schema_of_0_15_0, where

EXPECTED = json.loads((GOLDEN / "apache_hudi_1_2_0.json").read_text("utf-8"))
EXPECTED_0_15_0 = json.loads((GOLDEN / "apache_hudi_0_15_0.json").read_text("utf-8"))
SCHEMA = "spark.sql.sources.schema.part."


def test_every_case_has_entries_of_apache_hudi() -> None:
    assert set(EXPECTED) == set(CASES)
    writable = {name for name, case in CASES.items() if "version" not in case.create}
    assert set(EXPECTED_0_15_0) == writable


@pytest.mark.parametrize("name", CASES)
def test_entries_equal_those_of_apache_hudi(name: str, tmp_path: Path) -> None:
    """Those of both releases; what 0.15.0 stores in another way is listed, and must differ."""
    found = synced(name, tmp_path)
    if name not in DIFFERENT:
        assert differences(found, EXPECTED[name]) == []
    if name in EXPECTED_0_15_0:
        lines = differences(as_0_15_0(found), EXPECTED_0_15_0[name])
        known = DIFFERENT_0_15_0.get(name, {})
        others = [line for line in lines if not any(place in line for place in known)]
        assert others == []
        assert all(any(place in line for line in lines) for place in known)


def synced(name: str, folder: Path) -> list[dict[str, Any]]:
    """The entries of a case after each sync; a second sync must write nothing."""
    case, found = CASES[name], []
    with metastore() as (uri, handler):
        table = case.build(folder / name)
        client = connect("127.0.0.1", int(uri.rpartition(":")[2]))
        for step in (None, *case.steps):
            if step is not None:
                step(table)
            options = {SYNC + "partition_fields": _fields(table), **case.options}
            table.sync("hive", uri=uri, database="db", table=name, options=options)
            calls = len(handler.calls)
            again = table.sync("hive", uri=uri, database="db", table=name, options=options)
            assert again.is_empty and not _writes(handler.calls[calls:])
            found.append(entries(client, "db", name, where(table)))
        client.close()
    return found


def as_0_15_0(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries with what 0.15.0 writes otherwise in each of them."""
    return [
        {suffix: {**e, "parameters": _parameters(e["parameters"])} for suffix, e in each.items()}
        for each in found
    ]


def _parameters(stored: dict[str, str]) -> dict[str, str]:
    return {
        name: schema_of_0_15_0(value) if name.startswith(SCHEMA) else value
        for name, value in stored.items()
        if name != OF_THE_WRITER
    }


def _fields(table: Any) -> str:
    return ",".join(table.config.partition_fields)


def _writes(calls: list[str]) -> list[str]:
    return [call for call in calls if not call.startswith("get_")]
