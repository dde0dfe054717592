"""Which files a reader may see, cut into slices: pure, from names and a timeline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import UnsupportedTableError
from pyhudi.filenames import LogFileName
from pyhudi.layouts.v6 import V6
from pyhudi.layouts.v8 import V8
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileInfo
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.file_group_view import FileSlice, PendingPlans, TableView, Visibility, build_view
from pyhudi.table.listing import StoreListing, ensure_partition, partition_metafile
from pyhudi.table.properties import TableConfig
from pyhudi.table.timeline_facts import (
    check_not_bootstrapped,
    check_readable,
    load_view,
    pending_plans,
    replaced_groups,
)
from pyhudi.timeline.archive import HISTORY, Archive
from pyhudi.timeline.history.writer import HistoryFiles
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.checks import is_partition
from pyhudi.timeline.service_payloads import COMPACTION_PLAN, write_avro
from pyhudi.timeline.timeline import Timeline
from tests.support.golden import golden_names, golden_table
from tests.support.shells import ShellWrite, T, base, delta, ticking

P = "p"


def done(*times: InstantTime, action: Action = Action.DELTA_COMMIT) -> list[Instant]:
    return [Instant(t, action, State.COMPLETED) for t in times]


def view_of(names: list[object], instants: list[Instant], **options: object) -> TableView:
    limit = options.pop("limit", None)
    options.setdefault("layout", V6)
    files = [(P, FileInfo(f"{P}/{name}", 10)) for name in names]
    visibility = Visibility.of(Timeline.of(instants), limit=limit)  # type: ignore[arg-type]
    return build_view(files, visibility, **options)  # type: ignore[arg-type]


def shown(slices: list[FileSlice]) -> dict[str, tuple[str, str | None, list[int]]]:
    """file id -> slice instant, base instant, log versions."""
    return {
        s.file_id: (
            s.instant,
            s.base.name.instant if s.base else None,
            [log.name.version for log in s.logs],  # type: ignore[union-attr]
        )
        for s in slices
    }


def test_the_newest_committed_slice_is_read_with_its_logs_in_order() -> None:
    names = [
        base("a", T[1]),
        delta("a", T[1], 10),
        delta("a", T[1], 2),
        delta("a", T[1], 1),
        base("a", T[0]),
        delta("a", T[0], 7),
        base("b", T[0]),
    ]
    view = view_of(names, done(T[0], T[1]))
    assert shown(view.latest_slices()) == {
        "a": (T[1], T[1], [1, 2, 10]),
        "b": (T[0], T[0], []),
    }
    assert [s.size_bytes for s in view.latest_slices()] == [40, 10]


def test_files_of_writes_that_did_not_complete_are_invisible() -> None:
    names = [base("a", T[1]), base("a", T[3]), base("new", T[3]), delta("fresh", T[3], 1)]
    pending = [Instant(T[3], Action.DELTA_COMMIT, State.INFLIGHT)]
    view = view_of(names, [*done(T[1], T[2]), *pending])
    assert shown(view.latest_slices()) == {"a": (T[1], T[1], [])}
    # and once rolled back, too: it is after the timeline's start
    assert shown(view_of(names, done(T[1], T[2])).latest_slices()) == {"a": (T[1], T[1], [])}


def test_files_from_before_the_active_timeline_are_committed() -> None:
    view = view_of([base("a", T[1]), base("b", T[3])], done(T[5]))
    assert set(shown(view.latest_slices())) == {"a", "b"}


def test_a_failed_write_older_than_every_commit_is_invisible() -> None:
    """A table's first write failed, and a writer that knows no rollback committed behind it."""
    failed = [Instant(T[1], Action.DELTA_COMMIT, State.INFLIGHT)]
    names = [base("a", T[1]), base("b", T[2])]
    assert set(shown(view_of(names, [*failed, *done(T[2])]).latest_slices())) == {"b"}


def test_commits_retained_by_a_savepoint_do_not_start_the_timeline() -> None:
    """T1 is savepointed and stays while T2, T3 are archived: T3's files are committed."""
    saved = [Instant(T[1], Action.SAVEPOINT, State.COMPLETED)]
    view = view_of([base("a", T[3])], [*done(T[1], T[6]), *saved])
    assert set(shown(view.latest_slices())) == {"a"}
    assert set(shown(view_of([base("a", T[3])], done(T[1], T[6])).latest_slices())) == set()


