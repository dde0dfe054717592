"""Plans of services: written and read back, and malformed or hostile ones rejected."""

from __future__ import annotations

from typing import Any

import pytest

from pyhudi.errors import CorruptFileError
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.cleaning import CleanPlan
from pyhudi.timeline.plans.clustering import (
    ChildNode,
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
)
from pyhudi.timeline.plans.compaction import CompactionOperation, CompactionPlan
from pyhudi.timeline.plans.restore import RestorePlan
from pyhudi.timeline.plans.rollback import InstantInfo, Removal, RollbackPlan, target_of
from pyhudi.timeline.service_payloads import (
    CLEANER_PLAN,
    COMPACTION_PLAN,
    REQUESTED_REPLACE,
    read_avro,
    write_avro,
)
from pyhudi.timeline.undo_payloads import RestoreWork, read_work, write_work

T = InstantTime("20240101000000000")
EVIL_PARTITIONS = ["../outside", "/etc", "a/../b", ".hoodie/metadata", "a\\b", "a\0b", 7]
EVIL_FILE_IDS = ["../x", "a/b", "", ".", "x" * 256, None, 7]
COMPACTION = CompactionPlan(
    (
        CompactionOperation(FileGroupId("p", "a"), T, "a_0-0-1_1.parquet", (".a_1.log.1_0-0-1",)),
        CompactionOperation(FileGroupId("", "b"), T),
    )
)
CLUSTERING = ClusteringPlan(
    (
        ClusteringGroup(
            (ClusteringSlice(FileGroupId("p", "a"), "a_0-0-1_1.parquet", (".a_1.log.1_0-0-1",)),),
            2,
            (ChildNode(5, "0123456789ab"), ChildNode(9, None)),
            3,
        ),
    ),
    "x.Strategy",
    {"k": "v"},
)


def clustering_record(**file_slice: Any) -> dict[str, Any]:
    planned = {"fileId": "a", "partitionPath": "p"} | file_slice
    plan = {"inputGroups": [{"slices": [planned]}]}
    return {"operationType": "CLUSTER", "clusteringPlan": plan}


def compaction_record(**operation: Any) -> dict[str, Any]:
    return {"operations": [{"fileId": "a", "partitionPath": "p", "baseInstantTime": T} | operation]}


def log_of(action: Action, content: bytes) -> tuple[TimelineLog, Instant]:
    log = TimelineLog(MemoryFileSystem())
    return log, log.request(action, content)


@pytest.mark.parametrize("runs_at_once", [False, True])
def test_a_compaction_plan_is_read_as_it_was_written(runs_at_once: bool) -> None:
    plan = CompactionPlan(COMPACTION.operations, runs_at_once)
    log, pending = log_of(Action.COMPACTION, plan.to_avro())
    assert log.plan(pending, CompactionPlan.from_record) == plan
    started = log.start(pending)
    assert log.plan(started, CompactionPlan.from_record) == plan


def test_a_clustering_plan_is_read_as_it_was_written() -> None:
    record = read_avro(CLUSTERING.to_avro(root="/elsewhere"), path="x")
    (group,) = record["clusteringPlan"]["inputGroups"]
    assert group["slices"][0]["dataFilePath"] == "/elsewhere/p/a_0-0-1_1.parquet"
    assert ClusteringPlan.from_record(record, path="x") == CLUSTERING


def test_a_file_without_content_is_a_plan_of_nothing() -> None:
    log, pending = log_of(Action.REPLACE_COMMIT, b"")
    assert log.plan(pending, ClusteringPlan.from_record) == ClusteringPlan()
    assert log.plan(pending, CompactionPlan.from_record) == CompactionPlan()


@pytest.mark.parametrize("evil", EVIL_PARTITIONS)
def test_a_plan_names_no_folder_outside_the_table(evil: object) -> None:
    for kind, record in (
        (CompactionPlan, compaction_record(partitionPath=evil)),
        (ClusteringPlan, clustering_record(partitionPath=evil)),
    ):
        with pytest.raises(CorruptFileError):
            kind.from_record(record, path="x")


@pytest.mark.parametrize("evil", EVIL_FILE_IDS)
def test_a_plan_names_no_file_id_that_is_a_path(evil: object) -> None:
    for kind, record in (
        (CompactionPlan, compaction_record(fileId=evil)),
        (ClusteringPlan, clustering_record(fileId=evil)),
    ):
        with pytest.raises(CorruptFileError):
            kind.from_record(record, path="x")


