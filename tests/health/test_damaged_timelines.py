"""A table whose rows can be read can be written after `repair`, however its timeline is damaged."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import CorruptFileError, PyhudiError, UnsupportedTableError, UserError
from pyhudi.health.findings import RepairAction
from pyhudi.storage.memory import MemoryFileSystem
from tests.support.damaged_timelines import Damage, batch, damages, opened, table_of
from tests.support.golden import turns_table

TABLES = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
HALF = ["half_rolled_back_cow_v9", "half_rolled_back_mor_v9", "half_rolled_back_cow_v8"]


def rows(fs: MemoryFileSystem) -> list[str]:
    found = opened(fs).scan(["id", "ts"]).to_arrow().to_pylist()
    return sorted(map(str, found))


def verify(version: int, kind: str, damage: Damage) -> bool:
    """Whether the rows can be read after the damage; asserts that the table can be repaired, with
    these rows, or with those before the damage where a commit is reconstructed."""
    fs = table_of(version, kind)
    sound = rows(fs)
    damage.do(fs)
    try:
        before = rows(fs)
    except PyhudiError:
        return False
    report = opened(fs).repair()
    if any(finding.loses for finding in report.left):
        report = opened(fs).repair(allow_loss=True)  # of a savepoint or of history
    after = rows(fs)
    recompleted = any(step.repair is RepairAction.RECOMPLETE for step in report.steps)
    assert after == before or (recompleted and after == sound), (damage, report)
    assert not opened(fs).doctor().problems, (damage, report)
    opened(fs).upsert(batch(500, 1, 1))
    assert len(rows(fs)) == len(after) + 1, (damage, report)
    assert not opened(fs).doctor().problems, (damage, report)
    return True


@pytest.mark.parametrize("table", [(6, "cow"), (9, "mor")], ids=str)
def test_a_sample_of_damaged_timelines_is_repaired(table: tuple[int, str]) -> None:
    sample = random.Random(26).sample(list(damages(table_of(*table))), 4)
    readable = [verify(*table, damage) for damage in sample]
    assert any(readable)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_damaged_timeline_is_repaired(table: tuple[int, str]) -> None:
    cases = list(damages(table_of(*table)))
    readable = sum(verify(*table, damage) for damage in cases)
    assert readable > len(cases) // 2


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize("cure", ["repair", "rebuild"])
def test_a_half_rollback_of_apache_hudi_is_cured(name: str, cure: str) -> None:
    """Apache Hudi compacts the metadata table, then cannot roll back in it what it compacted."""
    fs = turns_table(name)
    before = rows(fs)
    assert len(before) == 11  # of 12: the rollback had begun, and is completed
    table = opened(fs)
    with pytest.raises(UnsupportedTableError, match="repair"):
        table.upsert(pa.table({"id": ["k0"], "ts": [9]}))
    table.repair() if cure == "repair" else table.metadata.rebuild()
    assert rows(fs) == before
    assert not opened(fs).doctor().findings and not opened(fs).timeline.pending.instants
    assert "record_index" in opened(fs).config.metadata_partitions
    opened(fs).upsert(pa.table({"id": ["k0", "new"], "ts": [9, 9]}))
    assert len(rows(fs)) == 12 and not opened(fs).doctor().problems


VERBS: dict[str, Any] = {
    "upsert": lambda table: table.upsert(pa.table({"id": ["k0"], "ts": [9]})),
    "clean": lambda table: table.clean(),
    "rollback": lambda table: table.rollback(table.timeline.commits.last.time),
    "restore": lambda table: table.restore(table.timeline.commits.last.time),
    "savepoint": lambda table: table.savepoint("x"),
    "index.rebuild": lambda table: table.index.rebuild(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_names_the_repair_that_cures(verb: str) -> None:
    fs = turns_table(HALF[0])
    with pytest.raises(UnsupportedTableError, match=r"run table\.repair\(\)"):
        VERBS[verb](opened(fs))
    opened(fs).repair()
    if verb == "rollback":  # the rebuilt metadata table contains the commit: restore, it says
        commits = opened(fs).timeline.commits
        with pytest.raises(UserError, match="restore to the commit before it"):
            opened(fs).rollback(commits.last.time)
        opened(fs).restore(list(commits)[-2].time)
    else:
        VERBS[verb](opened(fs))
    assert not opened(fs).doctor().problems


@pytest.mark.parametrize("damage", ["lost", "empty"])
def test_rows_in_logs_of_a_compaction_without_plan_are_not_lost(damage: str) -> None:
    """Logs of version 6 name the compaction that they are based on."""
    fs = table_of(6, "mor")
    planned = opened(fs).schedule_compaction()
    assert planned is not None
    opened(fs).upsert(batch(0, 4))
    sound = rows(fs)
    path = f".hoodie/{planned}.compaction.requested"
    fs.delete([path])
    if damage == "empty":
        fs.create(path, b"")
        with pytest.raises(CorruptFileError):
            rows(fs)
    else:
        assert rows(fs) == sound
    assert [problem.code for problem in opened(fs).doctor().problems][-1] == "torn-compaction-plan"
    opened(fs).repair()
    assert rows(fs) == sound
    opened(fs).compact()
    assert rows(fs) == sound
