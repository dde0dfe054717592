"""Services after a write and `services.run` use one policy: what is due to one is due to both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.operations.service_runs import after_write
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.table.properties import TableType
from pyhudi.timeline.instant import Action, State
from pyhudi.write.table_creation import NewTable
from pyhudi.write.write_report import WriteReport
from tests.crash.torn import SCHEMA, rows
from tests.support.filesystems import clone

QUIET = {
    "hoodie.table.services.enabled": "false",
    "hoodie.metadata.enable": "false",
}
ALL_INLINE = {
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "100",
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": "100",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "100",
    "hoodie.partition.ttl.inline": "true",
    "hoodie.clean.commits.retained": "50",
    "hoodie.keep.min.commits": "51",
    "hoodie.keep.max.commits": "52",
}
"""Every service runs after a write, and none is due."""

NAMES = {
    "expiry": "partition TTL", "compaction": "compaction", "log compaction": "log compaction",
    "clustering": "clustering", "clean": "clean", "archived": "archival",
}  # fmt: skip


def opened(fs: MemoryFileSystem, **options: str) -> Table:
    return Table(fs, options=parse_options(options), engine=LocalEngine(1))


def written(kind: TableType, *, writes: int = 8) -> tuple[MemoryFileSystem, WriteReport]:
    """A table of two partitions that no service has run on, and the report of its last write."""
    fs = MemoryFileSystem(MemoryStore(), "table")
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), parse_options(QUIET)))
    table = opened(fs, **QUIET)
    for ts in range(writes):
        report = table.upsert(rows(range(4), ts))
    return fs, report


def ran_inline(fs: MemoryFileSystem, report: WriteReport, options: dict[str, str]) -> set[str]:
    done = after_write(clone(fs), parse_options(options), LocalEngine(1), report)
    notes = done.notes[len(report.notes) :]
    return {NAMES[max((n for n in NAMES if note.startswith(n)), key=len)] for note in notes}


def ran_in_services(fs: MemoryFileSystem, options: dict[str, str]) -> set[str]:
    report = opened(clone(fs), **options).services.run()
    assert not report.errors
    return {s.name for s in report.services if s.did} - {"leftovers"}


@pytest.mark.parametrize(
    ("kind", "options", "due"),
    [
        (TableType.MERGE_ON_READ, {}, set()),
        (TableType.MERGE_ON_READ, {"hoodie.compact.inline.max.delta.commits": "5"}, {"compaction"}),
        (
            TableType.MERGE_ON_READ,
            {"hoodie.log.compaction.blocks.threshold": "5"},
            {"log compaction"},
        ),
        (TableType.MERGE_ON_READ, {"hoodie.clustering.inline.max.commits": "5"}, {"clustering"}),
        (
            TableType.MERGE_ON_READ,
            {"hoodie.clustering.inline": "false", "hoodie.clustering.inline.max.commits": "5"},
            set(),
        ),
        (TableType.COPY_ON_WRITE, {"hoodie.clean.commits.retained": "1"}, {"clean"}),
        (
            TableType.COPY_ON_WRITE,
            {"hoodie.clean.commits.retained": "1", "hoodie.clean.trigger.max.commits": "9"},
            set(),
        ),
        (
            TableType.COPY_ON_WRITE,
            {
                "hoodie.clean.commits.retained": "1",
                "hoodie.keep.min.commits": "2",
                "hoodie.keep.max.commits": "3",
            },
            {"clean", "archival"},
        ),
    ],
)
def test_what_is_due_after_a_write_is_due_to_services_run(
    kind: TableType, options: dict[str, str], due: set[str]
) -> None:
    fs, report = written(kind)
    given = ALL_INLINE | options
    assert ran_inline(fs, report, given) == due
    assert ran_in_services(fs, given) == due


def test_expired_partitions_are_due_to_both(monkeypatch: pytest.MonkeyPatch) -> None:
    fs, report = written(TableType.COPY_ON_WRITE, writes=1)
    given = ALL_INLINE | {"hoodie.partition.ttl.strategy.days.retain": "2"}
    assert ran_inline(fs, report, given) == ran_in_services(fs, given) == set()
    later = datetime.now(UTC) + timedelta(days=3)
    monkeypatch.setattr("pyhudi.operations.ttl.system_clock", lambda: later)
    assert ran_inline(fs, report, given) == ran_in_services(fs, given) == {"partition TTL"}


def test_a_planned_compaction_is_due_whatever_the_trigger_says() -> None:
    """As in Apache Hudi, which runs pending plans before it plans anew after a write."""
    fs, report = written(TableType.MERGE_ON_READ)
    assert opened(fs, **QUIET).schedule_compaction() is not None
    assert ran_inline(fs, report, ALL_INLINE) == {"compaction"}
    assert ran_in_services(fs, ALL_INLINE) == {"compaction"}


def test_a_planned_clustering_is_due_whatever_the_trigger_says() -> None:
    fs, report = written(TableType.COPY_ON_WRITE)
    assert opened(fs, **QUIET).schedule_clustering(["ts"]) is not None
    assert ran_inline(fs, report, ALL_INLINE) == {"clustering"}
    assert ran_in_services(fs, ALL_INLINE) == {"clustering"}


def test_nothing_more_is_planned_while_a_plan_is_pending() -> None:
    fs, _ = written(TableType.MERGE_ON_READ, writes=2)
    assert opened(fs, **QUIET).schedule_compaction() is not None
    planning = {
        "hoodie.metadata.enable": "false",
        "hoodie.compact.schedule.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.partition.ttl.inline": "false",
    }
    table = opened(fs, **planning)
    new = rows(range(4), 1).set_column(2, "part", [["new"] * 4])
    ids = [f"new{n}" for n in range(4)]
    new = new.set_column(0, "id", [ids])
    for _ in range(2):
        table.upsert(new)
    assert len(table.timeline.where({Action.COMPACTION}, State.REQUESTED)) == 1
