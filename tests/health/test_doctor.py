"""The doctor names what is wrong, and repair mends it; a healthy table has no findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import HEARTBEATS, PROPERTIES, TEMP
from pyhudi.health.archive_checks import check_archive
from pyhudi.health.doctor import examine
from pyhudi.health.findings import RepairAction
from pyhudi.health.inventory import TableInventory
from pyhudi.health.repair import execute_repair
from pyhudi.metadata.rebuild import REBUILT
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import PAYLOAD_CLASS, TableType, load_config, store_config
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.archive_files import ArchiveFiles
from tests.crash.torn import SCHEMA, copy_of, died, index_of, opened, rows, snapshot, table
from tests.support.examples import stops
from tests.support.filesystems import every_stop
from tests.support.golden import golden_names, golden_table, unzipped
from tests.support.inside import state_of

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module", params=TableType, ids=["cow", "mor"])
def sound_6(request: pytest.FixtureRequest) -> MemoryFileSystem:
    return table(request.param, 6)


@pytest.fixture(
    scope="module",
    params=[(kind, version) for version in (6, 9) for kind in TableType],
    ids=["cow", "mor", "cow-9", "mor-9"],
)
def sound(request: pytest.FixtureRequest) -> MemoryFileSystem:
    return table(*request.param)


@pytest.fixture
def fs(sound: MemoryFileSystem) -> MemoryFileSystem:
    return copy_of(sound)


@pytest.mark.parametrize("name", golden_names()[::4])
def test_tables_of_apache_hudi_are_healthy(name: str) -> None:
    assert examine(golden_table(name)).findings == ()


def test_a_healthy_table_has_no_findings(fs: MemoryFileSystem) -> None:
    found = examine(fs)
    assert found.findings == ()
    assert found.is_healthy
    assert dict(found.checked)["data files"] > 5


def test_leftovers_of_crashed_writers_are_named_and_swept(fs: MemoryFileSystem) -> None:
    want = snapshot(fs)
    done = opened(fs).timeline.commits.instants[0].time
    died(fs)
    fs.create(f"{TEMP}/{done}/p0/x", b"")
    fs.create(f"{HEARTBEATS}/{done}", b"")
    codes = sorted(f.code for f in examine(fs).findings)
    assert codes == ["leftover", "leftover", "pending-write"]
    planned = execute_repair(fs, dry_run=True)
    assert {step.repair for step in planned.steps} == {RepairAction.ROLL_BACK, RepairAction.SWEEP}
    assert planned.dry_run
    assert examine(fs).findings != ()
    assert execute_repair(fs).left == ()
    assert snapshot(fs) == want


def test_a_foreign_file_is_reported_and_left_alone(fs: MemoryFileSystem) -> None:
    fs.create("p0/notes.txt", b"mine")
    (found,) = examine(fs).findings
    assert (found.code, found.path) == ("stranger", "p0/notes.txt")
    execute_repair(fs, allow_loss=True)
    assert fs.read("p0/notes.txt") == b"mine"


def test_a_file_that_nothing_names_is_moved_out_and_retained(fs: MemoryFileSystem) -> None:
    path = "p0/11111111-1111-1111-1111-111111111111-0_0-0-7_29991231000000000.parquet"
    fs.create(path, b"data")
    assert [f.code for f in examine(fs).problems] == ["orphan"]
    report = execute_repair(fs)
    assert report.is_healthy
    assert not fs.exists(path)
    copies = fs.children(".hoodie/.set_aside")
    assert len(copies) == 1
    when = copies[0]
    assert fs.read(f"{when.path}/{path}") == b"data"


def test_a_torn_index_is_refused_by_writers_and_rebuilt(sound_6: MemoryFileSystem) -> None:
    fs = copy_of(sound_6)
    want = snapshot(fs)
    folder = ".hoodie/metadata/record_index"
    base = next(i.path for i in fs.children(folder) if i.name.endswith(".hfile"))
    fs.delete([base])
    with pytest.raises(CorruptFileError):
        opened(fs).upsert(rows(range(3), 9))
    assert {f.repair for f in examine(fs).problems} == {RepairAction.METADATA}
    assert execute_repair(fs).is_healthy
    assert snapshot(fs) == want
    assert index_of(fs) == set(want)


def hurt(sound_6: MemoryFileSystem) -> tuple[MemoryFileSystem, dict[str, int]]:
    """A table whose replace commit is archived while the files that it replaced are there, and
    the rows that it should have."""
    fs = copy_of(sound_6)
    table = opened(fs)
    table.savepoint("keep")
    table.insert_overwrite(rows(range(58, 60, 2), 70))
    replacement = table.timeline.commits.last
    assert replacement is not None
    table.upsert(rows(range(1, 4, 2), 71))
    want = snapshot(fs)
    log = state_of(table).log
    older = [i for i in log.load().commits if i.time <= replacement.time]
    files = ArchiveFiles(log, ".hoodie/archived")
    files.append(older, batch=10)
    files.remove(older)
    return fs, want


def test_replaced_groups_that_are_back_are_taken_out_again(sound_6: MemoryFileSystem) -> None:
    fs, want = hurt(sound_6)
    plain = parse_options({"hoodie.metadata.enable": "false"})
    unlisted = Table(fs, options=plain, engine=LocalEngine(1))
    assert snapshot(fs) != want
    found = [f for f in examine(fs).problems if f.code == "replaced-alive"]
    assert found and {f.repair for f in found} == {RepairAction.REPLACE}
    assert not any(f.loses for f in found)
    assert execute_repair(fs).is_healthy
    assert snapshot(fs) == want
    assert index_of(fs) == set(want)
    assert unlisted.scan().to_arrow().num_rows == len(want)
    opened(fs).upsert(rows(range(2), 80))
    assert snapshot(fs) == want | {"k0": 80, "k1": 80}
    assert examine(fs).is_healthy


def test_rows_written_to_groups_that_are_back_are_given_up_only_on_request(
    sound_6: MemoryFileSystem,
) -> None:
    fs, want = hurt(sound_6)
    opened(fs).metadata.rebuild()  # the index finds the rows that are back, and so do updates
    key = next(key for key in snapshot(fs) if key not in want)
    number = int(key[1:])
    opened(fs).upsert(rows(range(number, number + 1), 90))
    (found,) = [f for f in examine(fs).problems if f.code == "replaced-alive" and f.loses]
    assert "_hoodie_commit_time" in found.advice
    assert not execute_repair(fs).is_healthy
    assert snapshot(fs)[key] == 90
    assert execute_repair(fs, allow_loss=True).is_healthy
    assert snapshot(fs) == want


def test_lost_properties_come_back_from_the_copy(fs: MemoryFileSystem) -> None:
    want, before = snapshot(fs), fs.read(PROPERTIES)
    fs.delete([PROPERTIES])
    assert execute_repair(fs).is_healthy
    assert fs.read(PROPERTIES) == before
    assert snapshot(fs) == want


def test_the_newest_commit_is_taken_back_if_its_files_are_torn(fs: MemoryFileSystem) -> None:
    newest = opened(fs).timeline.commits.instants[-1]
    path = next(s.path for s in state_of(opened(fs)).log.commit(newest).stats)
    fs.replace(path, fs.read(path)[:-1])
    with pytest.raises(CorruptFileError):
        snapshot(fs)
    assert not execute_repair(fs).is_healthy, "rows may only go when that was asked for"
    report = execute_repair(fs, allow_loss=True)
    assert report.is_healthy
    assert newest not in opened(fs).timeline.commits.instants
    assert index_of(fs) == set(snapshot(fs))


def test_reports_are_plain_values_and_html(fs: MemoryFileSystem) -> None:
    fs.create("p0/<b>.txt", b"")
    found = opened(fs).doctor()
    assert json.loads(json.dumps(found.to_dict()))["findings"][0]["code"] == "stranger"
    assert "&lt;b&gt;" in found._repr_html_()
    assert "stranger" in str(found)
    assert json.dumps(opened(fs).repair(dry_run=True).to_dict())


def test_a_rebuild_of_the_metadata_table_changes_no_answer(fs: MemoryFileSystem) -> None:
    want = snapshot(fs)
    assert opened(fs).metadata.rebuild().is_healthy
    assert not fs.children(REBUILT)
    assert snapshot(fs) == want
    assert index_of(fs) == set(want)
    opened(fs).upsert(rows(range(2), 9))
    assert snapshot(fs) == {**want, "k0": 9, "k1": 9}


@stops(10)
def test_a_clean_that_runs_or_stopped_is_no_fault_of_the_metadata_table(
    sound: MemoryFileSystem, one_in: int
) -> None:
    """It deletes files, also of archived commits, before it says so there."""
    before = copy_of(sound)
    for value in (7, 8, 9):
        opened(before).upsert(rows(range(4), value))
        if opened(before).config.is_merge_on_read:
            opened(before).compact()
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    Table(before, options=parse_options(few), engine=LocalEngine(1)).archive()
    files = {path for path in before.store.files if path.endswith(".parquet")}
    deleted = False
    for stop in every_stop(before, lambda fs: opened(fs).clean(), one_in=one_in):
        deleted = deleted or bool(files - stop.fs.store.files.keys())
        codes = {finding.code for finding in examine(stop.fs).findings}
        assert codes.isdisjoint({"metadata", "metadata-files"}), str(stop)
    assert deleted


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_rebuild_may_stop_anywhere(sound: MemoryFileSystem, after: bool) -> None:
    want = snapshot(sound)
    rebuild = lambda fs: opened(fs).metadata.rebuild()  # noqa: E731
    for stop in every_stop(sound, rebuild, after=after):
        assert snapshot(stop.fs) == want, str(stop)
        opened(stop.fs).upsert(rows(range(30, 31), 9))
        assert snapshot(stop.fs) == {**want, "k30": 9}, str(stop)
        assert index_of(stop.fs) == {*want, "k30"}, str(stop)
        assert examine(stop.fs).is_healthy, str(stop)


def test_a_torn_archive_of_layout_2_is_reported() -> None:
    fs = unzipped(GOLDEN / "queries" / "arch_mor_v9.zip")
    inventory = TableInventory.of(fs, load_config(fs))
    assert not list(check_archive(inventory))
    name = next(name for name in fs.names(HISTORY) if name.endswith(".parquet"))
    fs.replace(f"{HISTORY}/{name}", fs.read(f"{HISTORY}/{name}")[:-9])
    (found,) = check_archive(TableInventory.of(fs, load_config(fs)))
    assert found.path == f"{HISTORY}/{name}" and found.repair is None


@pytest.mark.parametrize(
    ("ordering", "payload"),
    [("ts", "DefaultHoodieRecordPayload"), ((), "OverwriteWithLatestAvroPayload")],
)
def test_a_payload_class_that_a_downgrade_left_out_is_added(
    ordering: str | tuple[()], payload: str, tmp_path: Path
) -> None:
    """As by Apache Hudi 1.2.0, from version 9; 0.15.0 then cannot read the logs."""
    made = pyhudi.create_table(
        tmp_path, SCHEMA, record_key="id", ordering=ordering, table_type="mor", index="simple",
        version=6,
    )  # fmt: skip
    made.bulk_insert(rows(range(4), 1))
    made.upsert(rows(range(2), 2))
    before = made.scan().to_arrow()
    fs = LocalFileSystem(tmp_path)
    assert examine(fs).findings == ()
    stated = store_config(fs, load_config(fs).with_properties({PAYLOAD_CLASS: None}))
    (found,) = examine(fs).findings
    assert (found.code, found.repair) == ("payload-class", RepairAction.PAYLOAD_CLASS)
    assert execute_repair(fs).left == ()
    after = load_config(fs)
    assert after.payload_class == payload and after.merge_mode is stated.merge_mode
    assert pyhudi.open_table(tmp_path).scan().to_arrow() == before
