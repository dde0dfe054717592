"""Rolling back failed writes and the newest commit, on shell tables."""

from __future__ import annotations

import pytest

from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError, UserError
from pyhudi.filenames import METADATA_TABLE, LogFileName, parse_data_file
from pyhudi.formats.log_block import rollback_block
from pyhudi.metadata.bootstrap import create_metadata
from pyhudi.metadata.reader import open_metadata
from pyhudi.records import InstantTime
from pyhudi.recovery.newest_commit import roll_back_newest
from pyhudi.recovery.rollback import failed_writes, roll_back_failed, roll_back_service
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableConfig, TableType
from pyhudi.timeline.instant import Action
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import COMPACTION_PLAN, ROLLBACK_PLAN, write_avro
from tests.support.filesystems import TracingFileSystem, every_stop
from tests.support.shells import (
    ShellWrite,
    T,
    base,
    create_shell,
    data_files,
    delta,
    log_bytes,
    shell_config,
    ticking,
)


def mor(fs: FileSystem) -> TableConfig:
    """Two partitions; in p0 group a (base and a log) and b (base), in p1 group c."""
    config = create_shell(fs, shell_config())
    log = TimelineLog(fs, clock=ticking())
    first = ShellWrite(fs, log).start()
    for partition, file_id in (("p0", "a"), ("p0", "b"), ("p1", "c")):
        first.put(partition, base(file_id, first.time))
    first.commit()
    ShellWrite(fs, log).start().put("p0", delta("a", first.time, 1)).commit()
    return config


def listed_mor(fs: FileSystem) -> TableConfig:
    """The table of `mor`, with a metadata table."""
    return create_metadata(fs, mor(fs), timeline_log(fs), records=None)


def listed(fs: FileSystem, config: TableConfig) -> dict[str, dict[str, int]]:
    """The sizes of the files that the metadata table lists, by partition."""
    log = timeline_log(fs)
    metadata = open_metadata(fs, config, log, log.load())
    assert metadata is not None
    listing = metadata.listing()
    files = listing.files(listing.partitions())
    return {name: {i.name: i.size_bytes for i in infos} for name, infos in files.items()}


def fail_upsert(fs: FileSystem, *, marker: bool = True, token: str = "7-1-2") -> ShellWrite:
    """A write that dies before its commit: logs on a, b; a new group with log; a new base file."""
    write = ShellWrite(fs, timeline_log(fs)).start()
    write.put("p0", delta("a", T[0], 2, token), marker=marker)
    write.put("p0", delta("b", T[0], 1, token), marker=marker)
    write.put("p1", delta("fresh", write.time, 1, token), marker=marker)
    write.put("p1", base("new", write.time, token), marker=marker)
    return write


def timeline_log(fs: FileSystem) -> TimelineLog:
    return TimelineLog(fs, clock=ticking(10))


def undo(
    fs: FileSystem,
    config: TableConfig,
    *,
    by_markers: bool = True,
) -> list[InstantTime]:
    undone = roll_back_failed(
        fs,
        config,
        timeline_log(fs),
        engine=LocalEngine(1),
        by_markers=by_markers,
    )
    return [each.failed.time for each in undone.rolled_back]


def pending(fs: FileSystem) -> list[str]:
    return [str(i) for i in timeline_log(fs).load().pending]


def commands(fs: FileSystem) -> dict[str, bytes]:
    return {p: fs.read(p) for p in data_files(fs) if p.endswith("_1-0-1")}


def test_a_failed_delta_commit_loses_its_files_and_gets_one_command_block_a_slice() -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    before = set(data_files(fs))
    failed = fail_upsert(fs)
    assert undo(fs, config) == [failed.time]
    at = timeline_log(fs).load().last
    assert at is not None and at.action is Action.ROLLBACK and at.is_completed
    block = rollback_block(at.time, failed.time)
    assert len(block) == 105
    assert commands(fs) == {
        f"p0/.a_{T[0]}.log.3_1-0-1": block,
        f"p0/.b_{T[0]}.log.2_1-0-1": block,
    }
    stayed = {f"p0/.a_{T[0]}.log.2_7-1-2", f"p0/.b_{T[0]}.log.1_7-1-2"}
    assert set(data_files(fs)) == before | stayed | set(commands(fs))
    assert pending(fs) == [] and not fs.exists(f".hoodie/.temp/{failed.time}")
    assert not fs.exists(METADATA_TABLE)


