"""The timeline as a value, and its files on a store."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError, FileMissingError, WriteConflictError
from pyhudi.layouts.v8 import V8
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.commit_avro import to_avro
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import COMPLETES_AS, Action, Instant, State, file_name
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import read_commit
from pyhudi.timeline.timeline import Timeline
from tests.support.golden import golden_names, golden_table
from tests.support.shells import T, ticking

INSTANTS = st.builds(
    Instant, st.sampled_from(T[:6]), st.sampled_from(Action), st.sampled_from(State)
)


@given(st.lists(INSTANTS, max_size=20))
def test_each_action_shows_in_its_highest_state_once(found: list[Instant]) -> None:
    timeline = Timeline.of(found)
    keys = [(i.time, COMPLETES_AS[i.action]) for i in timeline]
    assert len(keys) == len(set(keys)) and keys == sorted(keys, key=lambda k: k[0])
    for instant in timeline:
        same = [
            i
            for i in found
            if (i.time, COMPLETES_AS[i.action]) == (instant.time, COMPLETES_AS[instant.action])
        ]
        assert instant in same and instant.state == max(i.state for i in same)
    assert {(i.time, COMPLETES_AS[i.action]) for i in found} == set(keys)


@given(st.lists(INSTANTS, max_size=20), st.randoms())
def test_the_order_of_the_listing_does_not_matter(found: list[Instant], random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    states = [(i.time, COMPLETES_AS[i.action], i.state) for i in Timeline.of(found)]
    assert states == [(i.time, COMPLETES_AS[i.action], i.state) for i in Timeline.of(shuffled)]


def test_a_compaction_is_pending_until_its_commit_is_there() -> None:
    pending = [
        Instant(T[1], Action.COMPACTION, State.REQUESTED),
        Instant(T[1], Action.COMPACTION, State.INFLIGHT),
    ]
    assert Timeline.of(pending).pending.instants == (pending[1],)
    done = Instant(T[1], Action.COMMIT, State.COMPLETED)
    assert Timeline.of([*pending, done]).instants == (done,)


def test_queries() -> None:
    timeline = Timeline.of(
        [
            Instant(T[1], Action.COMMIT, State.COMPLETED),
            Instant(T[2], Action.CLEAN, State.COMPLETED),
            Instant(T[3], Action.REPLACE_COMMIT, State.COMPLETED),
            Instant(T[4], Action.DELTA_COMMIT, State.INFLIGHT),
        ]
    )
    assert [i.time for i in timeline.commits] == [T[1], T[3]]
    assert [i.time for i in timeline.up_to(T[2])] == [T[1], T[2]]
    assert [i.time for i in timeline.after(T[2])] == [T[3], T[4]]
    assert timeline.pending.times == {T[4]} and len(timeline) == 4
    assert timeline.first and timeline.first.time == T[1]
    assert timeline.last and timeline.last.time == T[4]
    assert Timeline().first is None and Timeline().last is None
    assert T[3] in timeline._repr_html_()


def log_of(fs: MemoryFileSystem, start: int = 0) -> TimelineLog:
    return TimelineLog(fs, clock=ticking(start), zone=UTC)


def test_a_write_goes_through_three_files_that_all_stay() -> None:
    fs = MemoryFileSystem()
    log = log_of(fs)
    requested = log.request(Action.COMMIT)
    inflight = log.start(requested, b"{}")
    completed = log.complete(inflight, CommitMetadata(operation="UPSERT").to_json())
    assert [i.name for i in fs.children(".hoodie")] == [
        f"{T[0]}.commit",
        f"{T[0]}.commit.requested",
        f"{T[0]}.inflight",
    ]
    assert log.load().instants == (completed,)
    assert log.commit(completed).operation == "UPSERT"


def test_no_step_is_taken_twice() -> None:
    fs = MemoryFileSystem()
    log = log_of(fs)
    requested = log.request(Action.DELTA_COMMIT)
    inflight = log.start(requested)
    log.complete(inflight, b"{}")
    before = dict(fs.store.files)
    for again in (
        lambda: log.start(requested, b"other"),
        lambda: log.complete(inflight, b"other"),
        lambda: log.request_at(requested.time, Action.DELTA_COMMIT),
    ):
        with pytest.raises(WriteConflictError):
            again()
    assert dict(fs.store.files) == before


def test_a_new_instant_is_later_than_all_others_even_pending_ones_of_a_fast_clock() -> None:
    fs = MemoryFileSystem()
    future = "20991231235959999"
    fs.create(f".hoodie/{future}.clean.requested", b"")
    assert log_of(fs).request(Action.COMMIT).time == InstantTime("21000101000000000")


def test_a_lost_race_for_a_time_draws_again() -> None:
    fs = MemoryFileSystem()
    times: list[InstantTime] = []
    gate = threading.Barrier(4)
    still = datetime(2024, 1, 1, tzinfo=UTC)

    def draw() -> None:
        log = TimelineLog(fs, clock=lambda: still, zone=UTC)
        gate.wait()
        times.extend(log.request(Action.COMMIT).time for _ in range(10))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(times)) == len(times) == 40


def test_states_can_be_taken_back_one_by_one() -> None:
    fs = MemoryFileSystem()
    log = log_of(fs)
    completed = log.complete(log.start(log.request(Action.COMMIT)), b'{"operationType":"INSERT"}')
    assert log.commit(completed).operation == "INSERT"
    log.unpublish(completed)
    (inflight,) = log.load()
    assert inflight.state is State.INFLIGHT
    with pytest.raises(FileMissingError):
        log.commit(completed)  # not even from memory
    log.reopen(inflight)
    (requested,) = log.load()
    assert requested.state is State.REQUESTED
    log.forget(requested)
    assert len(log.load()) == 0
    for step in (log.reopen, log.forget):
        step(inflight)  # again is no error
    log.unpublish(completed)


def test_strangers_and_folders_in_the_timeline_are_passed_over() -> None:
    fs = MemoryFileSystem()
    for name in ("hoodie.properties", "x.commit", f"{T[1]}.commit.tmp", f"{T[1]}.commit/x", "lock"):
        fs.create(f".hoodie/{name}", b"")
    assert len(log_of(fs).load()) == 0


def test_layout_two_lives_in_its_own_folder() -> None:
    fs = MemoryFileSystem()
    name = file_name(Instant(T[1], Action.COMMIT, State.COMPLETED, T[2]))
    fs.create(f".hoodie/timeline/{name}", b"{}")
    fs.create(f".hoodie/{T[5]}.commit", b"{}")
    (instant,) = TimelineLog(fs, layout=V8).load()
    assert (instant.time, instant.completed_at) == (T[1], T[2])


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\xff", b"Obj\x01", b'{"partitionToWriteStats":3}']
)
def test_damaged_commit_metadata_is_reported_as_damaged(content: bytes) -> None:
    fs = MemoryFileSystem()
    fs.create(f".hoodie/{T[1]}.commit", content)
    log = log_of(fs)
    (instant,) = log.load()
    with pytest.raises(CorruptFileError, match=f"{T[1]}.commit"):
        log.commit(instant)


@pytest.mark.parametrize("name", golden_names())
def test_every_golden_timeline_decodes(name: str) -> None:
    fs = golden_table(name)
    for folder in ("", ".hoodie/metadata"):
        log = TimelineLog(fs.sub(folder) if folder else fs)
        timeline = log.load()
        assert folder or len(timeline) > 1
        for instant in timeline:
            if instant in timeline.commits.instants:
                written = log.commit(instant)
                assert read_commit(to_avro(written), path="x") == written
                again = CommitMetadata.from_json(written.to_json(), path="x")
                stats = tuple(replace(stat, previous_base=None) for stat in written.stats)
                assert again == replace(written, stats=stats)
            elif instant.is_completed:
                assert log.record(instant)
            log.requested(instant) if instant.action not in _PLANLESS else None


_PLANLESS = frozenset(
    {Action.COMMIT, Action.DELTA_COMMIT, Action.SAVEPOINT}
)  # their requested files are empty or missing


def test_files_that_look_like_instants_of_the_metadata_table_parse() -> None:
    suffixes = ("010", "011", "001", "002", "006")
    for base, suffix in itertools.product(("00000000000000", T[1]), suffixes):
        fs = MemoryFileSystem()
        fs.create(f".hoodie/{base}{suffix}.deltacommit", b"{}")
        assert [i.time for i in log_of(fs).load()] == [f"{base}{suffix}"]


REQUESTED, INFLIGHT = (Instant(T[1], Action.COMMIT, s) for s in (State.REQUESTED, State.INFLIGHT))
ENDS = [Instant(T[1], Action.COMMIT, State.COMPLETED, at) for at in (T[2], T[3], T[4])]


def twice_completed(*ends: Instant) -> MemoryFileSystem:
    """A timeline of layout 2 whose instant has several completed files, as requests that complete
    it leave them if an earlier one is carried out late."""
    fs = MemoryFileSystem()
    for instant in (REQUESTED, INFLIGHT, *ends):
        content = to_avro(CommitMetadata()) if instant.is_completed else b""
        fs.create(f".hoodie/timeline/{file_name(instant)}", content)
    return fs


def test_an_instant_completed_twice_counts_once_at_its_latest_completion_time() -> None:
    log = TimelineLog(twice_completed(*ENDS), layout=V8)
    assert log.load().instants == (ENDS[-1],)
    assert log.late == tuple(ENDS[:-1])
    for late in log.late:
        log.unpublish(late)
    assert log.load().instants == (ENDS[-1],) and not log.late


def test_a_rollback_of_an_instant_completed_twice_removes_every_completed_file() -> None:
    log = TimelineLog(twice_completed(*ENDS), layout=V8)
    log.unpublish(replace(ENDS[0], completed_at=None))
    assert log.load().instants == (INFLIGHT,)


def test_a_repeated_request_for_a_completed_instant_has_its_completion_time() -> None:
    log = TimelineLog(twice_completed(ENDS[1]), layout=V8, clock=ticking(5), zone=UTC)
    with pytest.raises(WriteConflictError):
        log.complete(INFLIGHT, to_avro(CommitMetadata()))
    assert log.load().instants == (ENDS[1],)
