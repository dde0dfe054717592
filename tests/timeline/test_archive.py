from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import CorruptFileError
from pyhudi.layouts.v6 import V6
from pyhudi.layouts.v8 import V8
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action
from pyhudi.timeline.service_payloads import CLEAN_METADATA, write_avro
from tests.support.golden import golden_table

HISTORY = ".hoodie/timeline/history"


def test_archived_commits_and_cleans_of_layout_1() -> None:
    archive = Archive(golden_table("cow_cleaned"), layout=V6, folder=".hoodie/archived")
    times = [entry.time for entry in archive.commits]
    assert times == sorted(times) and len(times) >= 4
    assert all(entry.metadata.schema for entry in archive.commits)
    assert archive.commits[0].metadata.operation == "BULK_INSERT"
    for entry in archive.cleans:
        assert entry.record["totalFilesDeleted"] > 0


def test_the_archive_folder_is_the_one_the_properties_name() -> None:
    archive = Archive(golden_table("cow_cleaned_h120"), layout=V6, folder=".hoodie/history")
    assert archive.commits


@pytest.mark.parametrize("layout", [V6, V8])
def test_no_archive_is_an_empty_one(layout: int) -> None:
    archive = Archive(MemoryFileSystem(), layout=layout, folder=".hoodie/archived")
    assert archive.commits == () and archive.cleans == ()


def test_every_cut_of_an_archive_file_is_read_or_refused() -> None:
    fs = golden_table("cow_cleaned_versions")
    path = ".hoodie/archived/.commits_.archive.1_1-0-1"
    data = fs.read(path)
    for cut in range(0, len(data), 997):
        fs.replace(path, data[:cut])
        archive = Archive(fs, layout=V6, folder=".hoodie/archived")
        assert len(archive.commits) <= 10  # what a torn block held is passed over


def history(fs: MemoryFileSystem) -> None:
    clean = {
        "startCleanTime": "3", "timeTakenInMillis": 1, "totalFilesDeleted": 0,
        "earliestCommitToRetain": "1", "lastCompletedCommitTimestamp": "1",
        "partitionMetadata": {}, "version": 2,
    }  # fmt: skip
    replaced = CommitMetadata(operation="INSERT_OVERWRITE", replaced={"p": ("f",)})
    rows = pa.table(
        {
            "instantTime": ["2", "1", "3"],
            "completionTime": ["22", "11", "33"],
            "action": ["replacecommit", "commit", "clean"],
            "metadata": pa.array(
                [replaced.to_json(), CommitMetadata().to_json(), write_avro(CLEAN_METADATA, clean)],
                pa.binary(),
            ),
            "plan": pa.nulls(3, pa.binary()),
            "version": [1, 1, 1],
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    written = sink.getvalue()
    fs.create(f"{HISTORY}/1_3_0.parquet", written.to_pybytes())
    files = {"files": [{"fileName": "1_3_0.parquet", "fileLen": written.size}]}
    fs.create(f"{HISTORY}/manifest_7", json.dumps(files).encode())
    fs.create(f"{HISTORY}/_version_", b"7")


def test_archived_instants_of_layout_2() -> None:
    fs = MemoryFileSystem()
    history(fs)
    archive = Archive(fs, layout=V8, folder="")
    assert [(e.time, e.action, e.completed_at) for e in archive.commits] == [
        (InstantTime("1"), Action.COMMIT, "11"),
        (InstantTime("2"), Action.REPLACE_COMMIT, "22"),
    ]
    assert archive.commits[1].metadata.replaced == {"p": ("f",)}
    assert [e.time for e in archive.cleans] == ["3"]


def test_a_broken_manifest_is_named() -> None:
    fs = MemoryFileSystem()
    history(fs)
    fs.replace(f"{HISTORY}/manifest_7", b"{")
    with pytest.raises(CorruptFileError, match="manifest"):
        _ = Archive(fs, layout=V8, folder="").commits
