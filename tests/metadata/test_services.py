"""When the metadata table compacts and what it cleans: pure decisions; and which instants count."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pyhudi.filenames import BaseFileName, LogFileName
from pyhudi.metadata.cleaning import earliest_commit, outdated_files
from pyhudi.metadata.compaction import compaction_due
from pyhudi.metadata.visible_instants import is_own
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.file_group_view import DataFile, FileGroup, FileSlice, TableView, Visibility
from pyhudi.timeline.instant import parse_instant_name
from pyhudi.timeline.timeline import Timeline


def timeline(*names: str) -> Timeline:
    found = [parse_instant_name(name) for name in names]
    assert all(found)
    return Timeline.of(instant for instant in found if instant is not None)


DELTAS = [f"{n}.deltacommit" for n in range(10, 15)]
TIMED = [f"{n}_{n + 1}.deltacommit" for n in range(10, 20, 2)]


@pytest.mark.parametrize(
    ("own", "data", "after", "due"),
    [
        (DELTAS, [], 5, "14"),
        (DELTAS, [], 6, None),
        ([*DELTAS, "12001.commit"], [], 2, "14"),
        ([*DELTAS, "12001.commit"], [], 3, None),
        ([*DELTAS, "14001.commit"], [], 1, None),
        (DELTAS, ["14.commit.requested"], 5, None),
        (DELTAS, ["12.compaction.requested"], 5, None),
        (DELTAS, ["15.commit.requested"], 5, "14"),
        ([*DELTAS, "15.deltacommit.inflight"], [], 5, "14"),
        ([], [], 1, None),
        (TIMED, ["11.clustering.requested"], 5, "18"),
        (TIMED, ["16.commit.requested"], 5, None),
        ([*TIMED, "15_20.commit"], [], 2, "18"),
        ([*TIMED, "15_20.commit"], [], 3, None),
        (["10_21.deltacommit", "12_13.deltacommit", "15_20.commit"], [], 1, "10"),
    ],
)
def test_compaction_is_due(
    own: Iterable[str], data: Iterable[str], after: int, due: str | None
) -> None:
    assert compaction_due(timeline(*own), timeline(*data), after) == due


def test_the_newest_commits_are_retained() -> None:
    own = timeline(*DELTAS, "12001.commit", "15.deltacommit.inflight", "13002.clean")
    assert earliest_commit(own, 6) is None
    retained = earliest_commit(own, 3)
    assert retained is not None
    assert retained.time == "12001"
    retained = earliest_commit(own, 4)
    assert retained is not None
    assert retained.time == "12"


def view(*instants: str) -> TableView:
    group = FileGroupId("files", "files-0000-0")

    def file_slice(time: InstantTime) -> FileSlice:
        base = DataFile(BaseFileName(group.file_id, "0-0-0", time, ".hfile"), "files", 1)
        log = DataFile(LogFileName(group.file_id, time, 1, "0-0-0"), "files", 1)
        return FileSlice(group, time, base, (log,))

    slices = tuple(file_slice(InstantTime(time)) for time in sorted(instants, reverse=True))
    return TableView({group: FileGroup(group, slices)}, Visibility(frozenset(), None))


@pytest.mark.parametrize(
    ("slices", "keep_from", "gone"),
    [
        (["10"], "20", []),
        (["10", "12"], "12", []),
        (["10", "12"], "13", ["10"]),
        (["10", "12", "14"], "13", ["10"]),
        (["10", "12", "14"], "12", []),
        (["10", "12", "14", "16"], "15", ["10", "12"]),
        (["10", "12", "14"], "20", ["10", "12"]),
    ],
)
def test_slices_that_no_retained_commit_reads_are_outdated(
    slices: list[str], keep_from: str, gone: list[str]
) -> None:
    found = list(outdated_files(view(*slices), InstantTime(keep_from)).get("files", ()))
    names = [name for time in sorted(gone, reverse=True) for name in (
        f"files-0000-0_0-0-0_{time}.hfile", f".files-0000-0_{time}.log.1_0-0-0")]  # fmt: skip
    assert found == names


@pytest.mark.parametrize(
    ("time", "own"),
    [
        ("00000000000000010", True),
        ("00000000000000013001", True),
        ("20261121070152726", False),
        ("20261121070152726002", True),
        ("20261121065907122003", True),
        ("20261121065441449010", True),
        ("20261121065441449999", True),
        ("20261121065441449009", False),
        ("20261121065441449000", False),
        ("20240418173551", False),
    ],
)
def test_own_instants_are_recognized_by_their_suffix(time: str, own: bool) -> None:
    assert is_own(InstantTime(time)) is own
