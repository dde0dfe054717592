"""Properties that do not describe files can be changed; others are rejected."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.operations.table_properties import set_properties
from pyhudi.options import Options
from pyhudi.storage.local import LocalFileSystem


@pytest.fixture
def fs(tmp_path: Path) -> LocalFileSystem:
    rows = pa.table({"id": ["a"], "ts": [1]})
    pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id").insert(rows)
    return LocalFileSystem(tmp_path / "t")


def test_properties_are_set_and_removed(fs: LocalFileSystem) -> None:
    first = set_properties(fs, Options(), {"owner": "ana", "hoodie.database.name": "dev"})
    assert first.set == {"owner": "ana", "hoodie.database.name": "dev"}
    second = set_properties(fs, Options(), {"owner": None, "hoodie.database.name": "dev"})
    assert (second.set, second.removed, second.unchanged) == (
        {},
        ("owner",),
        ("hoodie.database.name",),
    )
    table = pyhudi.open_table(fs.url)
    assert table.config.database == "dev" and "owner" not in table.config.properties
    assert table.count() == 1


def test_a_renamed_table_is_read_and_written(fs: LocalFileSystem) -> None:
    set_properties(fs, Options(), {"hoodie.table.name": "journeys"})
    table = pyhudi.open_table(fs.url)
    table.upsert(pa.table({"id": ["b"], "ts": [1]}))
    assert (table.config.name, table.count()) == ("journeys", 2)
    assert table.doctor().is_healthy


def test_a_dry_run_reports_and_changes_nothing(fs: LocalFileSystem) -> None:
    before = fs.read(".hoodie/hoodie.properties")
    report = set_properties(fs, Options(), {"owner": "ana"}, dry_run=True)
    assert report.dry_run and report.set == {"owner": "ana"}
    assert fs.read(".hoodie/hoodie.properties") == before


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"": "x"}, {"hoodie.table.version": "9"}, {"hoodie.table.type": "MERGE_ON_READ"},
        {"hoodie.table.recordkey.fields": "ts"}, {"hoodie.table.name": ""},
        {"hoodie.table.name": None}, {"hoodie.table.checksum": "1"}, {"pyhudi.index": "x"},
    ],
)  # fmt: skip
def test_properties_that_describe_files_are_rejected(
    changes: dict[str, str | None], fs: LocalFileSystem
) -> None:
    before = fs.read(".hoodie/hoodie.properties")
    with pytest.raises(UserError):
        set_properties(fs, Options(), changes)
    assert fs.read(".hoodie/hoodie.properties") == before