def test_as_of_an_instant_later_slices_are_not_there() -> None:
    names = [base("a", T[1]), base("a", T[3]), delta("a", T[1], 1), base("b", T[3])]
    instants = done(T[1], T[2], T[3])
    assert shown(view_of(names, instants, limit=T[2]).latest_slices()) == {"a": (T[1], T[1], [1])}
    assert shown(view_of(names, instants, limit=T[0]).latest_slices()) == {}


GROUP_A = FileGroupId(P, "a")


def test_a_pending_compactions_slice_is_read_over_the_one_before() -> None:
    names = [base("a", T[1]), delta("a", T[1], 1), delta("a", T[3], 1), delta("a", T[3], 2)]
    pending = PendingPlans(compacting={GROUP_A: T[3]})
    instants = [*done(T[1], T[2], T[4]), Instant(T[3], Action.COMPACTION, State.INFLIGHT)]
    view = view_of(names, instants, pending=pending)
    assert shown(view.latest_slices()) == {"a": (T[1], T[1], [1, 1, 2])}
    assert shown(view.latest_base_slices()) == {"a": (T[1], T[1], [])}


def test_a_base_file_that_a_pending_compaction_has_left_is_not_read() -> None:
    names = [base("a", T[1]), base("a", T[3]), delta("a", T[3], 1)]
    pending = PendingPlans(compacting={GROUP_A: T[3]})
    instants = [*done(T[1], T[4]), Instant(T[3], Action.COMPACTION, State.INFLIGHT)]
    view = view_of(names, instants, pending=pending)
    assert shown(view.latest_slices()) == {"a": (T[1], T[1], [1])}


def test_a_pending_compaction_of_a_group_of_logs_only() -> None:
    names = [delta("a", T[1], 1), delta("a", T[3], 1)]
    pending = PendingPlans(compacting={GROUP_A: T[3]})
    instants = [*done(T[1], T[4]), Instant(T[3], Action.COMPACTION, State.REQUESTED)]
    view = view_of(names, instants, pending=pending)
    assert shown(view.latest_slices()) == {"a": (T[1], None, [1, 1])}
    assert view.latest_base_slices() == []


def test_as_of_before_a_pending_compaction_its_slice_is_not_there() -> None:
    names = [base("a", T[1]), delta("a", T[3], 1)]
    pending = PendingPlans(compacting={GROUP_A: T[3]})
    instants = [*done(T[1], T[4]), Instant(T[3], Action.COMPACTION, State.REQUESTED)]
    view = view_of(names, instants, pending=pending, limit=T[2])
    assert shown(view.latest_slices()) == {"a": (T[1], T[1], [])}


def test_replaced_groups_are_gone_from_the_replacement_on() -> None:
    names = [base("a", T[1]), base("b", T[2])]
    instants = [*done(T[1]), *done(T[2], action=Action.REPLACE_COMMIT)]
    options = {"replaced": {GROUP_A: T[2]}}
    assert set(shown(view_of(names, instants, **options).latest_slices())) == {"b"}
    assert set(shown(view_of(names, instants, limit=T[1], **options).latest_slices())) == {"a"}


def test_strangers_sidecars_and_change_logs_are_passed_over() -> None:
    names = [
        base("a", T[1]),
        f".{base('a', T[1])}.crc",
        ".hoodie_partition_metadata",
        "part-0000.parquet",
        "notes.txt",
        f".a_{T[1]}.log.1_0-0-0.cdc",
    ]
    assert shown(view_of(names, done(T[1])).latest_slices()) == {"a": (T[1], T[1], [])}


def test_logs_of_table_version_ten_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedTableError, match="version 10"):
        view_of([f"a-0_0-1-2_{T[1]}_1.log.parquet"], done(T[1]))


