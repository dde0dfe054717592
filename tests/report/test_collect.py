"""Reports of real tables: facts, damage, bounded work."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, TypeVar

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import TableNotFoundError
from pyhudi.health.findings import Diagnosis
from pyhudi.options import Options
from pyhudi.report import collect
from pyhudi.report.facts import (
    COMMITS_MAX,
    CleaningFacts,
    IndexFacts,
    LogFacts,
    OverlapFacts,
    ReportFacts,
    SizeFacts,
    TimelineFacts,
    Unavailable,
    WriteFacts,
)
from pyhudi.report.page import page_html
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from tests.report.shapes import instant

T = TypeVar("T")
SCHEMA = pa.schema({"id": pa.string(), "city": pa.string(), "fare": pa.float64(), "ts": pa.int64()})


def rows(first: int, count: int, ts: int = 1, city: str = "") -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"k{n:05d}" for n in numbers],
            "city": [city or f"c{n % 3}" for n in numbers],
            "fare": [float(n) for n in numbers],
            "ts": [ts] * count,
        },
        SCHEMA,
    )


def made(path: Path, kind: str = "mor", version: int = 9) -> pyhudi.Table:
    return pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="city", ordering="ts", table_type=kind,
        version=version,
    )  # fmt: skip


def facts_of(table: pyhudi.Table) -> ReportFacts:
    return table.report().facts


def part(value: object, kind: type[T]) -> T:
    assert isinstance(value, kind), value
    return value


def test_an_empty_table_has_empty_facts(tmp_path: Path) -> None:
    report = made(tmp_path / "t").report()
    assert part(report.facts.timeline, TimelineFacts).instants == 0
    assert part(report.facts.files, SizeFacts).file_groups == 0
    assert part(report.facts.writes, WriteFacts).commits == ()
    assert "nothing has been written to this table" in report.to_html()


@pytest.mark.parametrize("version", [6, 9])
def test_the_backlog_of_a_merge_on_read_table(tmp_path: Path, version: int) -> None:
    table = made(tmp_path / "t", version=version)
    table.bulk_insert(rows(0, 90))
    for ts in range(2, 8):
        table.upsert(rows(0, 30, ts))
    table.index.create("column_stats")
    facts = facts_of(table)
    writes = part(facts.writes, WriteFacts)
    assert [c.operation for c in writes.commits] == ["bulk_insert", *["upsert"] * 6]
    assert (writes.changed_rows, writes.written_rows) == (90 + 6 * 30, 90 + 6 * 30)
    assert [c.growth for c in writes.commits] == [90, 0, 0, 0, 0, 0, 0]
    logs = part(facts.logs, LogFacts)
    assert (logs.file_groups, logs.with_logs, logs.log_files) == (3, 3, 18)
    slices = table.file_slices()
    assert logs.log_bytes == sum(s.log_bytes for s in slices)
    assert logs.read_bytes == sum(s.size_bytes for s in slices)
    sizes = part(facts.files, SizeFacts)
    assert (sizes.base_files, sizes.small_files, sizes.partition_count) == (3, 3, 3)
    index = part(facts.index, IndexFacts)
    assert index.stats is not None and index.lookup is not None
    assert index.stats.entries == 90
    overlap = part(facts.overlap, OverlapFacts)
    assert {c.column: (c.depth, c.depth_max) for c in overlap.columns}["id"] == (1.0, 1)
    assert part(facts.diagnosis, Diagnosis).is_healthy
    due = {s.name: s.is_due for s in part(facts.services, tuple)}
    assert due["compaction"] and not due["rollback"]
    assert due == {s.name: s.is_due for s in table.services.run(dry_run=True).services}
    assert all(a.seconds is not None for a in part(facts.timeline, TimelineFacts).actions)


def test_files_that_overlap_have_a_greater_depth(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "cow")
    for first in (0, 10, 20):
        table.bulk_insert(rows(first, 30, city="a"))
    table.index.create("column_stats")
    found = {c.column: c for c in part(facts_of(table).overlap, OverlapFacts).columns}
    assert found["fare"].depth_max == 3  # 0-29, 10-39, 20-49
    assert found["fare"].depth == pytest.approx((1 + 2 + 3 + 3 + 2 + 1) / 6, abs=1e-3)


def test_a_table_without_column_statistics_states_the_remedy(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.insert(rows(0, 3))
    found = part(facts_of(table).overlap, Unavailable)
    assert "pyhudi index create" in found.why


def test_sizes_before_and_after_cleaning(tmp_path: Path) -> None:
    options = {"hoodie.cleaner.commits.retained": 2, "hoodie.clean.automatic": "false"}
    made(tmp_path / "t", "cow")
    table = pyhudi.open_table(tmp_path / "t", options=options)
    for ts in range(6):
        table.upsert(rows(0, 30, ts))
    before = part(facts_of(table).cleaning, CleaningFacts)
    plan = table.clean(dry_run=True)
    assert before.removable_files == plan.files > 0
    assert before.snapshot_files == 3
    table.clean()
    after = part(facts_of(table).cleaning, CleaningFacts)
    assert after.snapshot_bytes == before.snapshot_bytes
    assert after.older_bytes == before.older_bytes - before.removable_bytes
    assert [(r.files, r.known, r.size) for r in after.runs] == [
        (plan.files, plan.files, before.removable_bytes)
    ]
    assert after.removable_files == 0


def test_failed_writes_are_shown(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "cow")
    for ts in range(3):
        table.upsert(rows(0, 6, ts))
    last = table.timeline.commits.last
    assert last is not None
    done = f"{last.time}_{last.completed_at}.commit"
    (tmp_path / "t/.hoodie/timeline" / done).unlink()  # its writer crashed before the commit
    found = part(facts_of(table).timeline, TimelineFacts)
    assert [f.instant for f in found.failures] == [last.time]
    assert sum(lane.pending for lane in found.lanes) == 1
    table.upsert(rows(0, 6, 9))  # rolls it back
    found = part(facts_of(table).timeline, TimelineFacts)
    assert found.rollbacks == 1
    assert [f.what.split()[0] for f in found.failures if f.instant == last.time] == ["undone"]


@pytest.mark.parametrize("damage", ["commit", "properties", "base", "metadata"])
def test_a_damaged_table_gives_a_page_with_the_findings(tmp_path: Path, damage: str) -> None:
    table = made(tmp_path / "t", "cow")
    table.insert(rows(0, 9))
    last = table.upsert(rows(0, 9, 2)).instant
    pattern = {
        "commit": f".hoodie/timeline/{last}_*.commit",
        "properties": ".hoodie/hoodie.properties",
        "base": "c0/*.parquet",
        "metadata": ".hoodie/metadata/files/*",
    }[damage]
    for path in (tmp_path / "t").glob(pattern):
        path.write_bytes(b"\xff{" + path.read_bytes()[:20])
    fs = LocalFileSystem(tmp_path / "t")
    found = collect.collect_facts(fs, table._options, table._engine)
    diagnosis = part(found.diagnosis, Diagnosis)
    assert diagnosis.problems
    assert collect.examine(fs, quick=True).findings == diagnosis.findings


def test_a_partition_named_as_a_script_is_escaped(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.insert(rows(0, 3, city="<script>alert(1)</script>"))
    assert table.partitions() != ["c0"]
    text = table.report().to_html()
    assert "<script" not in text and "&lt;script&gt;" in text


def test_a_missing_table_is_an_error(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(TableNotFoundError):
        collect.collect_facts(LocalFileSystem(tmp_path / "no"), table._options, table._engine)


def test_a_large_table_is_not_checked_and_its_newest_commits_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t", "cow")
    for ts in range(4):
        table.upsert(rows(0, 6, ts))
    monkeypatch.setattr(collect, "CHECKED_INSTANTS_MAX", 3)
    found = facts_of(table)
    assert "not checked: the table has 4 instants" in part(found.diagnosis, Unavailable).why
    assert part(found.cleaning, CleaningFacts).removable_files is None
    assert part(found.files, SizeFacts).base_files == 3


class Watched(MemoryFileSystem):
    """A store that counts what is read from it."""

    reads: ClassVar[list[str]] = []

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        return super().read(path)


def test_of_a_huge_timeline_only_the_newest_commits_are_read(tmp_path: Path) -> None:
    made(tmp_path / "t", "cow", version=6)
    Watched.reads.clear()
    fs = Watched()
    properties = ".hoodie/hoodie.properties"
    fs.create(properties, (tmp_path / "t" / properties).read_bytes())
    for n in range(20_000):
        fs.create(f".hoodie/{instant(n)}.commit", b'{"operationType": "UPSERT"}')
    found = collect.collect_facts(fs, Options(), LocalEngine())
    timeline = part(found.timeline, TimelineFacts)
    assert timeline.instants == 20_000
    assert sum(lane.completed for lane in timeline.lanes) == 20_000
    writes = part(found.writes, WriteFacts)
    assert (len(writes.commits), writes.total) == (COMMITS_MAX, 20_000)
    read = [path for path in fs.reads if path.endswith(".commit")]
    assert len(read) == len(set(read)) == COMMITS_MAX
    assert "20,000 instants" in part(found.diagnosis, Unavailable).why
    assert len(page_html(found)) < 250_000


def test_a_report_is_saved_and_shown_in_notebooks(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.insert(rows(0, 3))
    report = table.report()
    saved = report.save(tmp_path / "report.html")
    assert saved.read_text("utf-8") == report.to_html()
    shown = report._repr_html_()
    assert shown.startswith("<iframe ") and "<section" not in shown
    assert repr(report).startswith("TableReport(")
