"""Archived timelines of versions 8 and 9: either side lists, continues and merges them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyhudi.filenames import METADATA_TABLE
from pyhudi.storage.local import LocalFileSystem
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.history.manifest import load_manifest
from pyhudi.timeline.history.reader import TimelineHistory
from pyhudi.timeline.instant import State
from tests.interop.both_programs import Both
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

RETAINED = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
    "hoodie.timeline.compaction.batch.size": "3",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
INLINE = {**RETAINED, "hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"}
ALWAYS = {"start_ts": "20200101000000000", "end_ts": "20990101000000000", "limit": 1000}


def listed_by_them(both: Both) -> list[str]:
    shown = both.hudi.call(
        "service", path=str(both.path), name="show_archived_commits", args=ALWAYS
    )
    return sorted(row["commit_time"] for rows in shown["results"] for row in rows)


def merged_by_them(both: Both) -> list[str]:
    """Live files of level 1 and above that Apache Hudi wrote."""
    live = load_manifest(LocalFileSystem(both.path), HISTORY).files
    return [
        file.name
        for file in live
        if file.level > 0
        and "parquet-mr" in pq.ParquetFile(both.path / HISTORY / file.name).metadata.created_by
    ]


def check(both: Both, seen: dict[str, Any]) -> None:
    """Every instant is once on the active timeline or in the archive, for both sides."""
    table = both.table
    archived = table.archived_timeline
    active = table.timeline.where(None, State.COMPLETED)
    seen |= {i.time: i.completed_at for i in (*archived, *active)}
    assert sorted([*(i.time for i in archived), *(i.time for i in active)]) == sorted(seen)
    assert {i.time: i.completed_at for i in (*archived, *active)} == seen
    assert listed_by_them(both) == sorted(i.time for i in archived.commits)
    both.turns.agree()


@pytest.mark.conformance(19)
@pytest.mark.parametrize("turns", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", [9, 8])
@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_archives_are_continued_and_merged_by_either_side(
    kind: str, version: int, turns: int, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    both = Both(
        tmp_path / "t", apache_hudi("1.2.0"), version=version, table_type=kind, options=RETAINED
    )
    seen: dict[str, Any] = {}
    written = 0
    for turn in range(turns):
        for step in range(8):
            both.upsert(range(step, 40 + turn))
            if kind == "mor" and step % 3 == 2:
                both.table.compact()
            if step % 3 == 1:
                both.table.clean()
        report = both.table.archive()
        assert report.instants and report.metadata_instants
        written += report.files
        check(both, seen)
        for step in range(4):
            both.their_write(range(step, 20), **INLINE)
        check(both, seen)
        assert turn or merged_by_them(both)[0].startswith(min(seen))  # with our file of level 0
    both.table.archive()
    check(both, seen)
    own = LocalFileSystem(both.path / METADATA_TABLE)
    found = [i.time for i in TimelineHistory(own, HISTORY).instants()]
    assert found and len(found) == len(set(found)) and written >= turns