def test_at_layout_two_a_log_joins_the_slice_its_completion_falls_into() -> None:
    """T2 began before the compaction T3 and ended after it: it belongs on T3's base file."""
    names = [base("a", T[1]), delta("a", T[2], 1), base("a", T[3]), delta("a", T[4], 1)]
    completions = {T[1]: T[1], T[2]: T[5], T[3]: T[3], T[4]: T[6]}
    view = view_of(names, done(T[1], T[2], T[3], T[4]), layout=V8, completions=completions)
    (newest, older) = view.groups[GROUP_A].slices
    assert (newest.instant, [log.name.instant for log in newest.logs]) == (T[3], [T[2], T[4]])
    assert (older.instant, older.logs) == (T[1], ())


def test_at_layout_two_the_archive_reports_when_an_archived_commit_completed() -> None:
    """It is read only where the slice of a log depends on it."""
    requested = []

    def archived() -> dict[InstantTime, InstantTime]:
        requested.append(True)
        return {T[2]: T[5]}

    names = [base("a", T[1]), delta("a", T[2], 1), base("a", T[3])]
    instants = done(T[1], T[2], T[3])
    found = view_of(names, instants, layout=V8, completions={T[3]: T[4]}, archived=archived)
    (newest, _) = found.groups[GROUP_A].slices
    assert [log.name.instant for log in newest.logs] == [T[2]]
    assert requested == [True]
    view_of(names[:2], instants, layout=V8, completions={}, archived=archived)
    assert requested == [True]


def test_at_layout_two_completion_times_come_from_the_archive() -> None:
    """A log of a commit that began before a compaction and completed after it, archived since."""
    fs = MemoryFileSystem()
    ensure_partition(fs, P, T[1])
    for name in (base("a", T[1]), delta("a", T[2], 1), base("a", T[3])):
        fs.create(f"{P}/{name}", b"")
    ended = zip((T[1], T[2], T[3]), (f"{T[1]}0", T[4], T[5]), strict=True)
    instants = [
        Instant(time, Action.DELTA_COMMIT, State.COMPLETED, InstantTime(end)) for time, end in ended
    ]
    for instant in instants:
        fs.create(f".hoodie/timeline/{instant}", b"")
    history = HistoryFiles(TimelineLog(fs, layout=V8), HISTORY)
    history.append(instants[:2], batch=1)
    history.remove(instants[:2])
    timeline = TimelineLog(fs, layout=V8).load()
    archive = Archive(fs, layout=V8, folder="")
    found = load_view(TimelineLog(fs, layout=V8), timeline, StoreListing(fs), archive=archive)
    (newest,) = found.latest_slices()
    assert newest.instant == T[3] and [file.name.instant for file in newest.logs] == [T[2]]


def test_at_layout_two_logs_without_a_base_make_one_slice() -> None:
    names = [delta("a", T[2], 1), delta("a", T[1], 1)]
    completions = {T[1]: T[3], T[2]: T[4]}
    view = view_of(names, done(T[1], T[2]), layout=V8, completions=completions)
    assert shown(view.latest_slices()) == {"a": (T[1], None, [1, 1])}


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from(T[:6]), st.integers(1, 3)),
        max_size=12,
        unique=True,
    ),
    st.sets(st.sampled_from(T[:6])),
    st.none() | st.sampled_from(T[:6]),
    st.randoms(),
)
def test_a_view_does_not_depend_on_the_order_of_files_and_shows_only_what_is_visible(
    found: list[tuple[bool, str, InstantTime, int]],
    completed: set[InstantTime],
    limit: InstantTime | None,
    random: object,
) -> None:
    names = list({str(base(f, t) if is_base else delta(f, t, v)) for is_base, f, t, v in found})
    instants = done(*completed)
    view = view_of(list(names), instants, limit=limit)
    random.shuffle(names)  # type: ignore[attr-defined]
    assert view_of(list(names), instants, limit=limit) == view
    for file_slice in view.latest_slices():
        for file in file_slice.files:
            lost = view.pending.compacting.get(file_slice.group)
            is_based_on_it = isinstance(file.name, LogFileName) and file.name.instant == lost
            assert view.visibility.sees(file.name.instant) or is_based_on_it
        assert list(file_slice.logs) == sorted(file_slice.logs, key=lambda log: log.name.order)  # type: ignore[union-attr]


