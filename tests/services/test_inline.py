"""Table services after a write: cleaning and archival by default, the switches, and failures."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from pyhudi.errors import PyhudiError, StorageError
from tests.crash.test_every_stop import SCHEMA, rows
from tests.support.inside import fs_of

INDEX = {"hoodie.metadata.record.index.min.filegroup.count": "1"}


def table_of(path: Path, **options: str) -> pyhudi.Table:
    return pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts",
        options={**INDEX, **options},
    )  # fmt: skip


def versions(path: Path) -> int:
    """The most versions that one file group has."""
    names = [p.name.split("_")[0] for p in path.glob("p0/*.parquet")]
    return max(names.count(group) for group in names)


def commits(path: Path) -> int:
    folders = (path / ".hoodie", path / ".hoodie" / "timeline")
    return sum(1 for folder in folders for _ in folder.glob("*.commit"))


def test_a_table_is_cleaned_and_archived_by_default(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    reports = [table.upsert(rows(range(2), ts)) for ts in range(1, 41)]
    assert versions(tmp_path) <= 11  # 10 commits stay readable, and the one before them
    assert 20 <= commits(tmp_path) <= 31
    assert sum("clean " in note for report in reports for note in report.notes) >= 28
    assert any("archived " in note for report in reports for note in report.notes)
    assert not any(note for report in reports[:9] for note in report.notes)
    assert table.scan(["ts"]).to_arrow()["ts"].to_pylist() == [40, 40]
    retained = [instant.time for instant in table.timeline.commits][-10:]
    for instant in retained:
        assert table.scan(as_of=instant).to_arrow().num_rows == 2
    assert len(table.archived_timeline) + commits(tmp_path) >= 40


@pytest.mark.parametrize(
    ("off", "versions_left", "commits_left"),
    [
        ({"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}, 34, 34),
        ({"hoodie.table.services.enabled": "false"}, 34, 34),
        ({"hoodie.clean.automatic": "false", "hoodie.keep.min.commits": "2",
          "hoodie.keep.max.commits": "3"}, 34, 11),
        ({"hoodie.archive.automatic": "false", "hoodie.clean.commits.retained": "3"}, 4, 34),
    ],
)  # fmt: skip
def test_cleaning_and_archival_are_switched_off_by_their_options(
    tmp_path: Path, off: dict[str, str], versions_left: int, commits_left: int
) -> None:
    table = table_of(tmp_path, **off)
    for ts in range(1, 35):
        table.upsert(rows(range(2), ts))
    assert versions(tmp_path) == versions_left
    assert commits(tmp_path) <= commits_left + 2
    assert (commits(tmp_path) == 34) is (commits_left == 34)


def test_no_service_runs_where_table_services_are_disabled(tmp_path: Path) -> None:
    requested = {
        "hoodie.table.services.enabled": "false", "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "1", "hoodie.clean.commits.retained": "1",
    }  # fmt: skip
    table = table_of(tmp_path, **requested)
    notes = [note for ts in range(1, 4) for note in table.upsert(rows(range(2), ts)).notes]
    assert notes == []
    assert table.clean().files  # the verb is an explicit request


def test_a_clean_waits_for_the_commits_of_its_trigger(tmp_path: Path) -> None:
    few = {"hoodie.clean.commits.retained": "1", "hoodie.clean.trigger.max.commits": "3"}
    table = table_of(tmp_path, **few)
    cleaned = [
        any("clean " in note for note in table.upsert(rows(range(2), ts)).notes)
        for ts in range(1, 10)
    ]
    assert cleaned == [False, False, True, False, False, True, False, False, True]


def failing(table: pyhudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store refuse every deletion of a base file."""
    fs = type(fs_of(table))
    delete = fs.delete

    def refuse(self, paths):  # type: ignore[no-untyped-def]
        paths = list(paths)
        if any(path.endswith(".parquet") for path in paths):
            raise StorageError("permission denied", path=paths[0])
        return delete(self, paths)

    monkeypatch.setattr(fs, "delete", refuse)


def test_a_service_that_fails_does_not_make_a_committed_write_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, **{"hoodie.clean.commits.retained": "1"})
    for ts in (1, 2):
        table.upsert(rows(range(2), ts))
    with monkeypatch.context() as patch:
        failing(table, patch)
        report = table.upsert(rows(range(2), 3))
    assert report.instant and report.updated == 2
    assert any("cleaning after this write failed" in note for note in report.notes)
    assert any("permission denied" in note for note in report.notes)
    assert table.scan(["ts"]).to_arrow()["ts"].to_pylist() == [3, 3]
    assert any("clean " in note for note in table.upsert(rows(range(2), 4)).notes)
    assert versions(tmp_path) == 2


def test_a_service_that_fails_raises_where_the_option_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = {"hoodie.fail.writes.on.inline.table.service.exception": "true"}
    table = table_of(tmp_path, **{"hoodie.clean.commits.retained": "1"}, **strict)
    for ts in (1, 2):
        table.upsert(rows(range(2), ts))
    failing(table, monkeypatch)
    with pytest.raises(PyhudiError, match="permission denied"):
        table.upsert(rows(range(2), 3))
    assert table.scan(["ts"]).to_arrow()["ts"].to_pylist() == [3, 3]


def test_a_published_write_is_followed_by_the_services_too(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"hoodie.clean.commits.retained": "1"})
    for ts in (1, 2):
        table.upsert(rows(range(2), ts))
    before = versions(tmp_path)
    retained = table.upsert(rows(range(2), 3), publish=False)
    assert retained.notes == () and versions(tmp_path) == before + 1
    assert any("clean " in note for note in table.publish(retained.instant).notes)
