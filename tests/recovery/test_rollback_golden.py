"""Plans and results of rollbacks written by Apache Hudi, beside ours for the same failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyhudi.engine import LocalEngine
from pyhudi.filenames import join, parse_data_file
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.rollback import RollbackPlan
from pyhudi.timeline.service_payloads import ROLLBACK_METADATA, ROLLBACK_PLAN, read_avro, write_avro
from tests.support.shells import log_bytes, shell_config, ticking

GOLDEN = Path(__file__).parents[1] / "golden" / "rollback"


def golden(name: str) -> dict[str, Any]:
    return read_avro((GOLDEN / name).read_bytes(), path=name)


def schema_of(data: bytes) -> Any:
    import fastavro

    with_names: list[Any] = []

    def walk(kind: Any) -> Any:
        if isinstance(kind, list):
            return [walk(k) for k in kind]
        if isinstance(kind, dict) and kind.get("type") == "record":
            name = kind["name"].rsplit(".", 1)[-1]
            with_names.append(name)
            return (name, [(f["name"], walk(f["type"])) for f in kind["fields"]])
        if isinstance(kind, dict) and "items" in kind:
            return ("array", walk(kind["items"]))
        if isinstance(kind, dict) and "values" in kind:
            return ("map", walk(kind["values"]))
        text = kind["type"] if isinstance(kind, dict) else kind
        return text.rsplit(".", 1)[-1]

    import io

    return walk(fastavro.reader(io.BytesIO(data)).writer_schema)


@pytest.mark.parametrize("table", ["cow", "mor"])
def test_our_files_have_the_schema_apache_hudi_writes(table: str) -> None:
    for suffix, schema in (
        (".rollback.requested", ROLLBACK_PLAN),
        (".rollback", ROLLBACK_METADATA),
    ):
        theirs = (GOLDEN / f"{table}_0.15.0{suffix}").read_bytes()
        ours = write_avro(schema, golden(f"{table}_0.15.0{suffix}"))
        assert schema_of(ours) == schema_of(theirs)


@pytest.mark.parametrize("table", ["cow", "mor"])
def test_a_golden_plan_survives_being_parsed_and_written(table: str) -> None:
    record = golden(f"{table}_0.15.0.rollback.requested")
    plan = RollbackPlan.from_record(record, path="x")
    assert plan is not None
    root = record["RollbackRequests"][0]["filesToBeDeleted"][0].rsplit("/", 2)[0]
    assert plan.to_record(root=root) == record
    assert RollbackPlan.from_record(plan.to_record(root="/elsewhere"), path="x") == plan


@pytest.mark.parametrize("table", ["cow", "mor"])
def test_the_same_failure_gives_the_same_plan_and_result(table: str) -> None:
    """Rebuild the store as the failed write left it, by the golden plan; roll it back ourselves."""
    record = golden(f"{table}_0.15.0.rollback.requested")
    theirs = golden(f"{table}_0.15.0.rollback")
    failed = record["instantToRollback"]
    fs = MemoryFileSystem()
    log = TimelineLog(fs, clock=ticking())
    pending = log.start(log.request_at(failed["commitTime"], Action(failed["action"])))
    for request in record["RollbackRequests"]:
        partition = request["partitionPath"]
        for path in request["filesToBeDeleted"]:
            name = path.rsplit("/", 1)[-1]
            fs.create(join(partition, name), b"rows")
            fs.create(f".hoodie/.temp/{pending.time}/{partition}/{name}.marker.CREATE", b"")
        for name in request["logBlocksToBeDeleted"]:
            parsed = parse_data_file(name)
            assert parsed is not None
            fs.create(join(partition, name), log_bytes(pending.time))
            fs.create(join(partition, name.replace(".log.2", ".log.1")), log_bytes(parsed.instant))
            fs.create(f".hoodie/.temp/{pending.time}/{partition}/{name}.marker.APPEND", b"")
    roll_back_failed(fs, shell_config(), log, engine=LocalEngine(1))
    (done,) = log.load().where({Action.ROLLBACK}, State.COMPLETED)
    plan, result = log.requested(done), log.record(done)
    assert _named(plan) == _named(record)
    assert result["commitsRollback"] == theirs["commitsRollback"]
    assert result["instantsRollback"] == theirs["instantsRollback"]
    assert result["totalFilesDeleted"] == theirs["totalFilesDeleted"]
    assert _results(result) == _results(theirs)


def _bare(paths: Any) -> list[str]:
    return sorted(path.rsplit("/", 1)[-1] for path in paths)


def _named(plan: dict[str, Any]) -> list[Any]:
    return sorted(
        (
            r["partitionPath"],
            r["fileId"],
            r["latestBaseInstant"],
            _bare(r["filesToBeDeleted"]),
            _bare(r["logBlocksToBeDeleted"]),
        )
        for r in plan["RollbackRequests"]
    )


def _results(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        partition: (
            done["partitionPath"],
            _bare(done["successDeleteFiles"]),
            done["failedDeleteFiles"],
            _bare(done["rollbackLogFiles"]),
            list(done["rollbackLogFiles"].values()),
            _bare(done["logFilesFromFailedCommit"]),
        )
        for partition, done in metadata["partitionMetadata"].items()
    }