def test_the_metadata_table_records_the_exact_size_of_every_log_that_stays() -> None:
    fs = MemoryFileSystem()
    config = listed_mor(fs)
    failed = fail_upsert(fs)
    before = listed(fs, config)
    undo(fs, config)
    size = len(log_bytes(failed.time))
    assert listed(fs, config) == {
        **before,
        "p0": {
            **before["p0"],
            f".a_{T[0]}.log.2_7-1-2": size,
            f".a_{T[0]}.log.3_1-0-1": 105,
            f".b_{T[0]}.log.1_7-1-2": size,
            f".b_{T[0]}.log.2_1-0-1": 105,
        },
    }


@pytest.mark.parametrize("profiled", [True, False])
def test_a_failed_write_without_markers_is_found_by_listing(profiled: bool) -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    before = set(data_files(fs))
    log = timeline_log(fs)
    write = ShellWrite(fs, log)
    profile = (
        b'{"partitionToWriteStats":{"p0":[{"fileId":"","numInserts":1},'
        b'{"fileId":"a","prevCommit":"1"}]}}'
        if profiled
        else b""
    )
    write.start(profile).put("p0", delta("a", T[0], 2, "7-1-2"), marker=False)
    write.put("p1", base("new", write.time), marker=False)
    undo(fs, config)
    assert set(data_files(fs)) - before == {
        f"p0/.a_{T[0]}.log.2_7-1-2",
        f"p0/.a_{T[0]}.log.3_1-0-1",
    }


def test_a_listing_finds_what_markers_find() -> None:
    found = []
    for by_markers in (True, False):
        fs = MemoryFileSystem()
        config = mor(fs)
        failed = fail_upsert(fs)
        assert undo(fs, config, by_markers=by_markers) == [failed.time]
        assert not fs.exists(f".hoodie/.temp/{failed.time}")
        found.append((sorted(data_files(fs)), commands(fs)))
    assert found[0] == found[1] and len(found[0][1]) == 2


def test_a_listing_opens_logs_where_the_profile_names_inserts_alone() -> None:
    """An index that finds rows in logs inserts into groups that exist: no profile names those."""
    fs = MemoryFileSystem()
    config = mor(fs)
    write = ShellWrite(fs, timeline_log(fs))
    write.start(
        b'{"partitionToWriteStats":{"p0":[{"fileId":"","numInserts":1}],'
        b'"p1":[{"fileId":"c","prevCommit":"1"}]}}'
    )
    write.put("p0", delta("b", T[0], 1, "7-1-2"), marker=False)
    write.put("p1", delta("c", T[0], 1, "7-1-2"), marker=False)
    undo(fs, config)
    assert sorted(commands(fs)) == [f"p0/.b_{T[0]}.log.2_1-0-1", f"p1/.c_{T[0]}.log.2_1-0-1"]


def test_a_failed_copy_on_write_commit_loses_its_base_files_only() -> None:
    fs = MemoryFileSystem()
    config = create_shell(fs, shell_config(TableType.COPY_ON_WRITE))
    log = timeline_log(fs)
    first = ShellWrite(fs, log, Action.COMMIT).start().put("p0", base("a", T[10]))
    first.commit()
    before = set(data_files(fs))
    write = ShellWrite(fs, log, Action.COMMIT).start()
    write.put("p0", base("a", write.time), previous=first.time)
    write.put("p0", base("a", write.time, "9-9-9"), previous=first.time)  # a repeated task
    write.put("p2", base("b", write.time))
    assert f"{write.time}.inflight" in pending(fs)
    assert undo(fs, config) == [write.time]
    assert set(data_files(fs)) == before
    assert [i.action for i in timeline_log(fs).load()] == [Action.COMMIT, Action.ROLLBACK]


