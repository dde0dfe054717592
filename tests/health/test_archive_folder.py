"""An archive in another folder than the properties name is found and repaired."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import pyhudi
from pyhudi.health.findings import RepairAction
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.properties import load_config, store_config

FOLDER = "hoodie.archivelog.folder"
OPTIONS = {
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.clean.commits.retained": 1,
}


def archived(path: Path, version: int) -> pyhudi.Table:
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]})
    table = pyhudi.create_table(
        path, rows.schema, record_key="id", options=OPTIONS, version=version
    )
    for _ in range(8):
        table.upsert(rows)
    table.archive()
    assert len(table.archived_timeline.commits)
    return table


def test_an_archive_that_a_downgrade_left_in_its_old_folder_is_named(tmp_path: Path) -> None:
    """As by Apache Hudi 1.2.0: the files are in `archived`, the property says `history`."""
    before = archived(tmp_path, 6).archived_timeline.commits.times
    fs = LocalFileSystem(tmp_path)
    assert not pyhudi.doctor(tmp_path).findings
    store_config(fs, load_config(fs).with_properties({FOLDER: "history"}))
    assert not len(pyhudi.open_table(tmp_path).archived_timeline.commits)
    (found,) = pyhudi.doctor(tmp_path).findings
    assert (found.code, found.repair) == ("archive-folder", RepairAction.ARCHIVE_FOLDER)
    assert pyhudi.repair(tmp_path).left == ()
    assert pyhudi.open_table(tmp_path).archived_timeline.commits.times == before
    assert load_config(fs).properties[FOLDER] == "archived"


def test_archives_of_version_9_have_no_such_finding(tmp_path: Path) -> None:
    archived(tmp_path, 9)
    assert not pyhudi.doctor(tmp_path).findings
