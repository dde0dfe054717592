"""Entries equal those that Apache Hudi's HiveSyncTool wrote for the same tables.

golden/*.json are what HiveSyncTool of that release stored in a Hive Metastore 3.1.3, before the
first step of each case and after each (`python -m tests.sync.golden_entries`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyhudi.sync.hive_metastore import connect
from tests.support.fake_metastore import metastore
from tests.sync.cases import CASES, SYNC
from tests.sync.entries import differences, entries
from tests.sync.golden_entries import DIFFERENT, GOLDEN, where

EXPECTED = json.loads((GOLDEN / "apache_hudi_1_2_0.json").read_text("utf-8"))


def test_every_case_has_entries_of_apache_hudi() -> None:
    assert set(EXPECTED) == set(CASES)


@pytest.mark.parametrize("name", [name for name in CASES if name not in DIFFERENT])
def test_entries_equal_those_of_apache_hudi(name: str, tmp_path: Path) -> None:
    case, found = CASES[name], []
    with metastore() as (uri, handler):
        table = case.build(tmp_path / name)
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
    assert differences(found, EXPECTED[name]) == []


def _fields(table: Any) -> str:
    return ",".join(table.config.partition_fields)


def _writes(calls: list[str]) -> list[str]:
    return [call for call in calls if not call.startswith("get_")]
