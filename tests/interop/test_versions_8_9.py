"""Tables of versions 8 and 9: pyhudi and Apache Hudi 1.x take turns with every kind of action.

After each turn both read the same rows, with and without the metadata table, and Apache Hudi finds
no difference between the metadata table, the storage and the record index.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.both_programs import AVRO, COMPACTED, SERVED, UNDONE, WRITES, Both, take_turns
from tests.interop.test_decoding import decoded_actions, decoded_hfiles, decoded_logs
from tests.support.apache_hudi import ApacheHudi
from tests.support.inside import state_of

pytestmark = pytest.mark.interop

CASES = [("1.2.0", 9, "mor", AVRO)]
LONG = [
    ("1.2.0", 9, "cow", {}),
    ("1.1.1", 9, "mor", {}),
    ("1.2.0", 8, "cow", {}),
    ("1.2.0", 8, "mor", AVRO),
    ("1.1.1", 8, "cow", {}),
]


@pytest.mark.conformance(2, 3, 4, 6, 7, 8, 11, 12, 15, 16, 17, 18, 21, 22, 33, 35)
@pytest.mark.parametrize(
    ("hudi", "version", "kind", "options"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG)],
    ids=lambda value: str(value)[:6],
)
def test_both_agree_after_each_of_thirty_turns(
    hudi: str,
    version: int,
    kind: str,
    options: dict[str, str],
    tmp_path: Path,
    apache_hudi: Callable[[str], ApacheHudi],
) -> None:
    both = Both(
        tmp_path / "t", apache_hudi(hudi), version=version, table_type=kind, options=options
    )
    take_turns(both, [*WRITES, *UNDONE, *(COMPACTED if kind == "mor" else ()), *SERVED])
    self_check(both)


def self_check(both: Both) -> None:
    """Completion times rise with each completion and are later than their instants; hudi-rs, an
    engine of its own, reads the same rows."""
    instants = [i for i in both.table.timeline if i.completed_at is not None]
    done = [i.completed_at for i in instants]
    assert len(set(done)) == len(done) and not set(done) & {i.time for i in instants}
    assert all(i.completed_at is not None and i.completed_at > i.time for i in instants)
    both.turns.hudi_rs_agrees()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (8, "cow")])
def test_apache_hudi_continues_a_metadata_table_that_was_restored_in_place(
    version: int, kind: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    both = Both(tmp_path / "t", apache_hudi("1.2.0"), version=version, table_type=kind)
    both.bulk_insert(range(40))
    both.their_write(range(20, 50))
    both.savepoint()
    both.upsert(range(10))
    both.table.compact() if kind == "mor" else both.table.cluster()
    both.delete(range(3))
    both.their_write(range(60, 64))
    both.restore()
    own = both.path / ".hoodie/metadata/.hoodie/timeline"
    assert any(file.name.endswith(".restore") for file in own.iterdir())
    both.agree()
    both.their_write(range(5, 15))
    both.agree()
    both.upsert(range(12, 70))
    both.agree()


@pytest.mark.conformance(1, 5, 9, 13, 14, 17, 20)
@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (9, "cow"), (8, "mor"), (8, "cow")])
def test_apache_hudi_decodes_slices_and_undoes_what_we_wrote(
    version: int, kind: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    hudi = apache_hudi("1.2.0")
    both = Both(tmp_path / "t", hudi, version=version, table_type=kind, options=AVRO)
    for turn in WRITES:
        turn[1](both)
    both.agree()
    assert decoded_actions(hudi, both.path) >= {"deltacommit" if kind == "mor" else "commit"}
    assert decoded_hfiles(hudi, both.path)
    assert decoded_logs(hudi, both.path) >= 2
    assert their_slices(both) == our_slices(both)
    for act in (
        lambda: both.upsert(range(3)),  # Apache Hudi undoes no commit that began before a
        # compaction of the metadata table: this one runs it
        lambda: both.their_rollback_of_ours(range(10)),
        lambda: both.their_savepoint_and_restore(range(20, 30)),
        lambda: both.their_service("run_clustering", op="scheduleAndExecute"),
        lambda: both.upsert(range(25, 35)),
        lambda: both.insert_during_their_clustering(range(200, 204)),
        lambda: both.upsert(range(5)),
    ):
        act()
        both.agree()
        assert their_slices(both) == our_slices(both)


Slices = dict[tuple[str, str], list[tuple[str, str | None, list[str]]]]


def their_slices(both: Both) -> Slices:
    """(instant, base file, logs) of each slice, newest first, by partition and file id."""
    found = both.hudi.call("slices", path=str(both.path))["partitions"]
    return {
        (partition, group["file_id"]): [
            (each["instant"], each["base_file"], sorted(each["logs"])) for each in group["slices"]
        ]
        for partition, groups in found.items()
        for group in groups
        if group["slices"]
    }


def our_slices(both: Both) -> Slices:
    view = state_of(both.table).view()
    return {
        (id.partition, id.file_id): [
            (each.instant, str(each.base.name) if each.base else None,
             sorted(str(log.name) for log in each.logs))
            for each in group.slices
        ]
        for id, group in view.groups.items()
    }  # fmt: skip
