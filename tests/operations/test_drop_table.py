"""A drop deletes the files of the table, and only these."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import StorageError, TableNotFoundError, WriteConflictError
from pyhudi.operations.drop_table import drop_table
from pyhudi.options import Options
from pyhudi.records import InstantTime
from pyhudi.storage.local import LocalFileSystem
from pyhudi.transaction.heartbeat import Heartbeat

ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [1, 1]})


def made(path: Path) -> pyhudi.Table:
    table = pyhudi.create_table(
        path, ROWS.schema, record_key="id", partition_by="city", ordering="ts", table_type="mor"
    )
    table.bulk_insert(ROWS)
    table.upsert(ROWS.slice(0, 1))
    return table


def files(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()}


def test_a_dropped_table_leaves_only_its_lock(tmp_path: Path) -> None:
    made(tmp_path / "t")
    before = files(tmp_path / "t")
    planned = drop_table(LocalFileSystem(tmp_path / "t"), Options(), dry_run=True)
    assert files(tmp_path / "t") == before
    report = drop_table(LocalFileSystem(tmp_path / "t"), Options())
    assert (planned.files, planned.bytes) == (report.files, report.bytes)
    assert report.files >= len(before) - 2 and report.other_files == 0
    left = files(tmp_path / "t")
    assert all(name.startswith(".hoodie/.pyhudi.lock") for name in left), left
    assert [each.name for each in (tmp_path / "t").iterdir()] == [".hoodie"]
    with pytest.raises(TableNotFoundError):
        pyhudi.open_table(tmp_path / "t")
    assert made(tmp_path / "t").count() == 2


def test_other_files_and_other_tables_below_the_path_stay(tmp_path: Path) -> None:
    made(tmp_path / "t")
    inner = made(tmp_path / "t" / "x" / "inner")
    (tmp_path / "t" / "notes.txt").write_text("mine")
    (tmp_path / "t" / "y" / "export.parquet").write_text("mine")
    report = drop_table(LocalFileSystem(tmp_path / "t"), Options())
    assert report.other_files == 3
    assert set(report.examples) == {"notes.txt", "x/inner", "y/export.parquet"}
    assert (tmp_path / "t" / "notes.txt").exists()
    assert (tmp_path / "t" / "y" / "export.parquet").exists()
    assert inner.count() == 2


def test_a_table_with_a_running_writer_is_not_dropped(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    fs = LocalFileSystem(tmp_path / "t")
    with Heartbeat(fs, InstantTime("20990101000000000")):
        with pytest.raises(WriteConflictError, match="writers are working"):
            drop_table(fs, Options())
        assert table.count() == 2
    drop_table(fs, Options())


def test_a_link_out_of_the_table_is_an_error_before_anything_is_deleted(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".hoodie_partition_metadata").write_text("mine")
    (tmp_path / "t" / "link").symlink_to(outside)
    with pytest.raises(StorageError, match="leads out of the table"):
        drop_table(LocalFileSystem(tmp_path / "t"), Options())
    (tmp_path / "t" / "link").unlink()
    assert table.count() == 2
    assert (outside / ".hoodie_partition_metadata").exists()
