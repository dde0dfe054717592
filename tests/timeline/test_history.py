"""The archived timeline of layout 2: real files are read, ours have their form, nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError, WriteConflictError
from pyhudi.layouts.v8 import V8
from pyhudi.options import ServiceOptions
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.archive import HISTORY, Archive
from pyhudi.timeline.commit_avro import to_avro
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.history.manifest import (
    HistoryFile,
    load_manifest,
    manifest_numbers,
    publish_manifest,
)
from pyhudi.timeline.history.reader import TimelineHistory
from pyhudi.timeline.history.rows import ROWS, read_history_file, write_history_file
from pyhudi.timeline.history.writer import HistoryFiles
from pyhudi.timeline.instant import Action, Instant, State, file_name
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from tests.support.examples import examples
from tests.support.filesystems import OpenCountingFileSystem, every_stop, tree
from tests.support.golden import unzipped

GOLDEN = Path(__file__).parents[1] / "golden"
TABLES = {
    "archived_cow_v8": GOLDEN / "foreign" / "archived_cow_v8.zip",
    "arch_mor_v9": GOLDEN / "queries" / "arch_mor_v9.zip",
}
FEW = ServiceOptions(history_merge_count=3)
CONTENT = to_avro(CommitMetadata())
COMMIT, CLEAN = Action.COMMIT, Action.CLEAN


def real_table(name: str) -> MemoryFileSystem:
    return unzipped(TABLES[name])


def time_of(number: int) -> InstantTime:
    return InstantTime(f"{20260101000000000 + number:017d}")


def completed(number: int, action: Action = COMMIT) -> Instant:
    return Instant(time_of(number), action, State.COMPLETED, time_of(number + 1))


def active(*instants: Instant) -> MemoryFileSystem:
    """A store whose active timeline has these completed instants, with all their states."""
    fs = MemoryFileSystem()
    for instant in instants:
        for state in State:
            name = file_name(Instant(instant.time, instant.action, state, instant.completed_at))
            plan = instant.action is CLEAN and state is not State.COMPLETED
            content = b"" if state is not State.COMPLETED and not plan else CONTENT
            fs.create(f".hoodie/timeline/{name}", content)
    return fs


def history(fs: FileSystem) -> HistoryFiles:
    return HistoryFiles(TimelineLog(fs, layout=V8), HISTORY)


def archive(fs: FileSystem, instants: list[Instant], rules: ServiceOptions = FEW) -> int:
    """One run of archival, as the service does it."""
    files = history(fs)
    there = files.recorded(Timeline.of(instants))
    fresh = [i for i in instants if (i.time, i.action) not in there]
    if fresh:
        files.append(fresh, batch=2)
    files.remove(instants)
    return files.maintain(rules)


def archived(fs: FileSystem) -> list[Instant]:
    return TimelineHistory(fs, HISTORY).instants()


def rows_of(fs: FileSystem) -> list[dict[str, object]]:
    """All rows of all live files, duplicates included."""
    files = load_manifest(fs, HISTORY).files
    tables = [t for file in files for t in read_history_file(fs, HISTORY, file)]
    found: list[dict[str, object]] = pa.concat_tables([ROWS.empty_table(), *tables]).to_pylist()
    return found


@pytest.mark.parametrize("name", TABLES)
def test_manifests_of_apache_hudi_are_written_back_byte_for_byte(name: str) -> None:
    fs = real_table(name)
    number = load_manifest(fs, HISTORY).number
    assert number == int(fs.read(f"{HISTORY}/_version_"))
    files = load_manifest(fs, HISTORY).files
    ours = MemoryFileSystem()
    for count in range(1, number + 1):
        publish_manifest(ours, HISTORY, load_manifest(ours, HISTORY), files)
        assert load_manifest(ours, HISTORY).number == count
    for path in (f"manifest_{number}", "_version_"):
        assert ours.read(f"{HISTORY}/{path}") == fs.read(f"{HISTORY}/{path}")


@pytest.mark.parametrize("name", TABLES)
def test_files_have_the_schema_and_the_footer_of_apache_hudi(name: str) -> None:
    fs, ours = real_table(name), MemoryFileSystem()
    for file in load_manifest(fs, HISTORY).files:
        rows = list(read_history_file(fs, HISTORY, file))
        made = write_history_file(ours, HISTORY, file.name, rows)
        assert made.size_bytes == ours.size(f"{HISTORY}/{file.name}")
        theirs = pq.ParquetFile(fs.arrow_file(f"{HISTORY}/{file.name}"))
        copy = pq.ParquetFile(ours.arrow_file(f"{HISTORY}/{file.name}"))
        assert copy.metadata.metadata == theirs.metadata.metadata
        for index in range(len(theirs.schema)):
            assert str(copy.schema.column(index)) == str(theirs.schema.column(index))
            assert copy.metadata.row_group(0).column(index).compression == "GZIP"
        assert copy.schema_arrow.equals(theirs.schema_arrow, check_metadata=True)
        assert copy.read().equals(theirs.read())


def test_a_row_records_the_files_of_its_instant() -> None:
    fs = real_table("arch_mor_v9")
    log = TimelineLog(fs, layout=V8)
    instants = list(log.load().where(None, State.COMPLETED))
    before = tree(fs, ".hoodie/timeline")
    known = {str(row["instantTime"]) for row in rows_of(fs)}
    archive(fs, instants)
    made = {row["instantTime"]: row for row in rows_of(fs) if row["instantTime"] not in known}
    assert len(made) == len(instants)
    for instant in instants:
        row = made[instant.time]
        assert row["completionTime"] == instant.completed_at
        assert row["action"] == instant.action.value and row["version"] == 1
        assert row["metadata"] == before[f".hoodie/timeline/{instant}"]
        plan = f".hoodie/timeline/{instant.time}.{{}}.requested"
        planned = [p for p in (plan.format("clean"), plan.format("compaction")) if p in before]
        assert row["plan"] == (before[planned[0]] if planned else None)
    assert not log.load().where(None, State.COMPLETED).instants


def test_a_clustering_records_its_plan_and_an_overwrite_its_inflight_metadata() -> None:
    fs = real_table("archived_cow_v8")
    log = TimelineLog(fs, layout=V8)
    (clustering,) = log.load().where({Action.REPLACE_COMMIT}, State.COMPLETED)
    plan = fs.read(f".hoodie/timeline/{clustering.time}.clustering.requested")
    overwrite = Instant(time_of(5), Action.REPLACE_COMMIT, State.COMPLETED, time_of(6))
    name = f".hoodie/timeline/{overwrite.time}"
    fs.create(f"{name}.replacecommit.requested", b"requested")
    fs.create(f"{name}.replacecommit.inflight", b"inflight")
    fs.create(f".hoodie/timeline/{overwrite}", b"")
    history(fs).append([clustering, overwrite], batch=10)
    made = {row["instantTime"]: row for row in rows_of(fs)}
    assert made[clustering.time]["plan"] == plan
    assert made[overwrite.time]["plan"] == b"inflight"
    assert made[overwrite.time]["metadata"] is None


def test_a_commit_that_is_stored_as_json_is_archived_as_avro() -> None:
    """A file name without completion time: Apache Hudi reads it as a commit of layout 1."""
    fs = MemoryFileSystem()
    commit = CommitMetadata(operation="UPSERT", extra={"schema": "{}"})
    instant = Instant(time_of(1), COMMIT, State.COMPLETED)
    fs.create(f".hoodie/timeline/{instant}", commit.to_json())
    archive(fs, [instant])
    (row,) = rows_of(fs)
    assert bytes(row["metadata"])[:4] == b"Obj\x01"  # type: ignore[call-overload]
    assert row["completionTime"] == instant.time
    (entry,) = Archive(fs, layout=V8, folder="").commits
    assert entry.metadata == commit


def test_every_action_has_its_completion_time_and_metadata_instants_have_20_digits() -> None:
    old = Instant(InstantTime("20250101000000000001"), Action.COMMIT, State.COMPLETED, time_of(0))
    rest = [completed(1), completed(3, CLEAN), completed(5, Action.ROLLBACK)]
    fs = active(old, *rest)
    archive(fs, [old, *rest])
    found = Archive(fs, layout=V8, folder="")
    assert dict(found.completions) == {i.time: i.completed_at for i in (old, *rest)}
    assert found.completions.get(time_of(2)) is None
    assert list(found.timeline) == [old, *rest]


def test_a_row_without_metadata_is_a_commit_that_lists_nothing() -> None:
    fs = MemoryFileSystem()
    rows = pa.Table.from_pylist(
        [{"instantTime": time_of(1), "action": "commit", "version": 1}], ROWS
    )
    made = write_history_file(fs, HISTORY, f"{time_of(1)}_{time_of(1)}_0.parquet", [rows])
    publish_manifest(fs, HISTORY, load_manifest(fs, HISTORY), [made])
    (entry,) = Archive(fs, layout=V8, folder="").commits
    assert entry.metadata == CommitMetadata() and entry.completed_at is None
    assert Archive(fs, layout=V8, folder="").completions[time_of(1)] == time_of(1)


def test_only_files_that_can_hold_what_is_requested_are_opened() -> None:
    fs = real_table("arch_mor_v9")
    counting = OpenCountingFileSystem(fs)
    found = Archive(counting, layout=V8, folder="")
    assert not found.is_empty and not _files_of(counting)
    file = load_manifest(fs, HISTORY).files[2]
    assert found.completions[file.first] > file.first
    assert found.completions.get(InstantTime(file.first[:-1] + "x")) is None
    assert _files_of(counting) == [file.name]
    since = TimelineHistory(counting, HISTORY).instants(file.first, file.last)
    assert {i.time for i in since} >= {file.first, file.last} and len(since) == 3
    assert _files_of(counting) == [file.name] * 2


def _files_of(fs: OpenCountingFileSystem) -> list[str]:
    return [path.rpartition("/")[2] for path in fs.opened if path.endswith(".parquet")]


def test_levels_are_merged_in_batches() -> None:
    """The example of Apache Hudi 1.2.0 with a batch of three."""
    kinds = [COMMIT, COMMIT, COMMIT, CLEAN, COMMIT, CLEAN, Action.REPLACE_COMMIT, COMMIT]
    instants = [completed(2 * n, kind) for n, kind in enumerate(kinds)]
    fs = active(*instants, completed(90))
    assert archive(fs, instants[:2]) == 0 and archive(fs, instants[2:5]) == 0
    rows = rows_of(fs)
    assert archive(fs, instants[5:]) == 3
    (merged,) = load_manifest(fs, HISTORY).files
    assert merged.name == f"{instants[0].time}_{instants[-1].time}_1.parquet"
    assert len(rows_of(fs)) == 8 and rows_of(fs)[:5] == rows
    assert load_manifest(fs, HISTORY).number == 4
    archive(fs, [completed(90)])
    assert [f.level for f in load_manifest(fs, HISTORY).files] == [1, 0]
    assert manifest_numbers(fs, HISTORY) == [3, 4, 5]
    left = [name for name in fs.names(HISTORY) if name.endswith("_0.parquet")]
    assert len(left) == 4  # the three files that manifest_3 names, and the new one


def test_levels_are_merged_into_levels_and_files_of_old_versions_deleted() -> None:
    instants = [completed(2 * n) for n in range(60)]
    fs = active(*instants)
    fs.create(f"{HISTORY}/notes.txt", b"of a user")
    for number in range(0, 60, 2):
        archive(fs, instants[number : number + 2])
    assert archived(fs) == instants
    files = load_manifest(fs, HISTORY).files
    assert [file.level for file in files] == [3, 1]
    assert [(f.first, f.last) for f in files] == [
        (instants[0].time, instants[53].time),
        (instants[54].time, instants[59].time),
    ]
    assert len(manifest_numbers(fs, HISTORY)) <= 5
    assert len(fs.names(HISTORY)) < 20 and fs.exists(f"{HISTORY}/notes.txt")


def test_a_merge_takes_no_more_files_once_it_is_large() -> None:
    instants = [completed(2 * n) for n in range(3)]
    fs = active(*instants)
    sizes = []
    for instant in instants:
        archive(fs, [instant], ServiceOptions(history_merge_count=9))
        sizes.append(load_manifest(fs, HISTORY).files[-1].size_bytes)
    files = history(fs)
    assert files.merge_level(0, count=3, bytes_max=1) == 0  # one file is larger already
    assert files.merge_level(0, count=3, bytes_max=sizes[0]) == 2
    assert [f.level for f in load_manifest(fs, HISTORY).files] == [1, 0]
    assert archived(fs) == instants


def test_readers_of_an_old_version_continue_with_the_newest() -> None:
    instants = [completed(2 * n) for n in range(12)]
    fs = active(*instants)
    archive(fs, instants[:1])
    early = TimelineHistory(fs, HISTORY)
    seen = early.manifest.files
    for instant in instants[1:]:
        archive(fs, [instant])
    assert not fs.exists(f"{HISTORY}/{seen[0].name}")
    assert early.completions[instants[0].time] == instants[0].completed_at
    assert early.instants() == instants


def test_a_run_that_stops_anywhere_loses_nothing_and_archives_nothing_twice() -> None:
    instants = [completed(2 * n, CLEAN if n % 4 == 3 else COMMIT) for n in range(9)]
    fs = active(*instants)
    fs.create(f".hoodie/.temp/{instants[5].time}/a/f.marker.CREATE", b"")
    for number in (0, 2):
        archive(fs, instants[number : number + 2])
    stops = every_stop(fs, lambda fs: archive(fs, instants[4:7]), after=True)
    for number, stop in enumerate(stops):
        log = TimelineLog(stop.fs, layout=V8)
        on_timeline = set(log.load().where(None, State.COMPLETED))
        assert on_timeline | set(archived(stop.fs)) == set(instants), str(stop)
        chosen = instants[4 : 9 if number % 4 > 1 else 7]  # the next run may choose more
        for _ in range(2):
            archive(stop.fs, chosen)
        times = [row["instantTime"] for row in rows_of(stop.fs)]
        assert times == [i.time for i in instants[: 4 + len(chosen)]], str(stop)
        left = TimelineLog(stop.fs, layout=V8).load()
        assert list(left) == instants[4 + len(chosen) :], str(stop)
        assert _unnamed(stop.fs) == set(), str(stop)


def _unnamed(fs: FileSystem) -> set[str]:
    """Manifests above the current version, and files that no manifest names."""
    now = load_manifest(fs, HISTORY)
    named = {"_version_", *(f"manifest_{n}" for n in range(now.number + 1))}
    for number in manifest_numbers(fs, HISTORY):
        stored = json.loads(fs.read(f"{HISTORY}/manifest_{number}"))
        named |= {entry["fileName"] for entry in stored["files"]}
    return set(fs.names(HISTORY)) - named


@examples(
    10, 25,
    runs=st.lists(st.integers(1, 4), min_size=1, max_size=9),
    kinds=st.lists(
        st.sampled_from([COMMIT, CLEAN, Action.DELTA_COMMIT, Action.ROLLBACK]), min_size=56,
        max_size=56,
    ),
    batch=st.integers(2, 4),
    stops=st.lists(st.integers(0, 40), max_size=4),
)  # fmt: skip
def test_every_archived_instant_is_listed_exactly_once(
    runs: list[int], kinds: list[Action], batch: int, stops: list[int]
) -> None:
    instants = [completed(2 * n, kind) for n, kind in enumerate(kinds)]
    fs = active(*instants)
    rules = ServiceOptions(history_merge_count=batch, history_versions=1 + batch % 3)
    number = 0
    for size in runs:
        chosen = instants[number : number + size]
        if stops:
            found = list(every_stop(fs, lambda fs, c=chosen: archive(fs, c, rules), one_in=7))  # type: ignore[misc]
            fs = found[stops.pop() % len(found)].fs
        archive(fs, chosen, rules)
        number += size
    assert [row["instantTime"] for row in rows_of(fs)] == [i.time for i in instants[:number]]
    assert archived(fs) == instants[:number]
    assert dict(Archive(fs, layout=V8, folder="").completions) == {
        i.time: i.completed_at for i in instants[:number]
    }


@pytest.mark.parametrize(
    "version", [None, b"", b"x", b"9999999999999", b"0", b"1", b"2\n", b"\xff"]
)
def test_the_largest_manifest_counts_where_no_interrupted_run_left_the_version(
    version: bytes | None,
) -> None:
    fs = active(*(completed(2 * n) for n in range(3)))
    for number in range(3):
        archive(fs, [completed(2 * number)], ServiceOptions())
    fs.delete([f"{HISTORY}/_version_"])
    if version is not None:
        fs.create(f"{HISTORY}/_version_", version)
    assert load_manifest(fs, HISTORY).number == (2 if version == b"2\n" else 3)


def test_a_version_whose_manifest_is_missing_is_reported() -> None:
    fs = active(completed(0))
    archive(fs, [completed(0)])
    fs.replace(f"{HISTORY}/_version_", b"7")
    with pytest.raises(CorruptFileError, match="manifest"):
        load_manifest(fs, HISTORY)


@pytest.mark.parametrize(
    "entry",
    [
        {"fileName": "../../secret_1_0.parquet", "fileLen": 4},
        {"fileName": "1_2_0.parquet/../x", "fileLen": 4},
        {"fileName": "1_2_10.parquet", "fileLen": 4},
        {"fileName": "1_2_0.parquet\n", "fileLen": 4},
        {"fileName": "1_2_0.parquet", "fileLen": -1},
        {"fileName": "1_2_0.parquet", "fileLen": "4"},
        {"fileName": "1_2_0.parquet", "fileLen": True},
        {"fileName": None, "fileLen": 4},
        {"fileLen": 4},
        {"fileName": "1_2_0.parquet"},
        "1_2_0.parquet",
    ],
)
def test_an_invalid_manifest_entry_is_refused(entry: object) -> None:
    fs = MemoryFileSystem()
    fs.create(f"{HISTORY}/_version_", b"1")
    fs.create(f"{HISTORY}/manifest_1", json.dumps({"files": [entry]}).encode())
    with pytest.raises(CorruptFileError, match="manifest"):
        load_manifest(fs, HISTORY)
    with pytest.raises(CorruptFileError):
        history(fs).maintain(FEW)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", b'{"files": 3}', b"[" * 100_000])
def test_a_file_that_is_no_manifest_is_refused(text: bytes) -> None:
    fs = MemoryFileSystem()
    fs.create(f"{HISTORY}/manifest_3", text)
    with pytest.raises(CorruptFileError, match="manifest"):
        load_manifest(fs, HISTORY)


def test_unknown_fields_of_a_manifest_are_ignored() -> None:
    fs = MemoryFileSystem()
    text = {"files": [{"fileName": "1_2_0.parquet", "fileLen": 4, "x": 1}], "y": 2}
    fs.create(f"{HISTORY}/manifest_1", json.dumps(text).encode())
    assert load_manifest(fs, HISTORY).files == (HistoryFile("1_2_0.parquet", 4),)


def test_a_file_that_is_torn_missing_or_of_another_length_is_reported() -> None:
    fs = active(completed(0), completed(2))
    archive(fs, [completed(0), completed(2)])
    path = f"{HISTORY}/{load_manifest(fs, HISTORY).files[0].name}"
    whole = fs.read(path)
    for cut in range(0, len(whole), 101):
        fs.replace(path, whole[:cut])
        with pytest.raises(CorruptFileError, match="length"):
            archived(fs)
    for cut in range(0, len(whole), 7):
        fs.replace(path, whole[:cut] + bytes(len(whole) - cut))
        with pytest.raises(CorruptFileError):
            archived(fs)
    fs.delete([path])
    with pytest.raises(CorruptFileError, match="missing"):
        archived(fs)


@pytest.mark.parametrize("name", TABLES)
def test_a_changed_byte_is_reported_or_changes_nothing_else(name: str) -> None:
    fs = real_table(name)
    file = load_manifest(fs, HISTORY).files[-1]
    path = f"{HISTORY}/{file.name}"
    whole = fs.read(path)
    known = TimelineHistory(fs, HISTORY).contents()
    reported = 0
    for at in range(0, len(whole), 7):
        fs.replace(path, whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            found = TimelineHistory(fs, HISTORY).contents()
        except CorruptFileError:
            reported += 1
        else:
            assert len(found) == len(known)
    assert reported > 100


def test_no_byte_of_a_footer_that_is_zeroed_drops_instants() -> None:
    """Footers of Parquet have no checksum, and one of their bytes is the number of rows."""
    instants = [completed(number) for number in range(8)]
    fs = active(*instants)
    history(fs).append(instants, batch=10)
    (file,) = load_manifest(fs, HISTORY).files
    path = f"{HISTORY}/{file.name}"
    whole, known = fs.read(path), TimelineHistory(fs, HISTORY).instants()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    reported = 0
    for at in range(start, len(whole)):
        fs.replace(path, whole[:at] + bytes(1) + whole[at + 1 :])
        try:
            assert TimelineHistory(fs, HISTORY).instants() == known, at
        except CorruptFileError:
            reported += 1
    assert reported > 100


@pytest.mark.parametrize(
    "columns",
    [
        {"instantTime": [None]},
        {"instantTime": ["../x"]},
        {"instantTime": pa.array([4])},
        {"action": pa.array([4])},
        {"completionTime": None},
    ],
)
def test_rows_of_another_shape_are_refused(columns: dict[str, object]) -> None:
    row = {"instantTime": ["1"], "completionTime": ["2"], "action": ["commit"], **columns}
    fs = MemoryFileSystem()
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({k: v for k, v in row.items() if v is not None}), sink)
    data = sink.getvalue().to_pybytes()
    fs.create(f"{HISTORY}/1_1_0.parquet", data)
    publish_manifest(
        fs, HISTORY, load_manifest(fs, HISTORY), [HistoryFile("1_1_0.parquet", len(data))]
    )
    with pytest.raises(CorruptFileError):
        archived(fs)


def test_files_of_other_writers_are_merged() -> None:
    """As 1.2.0 does: other codecs, no footer entries, wider types."""
    fs = active(completed(10))
    rows = pa.table(
        {
            "instantTime": pa.array([time_of(1)], pa.large_string()),
            "completionTime": [time_of(2)], "action": ["commit"],
            "metadata": pa.array([b"m"], pa.large_binary()), "plan": pa.nulls(1, pa.binary()),
            "version": pa.array([1], pa.int64()),
        }
    )  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    name = f"{time_of(1)}_{time_of(1)}_0.parquet"
    fs.create(f"{HISTORY}/{name}", data)
    text = json.dumps({"files": [{"fileName": name, "fileLen": len(data)}]})
    fs.create(f"{HISTORY}/manifest_1", text.encode())
    assert archive(fs, [completed(10)], ServiceOptions(history_merge_count=2)) == 2
    assert next(row["metadata"] for row in rows_of(fs)) == b"m"
    assert [i.time for i in archived(fs)] == [time_of(1), time_of(10)]


def test_two_archivers_at_once_conflict() -> None:
    fs = active(completed(0))

    class Late(MemoryFileSystem):
        """Another process creates the manifest first."""

        def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:  # type: ignore[override]
            if "manifest" in path:
                super().create(path, b"of the other")
            return super().create(path, data, durable=durable)

    with pytest.raises(WriteConflictError):
        history(Late(fs.store)).append([completed(0)], batch=1)
    assert completed(0) in set(TimelineLog(fs, layout=V8).load())