def test_plans_are_read_from_the_timeline() -> None:
    fs = MemoryFileSystem()
    log = TimelineLog(fs, clock=ticking())
    first = ShellWrite(fs, log).start().put(P, base("a", T[0])).put(P, base("b", T[0]))
    first.commit()
    operations = [{"fileId": "a", "partitionPath": P, "baseInstantTime": T[0]}]
    plan = write_avro(COMPACTION_PLAN, {"operations": operations})
    compaction = ShellWrite(fs, log, Action.COMPACTION, requested=plan)
    ShellWrite(fs, log).start().put(P, delta("a", compaction.time, 1)).commit()
    ShellWrite(fs, log, Action.REPLACE_COMMIT).start().put(P, base("c", T[3])).commit(
        replaced={P: ("b",)}
    )
    timeline = log.load()
    assert pending_plans(log, timeline).compacting == {GROUP_A: compaction.time}
    assert replaced_groups(log, timeline) == {FileGroupId(P, "b"): T[3]}
    view = load_view(log, timeline, StoreListing(fs))
    assert shown(view.latest_slices()) == {"a": (T[0], T[0], [1]), "c": (T[3], T[3], [])}
    past = load_view(log, timeline, StoreListing(fs), limit=T[2])
    assert set(shown(past.latest_slices())) == {"a", "b"}


def test_partitions_are_folders_with_a_metafile_also_inside_others() -> None:
    fs = MemoryFileSystem()
    for partition in ("2024/05/06", "2024/05/07", "x"):
        ensure_partition(fs, partition, T[1])
        ensure_partition(fs, partition, T[2])  # again changes nothing
    fs.create("no/metafile.parquet", b"")
    fs.create(".hoodie/metadata/files/.hoodie_partition_metadata", b"")
    fs.create("x/below/.hoodie_partition_metadata", b"")
    assert StoreListing(fs).partitions() == ["2024/05/06", "2024/05/07", "x", "x/below"]
    text = fs.read("2024/05/06/.hoodie_partition_metadata").decode()
    assert f"commitTime={T[1]}\npartitionDepth=3\n" in text and text.startswith("#partition")
    plain = MemoryFileSystem()
    ensure_partition(plain, "", T[1])
    assert StoreListing(plain).partitions() == [""]
    assert b"partitionDepth=0" in partition_metafile(T[1], "")


def test_a_metafile_that_lost_its_bytes_is_written_again() -> None:
    fs = MemoryFileSystem()
    fs.create("x/.hoodie_partition_metadata", b"")
    ensure_partition(fs, "x", T[1])
    assert fs.read("x/.hoodie_partition_metadata") == partition_metafile(T[1], "x")


@pytest.mark.parametrize(
    ("path", "expected"),
    [("", True), ("a/b", True), ("a=1", True), (".hoodie", False), (".hoodie/metadata", False),
     ("../x", False), ("/a", False), ("a//b", False), (".hoodie2", True)],
)  # fmt: skip
def test_what_can_be_a_partition(path: str, expected: bool) -> None:
    assert is_partition(path) is expected


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.version": "7"},
        {"hoodie.table.version": "10"},
        {"hoodie.table.version": "6", "hoodie.table.base.file.format": "ORC"},
    ],
)
def test_tables_that_cannot_be_read_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(UnsupportedTableError):
        check_readable(TableConfig(properties))
    for version, layout in (("0", "0"), ("5", "1"), ("8", "2"), ("9", "2")):
        stated = {"hoodie.table.version": version, "hoodie.timeline.layout.version": layout}
        check_readable(TableConfig(stated))
    check_readable(TableConfig({}))  # as written before there were versions
    bootstrapped = TableConfig({"hoodie.table.version": "6", "hoodie.bootstrap.base.path": "/x"})
    check_readable(bootstrapped)
    with pytest.raises(UnsupportedTableError, match="bootstrap"):
        check_not_bootstrapped(bootstrapped)


@pytest.mark.parametrize("name", golden_names())
def test_every_golden_view_has_one_base_a_slice_and_all_its_files(name: str) -> None:
    fs = golden_table(name)
    log = TimelineLog(fs)
    view = load_view(log, log.load(), StoreListing(fs))
    assert view.latest_slices()
    for file_slice in view.latest_slices():
        assert fs.size(file_slice.files[0].path) == file_slice.files[0].size_bytes
        versions = [log_file.name.order for log_file in file_slice.logs]  # type: ignore[union-attr]
        assert versions == sorted(set(versions))
