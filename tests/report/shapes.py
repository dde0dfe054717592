"""Facts of six shapes of tables, as golden data for the page."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from pyhudi.filenames import BaseFileName, parse_data_file
from pyhudi.health.findings import Diagnosis, Finding, RepairAction, Severity
from pyhudi.index.maintenance.stats import stats_of
from pyhudi.metadata.record_index.index_stats import BucketFigures
from pyhudi.operations.service_runs import Service
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.report.facts import (
    CleaningFacts,
    CleanRun,
    ColumnOverlap,
    CommitPoint,
    FailedWrite,
    IndexFacts,
    Lane,
    LogFacts,
    LookupFacts,
    OverlapFacts,
    ReportFacts,
    SizeFacts,
    SliceFacts,
    TableFacts,
    TimedAction,
    TimelineFacts,
    Unavailable,
    WriteFacts,
)
from pyhudi.report.storage_parts import size_facts
from pyhudi.report.timeline_parts import lanes_of
from pyhudi.table.file_group_view import DataFile, FileSlice
from pyhudi.timeline.instant import Action, Instant, State

MIB = 1 << 20
MADE_AT = "2026-11-22 09:30:00 UTC"
TRIPS = TableFacts(
    "trips", "s3://lake/trips", "MERGE_ON_READ", 9, ("id",), ("city",), ("ts",),
    "EVENT_TIME_ORDERING",
)  # fmt: skip
WRITTEN = replace(
    TRIPS, rows=1_237_340, column_count=203,
    columns=(("id", "string"), ("city", "string"), ("ts", "int64"), ("fare", "double"),
             ("<b>tip</b>", "decimal128(10, 2)"),
             ("route", "list<item: struct<lat: double, lon: double>>")),
)  # fmt: skip
HOSTILE = "<script>alert('x')</script>"


def instant(number: int) -> str:
    """The instant of a number of minutes after midnight."""
    day, minute = divmod(number, 1440)
    month, day = divmod(day, 28)
    return f"2026{month % 12 + 1:02d}{day + 1:02d}{minute // 60:02d}{minute % 60:02d}00000"


def base(partition: str, number: int, size: int) -> FileSlice:
    """A file slice with one base file."""
    file_id = f"{number:08x}-0000-4000-8000-000000000000-0"
    time = InstantTime(instant(number % 1000))
    name = parse_data_file(f"{file_id}_0-0-0_{time}.parquet")
    assert isinstance(name, BaseFileName)
    return FileSlice(FileGroupId(partition, file_id), time, DataFile(name, partition, size))


def empty() -> ReportFacts:
    """A table without a commit."""
    nothing = Diagnosis("s3://lake/trips", (), (("instants", 0),))
    services = (Service("compaction", False, "0 delta commits since the last, due at 5"),)
    return ReportFacts(
        TRIPS, MADE_AT, index=IndexFacts("record"), diagnosis=nothing, services=services
    )


def commits(count: int) -> WriteFacts:
    points = tuple(
        CommitPoint(instant(7 * n), "compact" if n % 6 == 5 else "upsert",
                    0 if n % 6 == 5 else 2_000 + 300 * (n % 7), 48_000 if n % 6 == 5 else
                    9_000 + 800 * (n % 5), (3 + n % 4) * MIB, 8 + n % 3, 900 - 40 * (n % 9))
        for n in range(count)
    )  # fmt: skip
    return WriteFacts(points, count)


def backlog() -> ReportFacts:
    """A merge-on-read table with logs that wait for compaction."""
    slices = tuple(
        SliceFacts(f"city={city}", f"{n:08x}-0000-4000-8000-000000000000-0", 9, (40 - n) * MIB,
                   96 * MIB)
        for n, city in enumerate(["san-francisco", "berlin", "tokyo", HOSTILE])
    )  # fmt: skip
    figures = [BucketFigures(n, 82_000 + 9_100 * n, 800, 12, 2, 3 * MIB) for n in range(10)]
    files = [base(f"city={n % 12}", n, (3 + 11 * n % 140) * MIB) for n in range(60)]
    lanes = (
        Lane("deltacommit", 40, 0, tuple((n * 2, 1 + n % 3, 0) for n in range(40))),
        Lane("compaction", 0, 1, ((95, 0, 1),)),
        Lane("clean", 6, 0, tuple((n * 14, 1, 0) for n in range(6))),
    )
    actions = tuple(
        TimedAction(instant(7 * n), "clean" if n % 6 == 5 else "deltacommit", 1.5 + n % 8 * 0.7,
                    n % 6 == 5)
        for n in range(48)
    )  # fmt: skip
    return ReportFacts(
        WRITTEN, MADE_AT,
        TimelineFacts(47, instant(0), instant(329), lanes, actions, "the timeline"),
        commits(40),
        size_facts(files, 100 * MIB),
        LogFacts(True, 60, 23, 180, 640 * MIB, 4_200 * MIB, 2_900 * MIB, 14, (instant(329),),
                 slices),
        IndexFacts("record", stats_of(figures),
                   LookupFacts(32, 20, 0.00031, 0.0214, 0.00036)),
        OverlapFacts((ColumnOverlap("ts", 60, 1.31, 3, True), ColumnOverlap("fare", 60, 4.8, 5)),
                     60, 60),
        Diagnosis("s3://lake/trips", (), (("instants", 47), ("data files", 240))),
        (Service("compaction", True, "14 delta commits since the last, due at 5"),
         Service("clean", False, "too few commits since the last clean")),
        CleaningFacts(240, 4_840 * MIB, 110, 2_100 * MIB, 64, 1_300 * MIB,
                      (CleanRun(instant(210), 41, 41, 800 * MIB), CleanRun(instant(300), 9, 0, 0))),
    )  # fmt: skip


def huge_timeline() -> ReportFacts:
    """A table with 100,000 instants, whose checks are left out."""
    states = (State.COMPLETED, State.COMPLETED, State.COMPLETED, State.REQUESTED)
    instants = tuple(
        Instant(InstantTime(instant(n)), Action.CLEAN if n % 9 == 8 else Action.DELTA_COMMIT,
                states[n % 4 if n > 99_000 else 0])
        for n in range(100_000)
    )  # fmt: skip
    timeline = TimelineFacts(
        len(instants), instants[0].time, instants[-1].time, lanes_of(instants),
        durations_from="the timeline",
    )  # fmt: skip
    writes = replace(commits(100), total=88_889)
    why = Unavailable("not checked: the table has 100,000 instants; run `pyhudi doctor PATH`")
    return replace(backlog(), timeline=timeline, writes=writes, diagnosis=why)


def many_partitions() -> ReportFacts:
    """A table with 10,000 partitions."""
    slices = [base(f"date={n:05d}", n, (n % 37 + 1) * 4 * MIB) for n in range(10_000)]
    why = Unavailable("not checked: the table has 10,000 partitions; run `pyhudi doctor PATH`")
    return replace(backlog(), files=size_facts(slices, 100 * MIB), diagnosis=why)


def failed_writes() -> ReportFacts:
    """A table with pending and undone writes."""
    failures = (
        FailedWrite(instant(90), "a deltacommit was not completed and has no running writer"),
        FailedWrite(instant(70), f"undone by the rollback {instant(80)}"),
    )
    pending = Finding(
        "pending-write", Severity.WARNING, f".hoodie/{instant(90)}.deltacommit.inflight",
        "a write was not completed", "its writer crashed or is still running",
        "no action needed: the next write or service rolls it back; repair does so now",
        RepairAction.ROLL_BACK, instant=instant(90),
    )  # fmt: skip
    facts = backlog()
    assert isinstance(facts.timeline, TimelineFacts)
    return replace(
        facts,
        timeline=replace(facts.timeline, failures=failures, rollbacks=1),
        diagnosis=Diagnosis("s3://lake/trips", (pending,), (("instants", 47),)),
        services=(Service("rollback", True, f"writers crashed: {instant(90)}"),),
    )


def damaged() -> ReportFacts:
    """A table whose timeline cannot be read."""
    why = Unavailable("commit metadata is not valid JSON; path=.hoodie/x.commit")
    torn = Finding(
        "torn-commit", Severity.ERROR, f".hoodie/{HOSTILE}.commit",
        "the file of a commit cannot be read", "it was cut off", "repair completes it again",
        RepairAction.RECOMPLETE, loses=True,
    )  # fmt: skip
    return ReportFacts(
        TRIPS, MADE_AT, why, WriteFacts((), 3, 3), SizeFacts(), why, why, why,
        Diagnosis("s3://lake/trips", (torn,)), why, why,
    )  # fmt: skip


SHAPES = {
    shape.__name__: cache(shape)
    for shape in (empty, huge_timeline, many_partitions, failed_writes, backlog, damaged)
}
"""The six shapes, by name."""