def test_the_timeline_servers_markers_count_too() -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    write = fail_upsert(fs, marker=False)
    folder = f".hoodie/.temp/{write.time}"
    fs.create(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    fs.create(
        f"{folder}/MARKERS0", f"p1/{base('new', write.time, '7-1-2')}.marker.CREATE\n".encode()
    )
    fs.create(
        f"{folder}/MARKERS13",
        f"p0/{delta('a', T[0], 2, '7-1-2')}.marker.APPEND\n"
        f"p0/{delta('b', T[0], 1, '7-1-2')}.marker.APPEND\n"
        f"p1/{delta('fresh', write.time, 1, '7-1-2')}.marker.APPEND\n".encode(),
    )
    undo(fs, config)
    assert len(commands(fs)) == 2
    assert not [p for p in data_files(fs) if write.time in p]


def test_a_marker_whose_file_was_never_written_does_no_harm() -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    write = ShellWrite(fs, timeline_log(fs)).start()
    write.put("p0", delta("a", T[0], 2))
    fs.delete([f"p0/{delta('a', T[0], 2)}"])
    before = set(data_files(fs))
    assert undo(fs, config) == [write.time]
    assert set(data_files(fs)) == before and pending(fs) == []


def test_a_requested_write_only_leaves_the_timeline() -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    write = ShellWrite(fs, timeline_log(fs))
    before = set(data_files(fs))
    assert undo(fs, config) == [write.time]
    assert set(data_files(fs)) == before and pending(fs) == []


def test_failed_writes_go_newest_first_and_rollbacks_are_newer_than_all_of_them() -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    older, newer = fail_upsert(fs), fail_upsert(fs, token="8-8-8")
    assert undo(fs, config) == [newer.time, older.time]
    rollbacks = [i.time for i in timeline_log(fs).load().where({Action.ROLLBACK})]
    assert min(rollbacks) > newer.time
    targets = [len(v) for v in commands(fs).values()]
    assert targets == [105] * 4
    assert timeline_log(fs).request(Action.DELTA_COMMIT).time > max(rollbacks)


def test_planned_services_are_left_alone() -> None:
    fs = MemoryFileSystem()
    mor(fs)
    log = timeline_log(fs)
    compaction = write_avro(COMPACTION_PLAN, {"operations": []})
    ShellWrite(fs, log, Action.COMPACTION, requested=compaction).start()
    ShellWrite(fs, log, Action.LOG_COMPACTION, requested=compaction)
    cluster = fs  # a clustering is a replace commit whose request says so
    schema = {
        "type": "record",
        "name": "HoodieRequestedReplaceMetadata",
        "fields": [{"name": "operationType", "type": ["null", "string"]}],
    }
    ShellWrite(
        cluster,
        log,
        Action.REPLACE_COMMIT,
        requested=write_avro(schema, {"operationType": "CLUSTER"}),
    )
    log.request(Action.CLEAN)
    overwrite = ShellWrite(
        fs, log, Action.REPLACE_COMMIT, requested=write_avro(schema, {"operationType": None})
    ).start()
    assert [i.time for i in failed_writes(log, log.load())] == [overwrite.time]


def test_a_failed_compaction_goes_back_to_requested_and_keeps_later_logs() -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    log = timeline_log(fs)
    plan = {"operations": [{"fileId": "a", "partitionPath": "p0", "baseInstantTime": T[0]}]}
    work = ShellWrite(
        fs, log, Action.COMPACTION, requested=write_avro(COMPACTION_PLAN, plan)
    ).start()
    late = ShellWrite(fs, log).start().put("p0", delta("a", work.time, 1))
    late.commit()
    before = set(data_files(fs))
    work.put("p0", base("a", work.time))
    done = roll_back_service(fs, config, log, work.instant, engine=LocalEngine(1))
    assert done.deleted == (f"p0/{base('a', work.time)}",)
    assert set(data_files(fs)) == before
    assert pending(fs) == [f"{work.time}.compaction.requested"]


def failed_table() -> tuple[MemoryFileSystem, TableConfig, set[str], ShellWrite]:
    fs = MemoryFileSystem()
    config = listed_mor(fs)
    before = set(data_files(fs))
    return fs, config, before, fail_upsert(fs)


def test_a_rollback_that_dies_anywhere_is_finished_by_the_next_writer_under_its_own_instant() -> (
    None
):
    fs, config, before, failed = failed_table()
    stayed = {f"p0/.a_{T[0]}.log.2_7-1-2", f"p0/.b_{T[0]}.log.1_7-1-2"}
    count = 0
    for stop in every_stop(fs, lambda disk: undo(disk, config), after=True):
        undo(stop.fs, config)
        assert set(data_files(stop.fs)) == before | stayed | set(commands(stop.fs)), stop
        rollbacks = timeline_log(stop.fs).load().where({Action.ROLLBACK})
        assert len(rollbacks) == 1 and len(commands(stop.fs)) == 2, stop
        assert rollbacks.instants[0].is_completed and pending(stop.fs) == [], stop
        block = rollback_block(rollbacks.instants[0].time, failed.time)
        assert set(commands(stop.fs).values()) == {block}, stop
        assert not stop.fs.exists(".hoodie/.temp"), stop
        record = timeline_log(stop.fs).record(rollbacks.instants[0])
        logs = record["partitionMetadata"]["p0"]
        assert len(logs["rollbackLogFiles"]) == len(logs["logFilesFromFailedCommit"]) == 2, stop
        count += 1
    assert count > 30


def test_readers_never_see_part_of_a_commit_that_is_being_rolled_back() -> None:
    """The timeline decides what is read: it must not show X as completed once a file is gone."""
    fs = MemoryFileSystem()
    config = mor(fs)
    write = fail_upsert(fs)
    write.commit()
    whole = set(data_files(fs))

    def act(disk: FileSystem) -> None:
        log = timeline_log(disk)
        roll_back_newest(disk, config, log, write.time, engine=LocalEngine(1))

    for stop in every_stop(fs, act):
        shown = write.time in timeline_log(stop.fs).load().commits.times
        assert not shown or set(data_files(stop.fs)) >= whole, stop
        undo(stop.fs, config)
        if stop.done and "rollback.requested" in "".join(stop.done):
            assert write.time not in timeline_log(stop.fs).load().times, stop
            assert not [p for p in data_files(stop.fs) if write.time in p], stop


def test_the_order_of_a_rollback_is_pinned() -> None:
    fs, config, _, _ = failed_table()
    watched = TracingFileSystem(fs)
    undo(watched, config)
    x, r = T[10], T[11]
    assert [step for step in watched.trace if f"{METADATA_TABLE}/files" not in step] == [
        f"create .hoodie/{r}.rollback.requested",
        f"create .hoodie/{r}.rollback.inflight",
        f"delete .hoodie/{x}.deltacommit",
        f"delete .hoodie/{x}.deltacommit.inflight",
        f"delete p1/.fresh_{x}.log.1_7-1-2",
        f"delete p1/new_7-1-2_{x}.parquet",
        f"create p0/.a_{T[0]}.log.3_1-0-1",
        f"create p0/.b_{T[0]}.log.2_1-0-1",
        f"create {METADATA_TABLE}/.hoodie/{r}.deltacommit.requested",
        f"create {METADATA_TABLE}/.hoodie/{r}.deltacommit.inflight",
        f"create {METADATA_TABLE}/.hoodie/{r}.deltacommit",
        f"delete .hoodie/.temp/{x}/p0/a_7-1-2_{T[0]}.parquet.marker.APPEND",
        f"delete .hoodie/.temp/{x}/p0/b_7-1-2_{T[0]}.parquet.marker.APPEND",
        f"delete .hoodie/.temp/{x}/p1/fresh_7-1-2_{x}.parquet.marker.APPEND",
        f"delete .hoodie/.temp/{x}/p1/new_7-1-2_{x}.parquet.marker.CREATE",
        f"delete folder .hoodie/.temp/{x}",
        "create .hoodie/.pyhudi.rolled_back.1",
        f"delete .hoodie/{x}.deltacommit.inflight",
        f"delete .hoodie/{x}.deltacommit.requested",
        f"delete .hoodie/{x}.deltacommit",
        f"create .hoodie/{r}.rollback",
        f"delete .hoodie/.heartbeat/{x}",
    ]


def test_rolling_back_the_newest_commit_brings_the_one_before_back() -> None:
    fs = MemoryFileSystem()
    config = create_shell(fs, shell_config(TableType.COPY_ON_WRITE))
    log = timeline_log(fs)
    first = ShellWrite(fs, log, Action.COMMIT).start().put("p0", base("a", T[10]))
    first.commit()
    before = set(data_files(fs))
    second = ShellWrite(fs, log, Action.COMMIT).start()
    second.put("p0", base("a", second.time), previous=first.time).put("p1", base("b", second.time))
    second.commit()
    done = roll_back_newest(fs, config, log, second.time, engine=LocalEngine(1))
    assert set(data_files(fs)) == before and len(done.deleted) == 2
    assert [i.time for i in log.load().commits] == [first.time]
    with pytest.raises(UserError, match="only the newest"):
        roll_back_newest(fs, config, log, second.time, engine=LocalEngine(1))


def commit_of_two(fs: FileSystem) -> tuple[TableConfig, ShellWrite, ShellWrite]:
    config = create_shell(fs, shell_config(TableType.COPY_ON_WRITE))
    log = timeline_log(fs)
    first = ShellWrite(fs, log, Action.COMMIT).start().put("p0", base("a", T[10]))
    first.commit()
    second = ShellWrite(fs, log, Action.COMMIT).start()
    second.put("p0", base("a", second.time), previous=first.time)
    second.commit()
    return config, first, second


def refused(fs: MemoryFileSystem, config: TableConfig, time: InstantTime) -> str:
    before = dict(fs.store.files)
    with pytest.raises(UserError) as caught:
        roll_back_newest(fs, config, timeline_log(fs), time, engine=LocalEngine(1))
    assert dict(fs.store.files) == before
    return str(caught.value)


def test_only_the_newest_commit_is_rolled_back() -> None:
    fs = MemoryFileSystem()
    config, first, _ = commit_of_two(fs)
    assert "only the newest" in refused(fs, config, first.time)


def test_a_savepointed_commit_is_not_rolled_back() -> None:
    fs = MemoryFileSystem()
    config, _, second = commit_of_two(fs)
    fs.create(f".hoodie/{second.time}.savepoint", b"x")
    assert "savepoint" in refused(fs, config, second.time)


def test_a_commit_with_a_pending_service_on_top_is_not_rolled_back() -> None:
    fs = MemoryFileSystem()
    config, _, second = commit_of_two(fs)
    timeline_log(fs).request(Action.COMPACTION, b"")
    assert "pending service" in refused(fs, config, second.time)


def test_a_commit_is_not_rolled_back_once_what_it_replaced_is_cleaned() -> None:
    fs = MemoryFileSystem()
    config, first, second = commit_of_two(fs)
    fs.delete([f"p0/{base('a', first.time)}"])
    assert "cleaned" in refused(fs, config, second.time)


def test_a_commit_the_metadata_table_has_compacted_is_not_rolled_back() -> None:
    fs = MemoryFileSystem()
    config, _, second = commit_of_two(fs)
    config = config.changed(hoodie__table__metadata__partitions="files")
    fs.create(f"{METADATA_TABLE}/.hoodie/{second.time}001.commit", b"{}")
    assert "metadata table" in refused(fs, config, second.time)


def test_a_plan_of_apache_hudi_is_finished_even_if_the_table_has_moved() -> None:
    """0.15 writes absolute paths and a size of 1 for the failed logs."""
    fs = MemoryFileSystem()
    config = listed_mor(fs)
    failed = fail_upsert(fs)
    request = {
        "partitionPath": "p0",
        "fileId": "a",
        "latestBaseInstant": T[0],
        "filesToBeDeleted": [],
        "logBlocksToBeDeleted": {str(delta("a", T[0], 2, "7-1-2")): 1},
    }
    deletion = {
        "partitionPath": "p1",
        "fileId": "new",
        "latestBaseInstant": failed.time,
        "filesToBeDeleted": [f"file:/old/place/p1/{base('new', failed.time, '7-1-2')}"],
        "logBlocksToBeDeleted": {},
    }
    plan = {
        "instantToRollback": {"commitTime": failed.time, "action": "deltacommit"},
        "RollbackRequests": [request, deletion],
    }
    at = timeline_log(fs).request(Action.ROLLBACK, write_avro(ROLLBACK_PLAN, plan))
    (done,) = roll_back_failed(fs, config, timeline_log(fs), engine=LocalEngine(1)).rolled_back
    assert done.at == at.time and done.deleted == (f"p1/{base('new', failed.time, '7-1-2')}",)
    assert listed(fs, config)["p0"][str(delta("a", T[0], 2, "7-1-2"))] == len(
        log_bytes(failed.time)
    )


@pytest.mark.parametrize(
    ("partition", "file"),
    [
        ("p0", "hoodie.properties"),
        ("p0", str(base("a", T[0]))),
        ("../other", str(base("a", T[20]))),
        (".hoodie/metadata", str(base("a", T[20]))),
        ("/etc", str(base("a", T[20]))),
    ],
)
def test_a_plan_that_names_strangers_is_refused(partition: str, file: str) -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    plan = {
        "instantToRollback": {"commitTime": T[20], "action": "deltacommit"},
        "RollbackRequests": [
            {"partitionPath": partition, "fileId": "a", "latestBaseInstant": T[20],
             "filesToBeDeleted": [f"/x/{partition}/{file}"], "logBlocksToBeDeleted": {}}
        ],
    }  # fmt: skip
    timeline_log(fs).request(Action.ROLLBACK, write_avro(ROLLBACK_PLAN, plan))
    before = set(data_files(fs))
    with pytest.raises(CorruptFileError):
        undo(fs, config)
    assert set(data_files(fs)) == before


@pytest.mark.parametrize("content", [b"", b"Obj\x01half"])
def test_a_rollback_whose_plan_was_cut_short_is_forgotten_and_planned_again(content: bytes) -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    failed = fail_upsert(fs)
    torn = timeline_log(fs).request(Action.ROLLBACK, content)
    assert undo(fs, config) == [failed.time]
    assert torn.time not in {i.time for i in timeline_log(fs).load().pending}
    assert pending(fs) == []


def test_a_rollback_of_a_commit_that_others_built_on_is_dropped() -> None:
    fs = MemoryFileSystem()
    config, first, second = commit_of_two(fs)
    plan = {
        "instantToRollback": {"commitTime": first.time, "action": "commit"},
        "RollbackRequests": [],
    }
    timeline_log(fs).request(Action.ROLLBACK, write_avro(ROLLBACK_PLAN, plan))
    assert undo(fs, config) == []
    assert timeline_log(fs).load().times == {first.time, second.time}


def test_markers_of_finished_instants_are_swept_but_not_those_of_pending_ones() -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    compaction = ShellWrite(fs, timeline_log(fs), Action.COMPACTION, requested=b"").start()
    newer = f"{T[90]}"
    for time in (T[0], compaction.time, newer):
        fs.create(f".hoodie/.temp/{time}/p0/{base('a', T[0])}.marker.CREATE", b"")
    undo(fs, config)
    left = {i.name for i in fs.children(".hoodie/.temp")}
    assert left == {compaction.time, newer}


def test_a_log_with_no_readable_block_is_answered_too() -> None:
    """A torn append of an older store: what it holds cannot be told, a command does no harm."""
    fs = MemoryFileSystem()
    config = mor(fs)
    write = ShellWrite(fs, timeline_log(fs)).start()
    write.put("p0", delta("b", T[0], 1))
    path = f"p0/{delta('b', T[0], 1)}"
    fs.replace(path, fs.read(path)[:40])
    undo(fs, config)
    assert sorted(commands(fs)) == [f"p0/.b_{T[0]}.log.2_1-0-1"]


def test_names_of_command_blocks_parse_and_follow_the_slice() -> None:
    fs = MemoryFileSystem()
    config = mor(fs)
    fail_upsert(fs)
    undo(fs, config)
    for path in commands(fs):
        name = parse_data_file(path.rpartition("/")[2])
        assert isinstance(name, LogFileName)
        others = [
            n
            for p in data_files(fs)
            if isinstance(n := parse_data_file(p.rpartition("/")[2]), LogFileName)
            and n.file_id == name.file_id
            and n != name
        ]
        assert all(other.order < name.order for other in others)