@pytest.mark.parametrize("evil", ["", "../1", "1.commit", None, 5, "9" * 65])
def test_a_compaction_plan_names_instants(evil: object) -> None:
    with pytest.raises(CorruptFileError):
        CompactionPlan.from_record(compaction_record(baseInstantTime=evil), path="x")


def test_names_of_files_are_taken_without_their_folders() -> None:
    record = compaction_record(dataFilePath="../../etc/f", deltaFilePaths=["/old/table/p/g"])
    (operation,) = CompactionPlan.from_record(record, path="x").operations
    assert (operation.base_file, operation.log_files) == ("f", ("g",))
    with pytest.raises(CorruptFileError):
        CompactionPlan.from_record(compaction_record(dataFilePath="f" * 256), path="x")


@pytest.mark.parametrize(
    "record",
    [
        {"operations": 5},
        {"operations": ["text"]},
        {"operations": [{}]},
        {"operations": [None]},
        compaction_record(deltaFilePaths=5),
    ],
)
def test_a_compaction_plan_of_another_shape_is_corrupt(record: dict[str, Any]) -> None:
    with pytest.raises(CorruptFileError):
        CompactionPlan.from_record(record, path="x")


@pytest.mark.parametrize(
    "plan",
    [
        5,
        {"inputGroups": 5},
        {"inputGroups": [{"slices": ["text"]}]},
        {"inputGroups": [{"numOutputFileGroups": 1 << 30}]},
        {"inputGroups": [{"extraMetadata": {"clustering.group.child.node": "[{}]"}}]},
        {"inputGroups": [{"extraMetadata": {"clustering.group.child.node": "[" * 100_000}}]},
        {"strategy": {"strategyParams": 5}},
    ],
)
def test_a_clustering_plan_of_another_shape_is_corrupt(plan: object) -> None:
    with pytest.raises(CorruptFileError):
        ClusteringPlan.from_record({"operationType": "CLUSTER", "clusteringPlan": plan}, path="x")


@pytest.mark.parametrize(
    ("record", "is_clustering"),
    [
        ({"operationType": "CLUSTER"}, True),
        (clustering_record(), True),
        (clustering_record() | {"operationType": "INSERT_OVERWRITE"}, False),
        (clustering_record() | {"operationType": None}, False),
        ({"operationType": "DELETE_PARTITION"}, False),
    ],
)
def test_a_replace_commit_is_a_clustering_by_the_operation_that_was_requested(
    record: dict[str, Any], is_clustering: bool
) -> None:
    """As in ClusteringUtils of Apache Hudi 0.15 and 1.x."""
    log, requested = log_of(Action.REPLACE_COMMIT, write_avro(REQUESTED_REPLACE, record))
    assert log.is_clustering(requested) is is_clustering
    assert log.is_clustering(log.start(requested)) is is_clustering
    assert bool(log.plan(requested, ClusteringPlan.from_record).groups) is (
        is_clustering and len(record) > 1
    )


def test_an_instant_of_another_action_is_a_clustering_by_its_action() -> None:
    log, commit = log_of(Action.COMMIT, CLUSTERING.to_avro(root=""))
    assert not log.is_clustering(commit)
    assert log.is_clustering(Instant(T, Action.CLUSTERING, State.REQUESTED))


def test_a_plan_with_unexpected_fields_is_a_corrupt_file_to_readers() -> None:
    hostile = {**COMPACTION_PLAN, "fields": [{"name": "operations", "type": "int"}]}
    log, pending = log_of(Action.COMPACTION, write_avro(hostile, {"operations": 5}))
    with pytest.raises(CorruptFileError, match="not a plan"):
        log.plan(pending, CompactionPlan.from_record)


CLEAN = CleanPlan(
    "KEEP_LATEST_COMMITS",
    {"p": (f"a_0-0-1_{T}.parquet", f".a_{T}.log.1_0-0-1"), "": (f"b_0-0-1_{T}.parquet",)},
    ("p",),
    Instant(T, Action.DELTA_COMMIT, State.COMPLETED),
    T,
    (T,),
    (T, T),
    {"other": "retained"},
)
ROLLBACK = RollbackPlan(
    T,
    Action.COMMIT,
    (
        Removal(FileGroupId("p", "a"), T, (f"p/a_0-0-1_{T}.parquet",)),
        Removal(FileGroupId("", "b"), T, (), {f".b_{T}.log.1_0-0-1": 9}),
    ),
)
RESTORE = RestorePlan((InstantInfo(T, Action.DELTA_COMMIT), InstantInfo(T, Action.COMMIT)), T)


