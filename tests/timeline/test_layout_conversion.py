"""Completion times of a converted timeline, and contents of its files."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CorruptFileError
from pyhudi.layouts.v6 import V6
from pyhudi.layouts.v9 import V9
from pyhudi.records import InstantTime
from pyhudi.timeline.clock import parse_instant
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.layout_conversion import assigned_completions, converted_content, key_of
from tests.support.golden import golden_table

TIMES = ("20260101120000000", "20260101120005000", "20260101120005001", "20260101120100000")
DONE = [Instant(InstantTime(time), Action.COMMIT, State.COMPLETED) for time in TIMES]


def written(*seconds: float) -> dict[tuple[InstantTime, Action], datetime]:
    """Modification times, as seconds after each instant."""
    return {
        key_of(i): parse_instant(i.time, UTC) + timedelta(seconds=s)
        for i, s in zip(DONE, seconds, strict=True)
    }


def test_plausible_modification_times_are_the_completion_times() -> None:
    ends = assigned_completions(DONE, written(1, 9, 2, 3), UTC)
    assert [ends[key_of(i)] for i in DONE] == [
        "20260101120001000", "20260101120014000", "20260101120007001", "20260101120103000",
    ]  # fmt: skip


@pytest.mark.parametrize("seconds", [(500, 500, 500, 500), (1, -1, 1, 1), (0, 0, 0, 0)])
def test_times_of_a_copy_are_not_used(seconds: tuple[float, ...]) -> None:
    """Each instant ends before the next begins, so that logs stay in their slices."""
    assert assigned_completions(DONE, written(*seconds), UTC) == assigned_completions(DONE, {}, UTC)
    ends = [assigned_completions(DONE, {}, UTC)[key_of(i)] for i in DONE]
    assert ends == sorted(set(ends))
    assert all(end < later for end, later in zip(ends, TIMES[1:], strict=False))


def test_a_commit_keeps_its_content_in_both_encodings() -> None:
    fs = golden_table("mor_rli_avro")
    commits = [n for n in fs.names(".hoodie") if n.endswith((".deltacommit", ".commit"))]
    instant = Instant(InstantTime("1"), Action.DELTA_COMMIT, State.COMPLETED)
    for name in commits:
        before = fs.read(f".hoodie/{name}")
        avro = converted_content(instant, before, V9, path=name)
        assert avro.startswith(b"Obj\x01")
        stated, after = (
            json.loads(before),
            json.loads(converted_content(instant, avro, V6, path=name)),
        )
        assert after["extraMetadata"] == stated["extraMetadata"]
        for partition, stats in stated["partitionToWriteStats"].items():
            for old, new in zip(stats, after["partitionToWriteStats"][partition], strict=True):
                assert {k: v for k, v in old.items() if v is not None and k != "recordsStats"} == {
                    k: v for k, v in new.items() if v is not None and k != "recordsStats"
                }


def test_an_empty_or_damaged_completed_commit_is_not_converted() -> None:
    for content in (b"", b"{", b'{"partitionToWriteStats": [1]}'):
        with pytest.raises(CorruptFileError):
            converted_content(DONE[0], content, V9, path="x")


def test_a_downgrade_sets_the_modification_times_that_apache_hudi_reads(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"]})
    options = {"hoodie.write.table.version": "9"}
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", options=options)
    table.bulk_insert(rows)
    (done,) = table.timeline.commits
    pyhudi.open_table(tmp_path / "t").downgrade(6)
    path = tmp_path / "t" / ".hoodie" / f"{done.time}.commit"
    assert done.completed_at is not None
    expected = parse_instant(done.completed_at, UTC).timestamp()
    assert abs(path.stat().st_mtime - expected) < 0.001