@pytest.mark.parametrize("plan", [CLEAN, CleanPlan("KEEP_LATEST_FILE_VERSIONS")])
def test_a_clean_plan_is_read_as_it_was_written(plan: CleanPlan) -> None:
    log, pending = log_of(Action.CLEAN, plan.to_avro(root="file:///elsewhere"))
    assert log.plan(pending, CleanPlan.from_record) == plan


def test_a_clean_plan_deletes_data_files_of_the_table_alone() -> None:
    """Also of the metadata table, whose plans were not checked."""
    name = f"a_0-0-1_{T}.parquet"
    info = {"filePath": f"/x/{name}", "isBootstrapBaseFile": False}
    record = {
        "policy": "KEEP_LATEST_COMMITS",
        "filePathsToBeDeletedPerPartition": {
            "p": [info, {"filePath": "/x/hoodie.properties"}],
            "../outside": [info],
            ".hoodie": [info],
        },
        "filesToBeDeletedPerPartition": {"p": [f"b_0-0-1_{T}.parquet", ".."], "/etc": [name]},
        "partitionsToBeDeleted": ["p", "../outside", ".hoodie", "/etc"],
    }
    log, pending = log_of(Action.CLEAN, write_avro(CLEANER_PLAN, record))
    plan = log.plan(pending, CleanPlan.from_record)
    assert plan.files == {"p": (name, f"b_0-0-1_{T}.parquet")}
    assert plan.partitions == ("p",)


@pytest.mark.parametrize(
    "record",
    [
        {"filePathsToBeDeletedPerPartition": 5},
        {"filePathsToBeDeletedPerPartition": {"p": [5]}},
        {"filesToBeDeletedPerPartition": {"p": 5}},
        {"earliestInstantToRetain": {"timestamp": "../1", "action": "commit"}},
        {"earliestInstantToRetain": {"timestamp": T, "action": "nothing"}},
        {"lastCompletedCommitTimestamp": "../1"},
        {"extraMetadata": 5},
    ],
)
def test_a_clean_plan_of_another_shape_is_corrupt(record: dict[str, Any]) -> None:
    with pytest.raises(CorruptFileError):
        CleanPlan.from_record(record, path="x")


def test_a_rollback_plan_is_read_as_it_was_written() -> None:
    log, pending = log_of(Action.ROLLBACK, ROLLBACK.to_avro(root="/elsewhere"))
    assert log.plan(pending, RollbackPlan.from_record) == ROLLBACK
    assert log.plan(pending, target_of) == InstantInfo(T, Action.COMMIT)
    empty, torn = log_of(Action.ROLLBACK, b"")
    assert empty.plan(torn, RollbackPlan.from_record) is None


@pytest.mark.parametrize("time", ["../../x", "", "1.commit", None])
@pytest.mark.parametrize("action", ["commit", "nothing"])
def test_a_plan_takes_back_instants_alone(time: object, action: str) -> None:
    """Their times become names of files and folders that are deleted."""
    info = {"commitTime": time, "action": action}
    with pytest.raises(CorruptFileError):
        RollbackPlan.from_record({"instantToRollback": info}, path="x")
    with pytest.raises(CorruptFileError):
        RestorePlan.from_record({"instantsToRollback": [info]}, path="x")


@pytest.mark.parametrize(
    "changed",
    [
        None,
        {"fileId": "../a"},
        {"latestBaseInstant": "../1"},
        {"logBlocksToBeDeleted": {"x": "many"}},
        {"filesToBeDeleted": [5]},
        {"partitionPath": "../p"},
    ],
)
def test_a_rollback_plan_of_another_shape_is_corrupt(changed: dict[str, Any] | None) -> None:
    request = {
        "partitionPath": "p", "fileId": "a", "latestBaseInstant": T, "filesToBeDeleted": [],
        "logBlocksToBeDeleted": {},
    }  # fmt: skip
    info = {"commitTime": T, "action": "commit"}
    requests = [None if changed is None else request | changed]
    with pytest.raises(CorruptFileError):
        RollbackPlan.from_record(
            {"instantToRollback": info, "RollbackRequests": requests}, path="x"
        )


def test_a_restore_plan_is_read_as_it_was_written() -> None:
    log, pending = log_of(Action.RESTORE, RESTORE.to_avro())
    assert log.plan(pending, RestorePlan.from_record) == RESTORE
    assert log.taken_back(pending) == {T}


def test_the_work_of_a_restore_is_read_as_it_was_written() -> None:
    work = RestoreWork((ROLLBACK,), {"files": 1})
    assert read_work(write_work(work, root="/elsewhere"), path="x") == work
    assert read_work(b"", path="x") is None
