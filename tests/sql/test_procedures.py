"""CALL: every procedure on tables of versions 6 and 9, compared with the verb that it stands on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.sql.procedures import NOT_SUPPORTED, PROCEDURES
from pyhudi.table.commit_facts import completed_commits
from pyhudi.table.log import timeline_log
from pyhudi.timeline.instant import State

VERSIONS = (6, 9)
APACHE = json.loads((Path(__file__).parent / "apache_procedures.json").read_text("utf-8"))
"""Arguments and columns of each procedure of Apache Hudi 1.2.0."""
SCHEMA = pa.schema([("id", pa.string()), ("fare", pa.float64()), ("city", pa.string())])
OPTIONS = {
    "hoodie.table.services.enabled": "false",  # the tests run them
    "hoodie.metadata.index.column.stats.enable": "true",
}


def rows(*found: tuple[str, float, str]) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, zip(*found, strict=True), strict=True)), schema=SCHEMA)


def trips(folder: Path, version: int = 9, table_type: str = "mor") -> pyhudi.Table:
    """Four rows, of which two are updated: each file slice of a merge-on-read table has a log."""
    table = pyhudi.create_table(
        folder / "trips", SCHEMA, record_key="id", partition_by="city", version=version,
        table_type=table_type, options=OPTIONS,
    )  # fmt: skip
    table.upsert(rows(("a", 1.0, "sf"), ("b", 2.0, "sf"), ("c", 3.0, "la"), ("d", 4.0, "la")))
    table.upsert(rows(("a", 10.0, "sf"), ("c", 30.0, "la")))
    return table


def call(table: pyhudi.Table, text: str, parameters: Any = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pyhudi.sql(
        f"call {text}", tables={"trips": table.path}, parameters=parameters, options=OPTIONS
    ).to_pylist()
    return found


@pytest.fixture(params=VERSIONS, scope="module")
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def read_only(version: int, tmp_path_factory: pytest.TempPathFactory) -> pyhudi.Table:
    """A table with a clean, a rollback, a completed and a pending compaction, a clustering, a
    savepoint and archived commits."""
    table = trips(tmp_path_factory.mktemp(f"v{version}"), version)
    table.compact()
    for fare in range(6):
        table.upsert(rows(("a", 100.0 + fare, "sf")))
    last = table.timeline.commits.last
    assert last is not None
    table.rollback(last.time)
    table.cluster("fare")
    table.upsert(rows(("b", 20.0, "sf")))
    table.with_options({"hoodie.clean.commits.retained": 1}).clean()
    table.with_options(
        {"hoodie.clean.commits.retained": 1, "hoodie.keep.min.commits": 2,
         "hoodie.keep.max.commits": 3}
    ).archive()  # fmt: skip
    table.upsert(rows(("b", 21.0, "sf"), ("e", 5.0, "la")))
    table.savepoint("release")
    assert table.schedule_compaction()
    return table


# ---- the table of procedures --------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(APACHE))
def test_each_procedure_of_apache_hudi_is_here_or_refused_by_name(name: str) -> None:
    assert (name in PROCEDURES) != (name in NOT_SUPPORTED)


@pytest.mark.parametrize("name", sorted(set(PROCEDURES) & set(APACHE)))
def test_arguments_and_columns_are_those_of_apache_hudi(name: str) -> None:
    found = PROCEDURES[name]
    assert [f"{a.name} {a.kind.value}" for a in found.arguments] == APACHE[name]["arguments"]
    assert [f"{c} {k.value}" for c, k in found.columns.items()] == APACHE[name]["columns"]


def test_help_lists_the_procedures_and_the_arguments_and_columns_of_one() -> None:
    listed = [row["result"] for row in pyhudi.sql("call help").to_pylist()]
    assert [text.partition("(")[0] for text in listed] == sorted(PROCEDURES)
    assert pyhudi.sql("call help()").num_rows == len(PROCEDURES)
    one = pyhudi.sql("call system.help(cmd => 'show_savepoints')").to_pylist()
    assert [row["result"] for row in one] == [
        "show_savepoints(table => null, path => null)",
        "argument table string default null", "argument path string default null",
        "column savepoint_time string",
    ]  # fmt: skip


REFUSED = [
    ("show_comits('trips')", "did you mean show_commits"),
    ("copy_to_table(table => 'trips')", "pyhudi table copy"),
    ("show_commits(tabel => 'trips')", "did you mean table"),
    ("show_commits()", "needs either table or path"),
    ("show_commits(table => 'trips', path => '/x')", "needs either table or path"),
    ("show_commits('trips', 'ten')", "an argument has another type"),
    ("show_commits('trips', limit => true)", "an argument has another type"),
    ("show_commits('trips', limit => -1)", "out of range"),
    ("show_commits('trips', 1, 2)", "too many arguments"),
    ("show_commits('trips', table => 'trips')", "an argument is given twice"),
    ("show_commits('trips', limit => 1, LIMIT => 2)", "an argument is given twice"),
    ("show_commits(limit => 1, 'trips')", "by position follows one by name"),
    ("show_commits('trips', limit => (select 1))", "a constant or a parameter"),
    ("show_commits('trips', limit => 1 + 1)", "a constant or a parameter"),
    ("show_commits('nothing')", "no table has this name"),
    ("show_commits('trips'); drop table trips", "one statement"),
    ("show_commits('trips') where 1 = 1", "one statement|not valid|is expected"),
    ("upgrade_table('trips', '²')", "unknown version"),
    ("show_commit_files('trips')", "an argument is missing"),
    ("show_commit_files('trips', instant_time => 20261124)", "write it in quotes"),
    ("show_commit_files('trips', instant_time => '1')", "no completed commit at this instant"),
    ("show_rollback_detail('trips', instant_time => '1')", "no completed rollback"),
    ("show_logfile_records('trips', log_file_path_pattern => 'x')", "no log file matches"),
    ("show_commits('trips', filter => 'nothing = 1')", "DuckDB rejected"),
    ("show_commits('trips', filter => 'select 1')", "not a condition"),
    ("show_commits('trips', filter => '1 in (select 1 from trips)')", "no table has this name"),
    ("run_clustering('trips', predicate => 'x')", "selected_partitions"),
    ("run_clustering('trips', op => 'x')", "unknown operation"),
    ("run_compaction('run', 'trips', instants => '1')", "all pending plans run together"),
    ("run_clean('trips', options => 'hoodie.x')", "written as name=value"),
    ("run_clean('trips', options => 'hoodie.x=1')", "unknown option"),
    ("run_clean('trips', clean_policy => 'x')", "invalid option value"),
    ("delete_savepoint('trips')", "no such savepoint"),
    ("rollback_to_savepoint('trips', '1')", "no such savepoint"),
    ("rollback_to_instant('trips', '1')", "instant=1"),
    ("upgrade_table('trips', 'ELEVEN')", "unknown version"),
    ("drop_partition('trips', 's')", "no such partition"),
    ("run_rollback_inflight_tableservice('trips', pending_instant => '1')", "no such plan"),
    ("show_metadata_table_column_stats('trips', targetColumns => 'fair')", "did you mean fare"),
]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> pyhudi.Table:
    return trips(tmp_path_factory.mktemp("unchanged"))


@pytest.mark.parametrize(("text", "error"), REFUSED, ids=[text for text, _ in REFUSED])
def test_a_wrong_call_is_refused_and_changes_nothing(
    text: str, error: str, unchanged: pyhudi.Table
) -> None:
    table = unchanged
    before = table.timeline.instants
    with pytest.raises(pyhudi.PyhudiError, match=error):
        call(table, text)
    assert table.timeline.instants == before


def test_arguments_are_given_by_name_by_position_and_as_parameters(tmp_path: Path) -> None:
    table = trips(tmp_path)
    expected = call(table, "show_commits(table => 'trips', limit => 1)")
    assert len(expected) == 1
    assert call(table, "show_commits('trips', 1)") == expected
    assert call(table, "SYSTEM.Show_Commits(TABLE => 'trips', Limit => 1)") == expected
    assert call(table, "show_commits(?, ?)", ["trips", 1]) == expected
    assert call(table, "show_commits(path => :p, limit => :n)", {"p": table.path, "n": 1}) == (
        expected
    )
    assert len(call(table, "show_commits('trips', limit => null)")) == 2


def test_filter_selects_rows_before_the_limit(tmp_path: Path) -> None:
    table = trips(tmp_path)
    text = "show_commits('trips', limit => 1, filter => 'total_files_added > 0')"
    assert [row["commit_time"] for row in call(table, text)] == [table.timeline.commits.first.time]  # type: ignore[union-attr]


# ---- procedures that read -----------------------------------------------------------------------


def times(found: list[dict[str, Any]], column: str) -> list[str]:
    return [row[column] for row in found]


def test_show_commits(read_only: pyhudi.Table) -> None:
    found = call(read_only, "show_commits('trips', 100)")
    facts = completed_commits(read_only._fs)[::-1]
    assert times(found, "commit_time") == [c.instant for c in facts]
    assert times(found, "state_transition_time") == [c.completed_at for c in facts]
    assert times(found, "action") == [c.action.value for c in facts]
    assert [r["total_records_written"] for r in found] == [c.to_dict()["rows"] for c in facts]
    assert [r["total_update_records_written"] for r in found] == [
        c.to_dict()["updated"] for c in facts
    ]
    assert [r["total_files_added"] + r["total_files_updated"] for r in found] == [
        c.to_dict()["files"] for c in facts
    ]
    assert times(call(read_only, "show_commits('trips', 1)"), "commit_time") == [facts[0].instant]


def test_show_archived_commits(read_only: pyhudi.Table) -> None:
    found = call(read_only, "show_archived_commits('trips', 100)")
    facts = completed_commits(read_only._fs, archived=True)[::-1]
    assert facts and times(found, "commit_time") == [c.instant for c in facts]
    first = facts[-1].instant
    bounded = call(read_only, f"show_archived_commits('trips', end_ts => '{first}')")
    assert times(bounded, "commit_time") == [first]
    stats = call(read_only, "show_archived_commits_metadata('trips', 100)")
    assert len(stats) == sum(len(c.stats) for c in facts)


def test_show_commits_metadata(read_only: pyhudi.Table) -> None:
    found = call(read_only, "show_commits_metadata('trips', 100)")
    stats = [s for c in completed_commits(read_only._fs)[::-1] for s in c.stats]
    assert [(r["partition"], r["file_id"], r["num_writes"]) for r in found] == [
        (s.partition, s.file_id, s.write_count) for s in stats
    ]


def test_procedures_of_one_commit(read_only: pyhudi.Table) -> None:
    commit = completed_commits(read_only._fs)[-1]
    at = f"instant_time => '{commit.instant}'"
    files = call(read_only, f"show_commit_files('trips', {at})")
    assert [r["file_size"] for r in files] == [s.size_bytes for s in commit.stats]
    partitions = call(read_only, f"show_commit_partitions('trips', {at})")
    assert times(partitions, "partition_path") == list(commit.by_partition())
    assert [r["total_records_inserted"] for r in partitions] == [
        sums["inserted"] for sums in commit.by_partition().values()
    ]
    (stats,) = call(read_only, f"show_commit_write_stats('trips', {at})")
    assert stats["total_bytes_written"] == commit.to_dict()["bytes_written"]
    assert stats["avg_record_size"] >= stats["total_bytes_written"] // commit.to_dict()["rows"]
    extra = call(read_only, f"show_commit_extra_metadata('trips', {at}, metadata_key => 'schema')")
    assert [r["metadata_value"] for r in extra] == [commit.metadata.extra["schema"]]


def test_show_compaction_and_clustering(read_only: pyhudi.Table) -> None:
    (pending,) = read_only.timeline.pending
    planned = sum(bool(one.logs) for one in read_only.file_slices())
    assert tuple(call(read_only, "show_compaction('trips', limit => 1)")[0].values()) == (
        pending.time, planned, "REQUESTED",
    )  # fmt: skip
    (clustering,) = call(read_only, "show_clustering('trips', show_involved_partition => true)")
    assert clustering["state"] == "COMPLETED" and clustering["involved_partitions"] == "la,sf"
    (hidden,) = call(read_only, f"show_clustering(path => '{read_only.path}')")
    assert hidden == {**clustering, "involved_partitions": "*"}


def test_show_cleans(read_only: pyhudi.Table) -> None:
    (clean,) = call(read_only, "show_cleans('trips')")
    (instant,) = [i for i in read_only.timeline if i.action.value == "clean"]
    record = read_only._state().log.record(instant)
    assert clean["clean_time"] == instant.time and clean["action"] == "clean"
    assert clean["total_files_deleted"] == record["totalFilesDeleted"] > 0
    assert clean["earliest_commit_to_retain"] == record["earliestCommitToRetain"]
    by_partition = call(read_only, "show_cleans_metadata('trips')")
    assert sum(r["success_delete_files"] for r in by_partition) == record["totalFilesDeleted"]
    (plan,) = call(read_only, "show_clean_plans('trips')")
    assert (plan["plan_time"], plan["state"]) == (instant.time, "COMPLETED")
    assert plan["total_partitions_to_clean"] == len(by_partition)


def test_show_savepoints(read_only: pyhudi.Table) -> None:
    assert times(call(read_only, "show_savepoints('trips')"), "savepoint_time") == [
        saved.instant for saved in read_only.savepoints()
    ]


def test_show_rollbacks(read_only: pyhudi.Table) -> None:
    (found,) = call(read_only, "show_rollbacks('trips')")
    (instant,) = [i for i in read_only.timeline if i.action.value == "rollback"]
    record = read_only._state().log.record(instant)
    assert [found["rollback_instant"]] == record["commitsRollback"]
    assert found["total_files_deleted"] == record["totalFilesDeleted"]
    at = f"instant_time => '{instant.time}'"
    files = call(read_only, f"show_rollback_detail('trips', {at})")
    assert len(files) == record["totalFilesDeleted"] and all(r["succeeded"] for r in files)


def test_show_timeline(read_only: pyhudi.Table) -> None:
    found = call(read_only, "show_timeline('trips', limit => 100)")
    instants = read_only.timeline.instants[::-1]
    assert [(r["instant_time"], r["action"], r["state"]) for r in found] == [
        (i.time, i.action.value, i.state.name) for i in instants
    ]
    assert [r["completed_time"] for r in found] == [i.completed_at for i in instants]
    notes = [r["rollback_info"] for r in found if r["action"] == "rollback"]
    assert len(notes) == 1 and notes[0].startswith("Rolled back: ")
    both = call(read_only, "show_timeline('trips', limit => 100, showArchived => true)")
    archived = [r["instant_time"] for r in both if r["timeline_type"] == "ARCHIVED"]
    assert archived == [i.time for i in read_only.archived_timeline.instants[::-1]] != []
    first = instants[-1].time
    bounded = call(read_only, f"show_timeline('trips', endTime => '{first}')")
    assert {r["instant_time"] for r in bounded} == {first}
    pending = call(read_only, "show_inflight_commits('trips')")
    assert times(pending, "instant_time") == [i.time for i in read_only.timeline.pending]
    assert call(read_only, "show_inflight_commits('trips', min_age_minutes => 60)") == []


def test_show_fsview(read_only: pyhudi.Table) -> None:
    slices = read_only.file_slices()
    latest = call(read_only, "show_fsview_latest('trips')")
    assert [(r["partition"], r["file_id"], r["num_delta_files"]) for r in latest] == [
        (s.partition, s.file_id, len(s.logs)) for s in slices
    ]
    for row, one in zip(latest, slices, strict=True):
        sizes = (row["delta_size_compaction_scheduled"], row["delta_size_compaction_unscheduled"])
        assert sizes == (one.log_bytes, 0)
        names = json.loads(row["delta_files_compaction_scheduled"])
        assert names == [f"{read_only.path}/{log.path}" for log in one.logs]
    every = call(read_only, "show_fsview_all('trips', limit => 100)")
    assert {r["base_instant"] for r in every} >= {s.instant for s in slices}
    one = call(read_only, "show_fsview_latest('trips', partition_path => 'sf')")
    assert {r["partition"] for r in one} == {"sf"}
    assert {r["partition"] for r in call(read_only, "show_fsview_all('trips', path_regex => 'l*')")
            } == {"la"}  # fmt: skip
    assert call(read_only, "show_fsview_latest('trips', max_instant => '20200101000000')") == []


def test_max_instant_bounds_a_view(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version, "cow")
    last = table.timeline.commits.last
    assert last is not None
    bound = f"show_fsview_latest('trips', max_instant => '{last.time}'"
    before, included = call(table, f"{bound})"), call(table, f"{bound}, include_max => true)")
    assert {r["base_instant"] for r in before} == {table.timeline.commits.instants[0].time}
    assert {r["base_instant"] for r in included} == {last.time}


def test_show_logfile(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version)
    logs = [log for one in table.file_slices("sf") for log in one.logs]
    pattern = f"log_file_path_pattern => '{table.path}/sf/*.log.*'"
    (block,) = call(table, f"show_logfile_metadata('trips', {pattern})")
    assert (block["record_count"], block["block_type"]) == (1, "PARQUET")
    assert "SCHEMA" in json.loads(block["header_metadata"])
    (record,) = call(table, f"show_logfile_records('trips', log_file_path_pattern => "
                            f"'{logs[0].path}')")  # fmt: skip
    assert json.loads(record["records"])["fare"] == 10.0


def test_show_table_properties(read_only: pyhudi.Table) -> None:
    found = call(read_only, "show_table_properties('trips', limit => 1000)")
    assert {r["key"]: r["value"] for r in found} == dict(read_only.config.properties)


def test_procedures_of_the_metadata_table(read_only: pyhudi.Table) -> None:
    partitions = call(read_only, "show_metadata_table_partitions('trips')")
    assert times(partitions, "partition") == sorted(read_only.partitions())
    stats = {r["stat_key"]: r["stat_value"] for r in
             call(read_only, "show_metadata_table_stats('trips')")}  # fmt: skip
    assert stats["isInSync"] == "true" and int(stats["record_index.baseFileCount"]) > 0
    files = call(read_only, "show_metadata_table_files('trips', partition => 'sf')")
    known = {str(f.name) for s in read_only.file_slices("sf") for f in s.files}
    assert {r["file_path"] for r in files} >= known
    assert call(read_only, "validate_metadata_table_files('trips')") == []
    verbose = call(read_only, "validate_metadata_table_files('trips', verbose => true)")
    assert {r["file_name"] for r in verbose} >= known
    assert all(r["fs_size"] == r["metadata_size"] > 0 for r in verbose)


def test_validate_finds_a_file_that_the_metadata_table_lists_in_vain(tmp_path: Path) -> None:
    table = trips(tmp_path)
    base = table.file_slices("sf")[0].base
    assert base is not None
    Path(table.path, base.path).unlink()
    (found,) = call(table, "validate_metadata_table_files('trips')")
    assert (found["file_name"], found["is_present_in_fs"], found["is_present_in_metadata"]) == (
        str(base.name), False, True,
    )  # fmt: skip


def test_show_metadata_table_column_stats(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version, "cow")
    found = call(table, "show_metadata_table_column_stats('trips', targetColumns => 'fare,id')")
    ranges = {(r["column_name"], r["min_value"], r["max_value"], r["null_number"]) for r in found}
    assert ranges == {
        ("fare", "2.0", "10.0", 0), ("fare", "4.0", "30.0", 0), ("id", "a", "b", 0),
        ("id", "c", "d", 0),
    }  # fmt: skip


def test_statistics(tmp_path: Path) -> None:
    table = trips(tmp_path, table_type="cow")
    last = table.timeline.commits.last
    assert last is not None
    found = call(table, "stats_wa('trips')")
    assert [tuple(r.values()) for r in found] == [
        (last.time, 2, 4, "2.00"),
        ("Total", 2, 4, "2.00"),
    ]
    sizes = [s.size_bytes for c in completed_commits(table._fs) for s in c.stats]
    every = call(table, "stats_file_sizes('trips')")[-1]
    assert (every["commit_time"], every["min"], every["max"], every["num_files"]) == (
        "ALL", min(sizes), max(sizes), 4,
    )  # fmt: skip
    (one, _) = call(table, "stats_file_sizes('trips', partition_path => 'sf', limit => 2)")
    assert one["num_files"] == 1


def test_commits_compare(tmp_path: Path) -> None:
    table = trips(tmp_path)
    table.copy(tmp_path / "copy")
    table.upsert(rows(("a", 11.0, "sf")))
    last = table.timeline.commits.last
    assert last is not None
    text = f"commits_compare(table => 'trips', path => '{tmp_path / 'copy'}')"
    (found,) = call(table, text)
    assert found["compare_detail"] == (
        f"table is ahead by 1 commits: [{last.time}]; path is ahead by 0 commits: []"
    )


# ---- procedures that change the table -----------------------------------------------------------


def test_run_compaction_plans_and_runs(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version)
    assert call(table, "run_compaction('run', 'trips')") == []
    (planned,) = call(table, "run_compaction(op => 'schedule', table => 'trips')")
    assert (planned["operation_size"], planned["state"]) == (2, "REQUESTED")
    (ran,) = call(table, f"run_compaction('run', 'trips', timestamp => {planned['timestamp']})")
    assert ran == {**planned, "state": "COMPLETED"}
    assert not any(one.logs for one in table.file_slices())
    table.upsert(rows(("a", 11.0, "sf")))
    (both,) = call(table, "run_compaction('scheduleAndExecute', 'trips')")
    assert (both["operation_size"], both["state"]) == (1, "COMPLETED")


def test_run_clustering_plans_and_runs(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version, "cow")
    (planned,) = call(
        table,
        "run_clustering('trips', op => 'schedule', `order` => 'fare', order_strategy => 'z-order', "
        "selected_partitions => 'sf', show_involved_partition => true)",
    )
    assert (planned["state"], planned["involved_partitions"]) == ("REQUESTED", "sf")
    (ran,) = call(table, "run_clustering('trips', op => 'execute')")
    assert (ran["timestamp"], ran["state"]) == (planned["timestamp"], "COMPLETED")
    (both,) = call(
        table, "run_clustering('trips', `order` => 'id', partition_regex_pattern => 'l.')"
    )
    assert both["timestamp"] > ran["timestamp"] and both["state"] == "COMPLETED"


def test_run_clean_deletes_files_by_its_arguments(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version, "cow")
    table.upsert(rows(("a", 11.0, "sf")))
    planned = table.with_options({"hoodie.clean.commits.retained": 1}).clean(dry_run=True)
    (found,) = call(table, "run_clean('trips', retain_commits => 1)")
    assert found["total_files_deleted"] == planned.files > 0
    assert found["earliest_commit_to_retain"] == planned.kept_from
    assert call(table, "run_clean('trips', options => 'hoodie.clean.commits.retained=1')") == []


def test_run_ttl_deletes_expired_partitions(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version, "cow")
    assert call(table, "run_ttl('trips', retain_days => 1)") == [{"deleted_partitions": ""}]


def test_a_begun_service_is_rolled_back(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version)
    planned = table.schedule_compaction()
    assert planned is not None
    log = timeline_log(table._fs, table.config)
    (requested,) = log.load().pending
    log.start(requested)
    text = f"run_rollback_inflight_tableservice('trips', pending_instant => '{planned}'"
    (found,) = call(table, f"{text})")
    assert found["instant"] == planned
    assert table.timeline.pending.instants == (replace(requested, state=State.REQUESTED),)
    with pytest.raises(pyhudi.UserError, match="has not begun"):
        call(table, f"{text})")
    call(table, f"{text}, delete_request_instant_file => true)")
    assert len(table.timeline.pending) == 0


def test_archive_commits(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version, "cow")
    for fare in range(4):
        table.upsert(rows(("a", 20.0 + fare, "sf")))
    call(table, "run_clean('trips', retain_commits => 2)")
    bounds = {"hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4}
    planned = (
        table.with_options({**bounds, "hoodie.clean.commits.retained": 2})
        .archive(dry_run=True)
        .instants
    )
    assert bool(planned) == (version == 9)  # at 6 the metadata table has to be compacted first
    assert call(
        table, "archive_commits('trips', min_commits => 3, max_commits => 4, retain_commits => 2)"
    ) == [{"result": 0}]
    assert len(table.timeline.commits) == 6 - len(planned)


def test_savepoints_are_created_restored_and_deleted(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version)
    first = table.timeline.commits.last
    assert first is not None
    before = table.to_arrow()
    assert call(table, "create_savepoint('trips', comments => 'release')") == [
        {"create_savepoint_result": True}
    ]
    assert [(s.instant, s.comment) for s in table.savepoints()] == [(first.time, "release")]
    table.upsert(rows(("a", 99.0, "sf")))
    assert call(table, f"rollback_to_savepoint('trips', '{first.time}')") == [
        {"rollback_savepoint_result": True}
    ]
    assert table.to_arrow().sort_by("id") == before.sort_by("id")
    assert call(table, "delete_savepoint('trips')") == [{"delete_savepoint_result": True}]
    assert table.savepoints() == []


def test_rollback_to_instant(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version)
    last = table.timeline.commits.last
    assert last is not None
    assert call(table, f"rollback_to_instant('trips', '{last.time}')") == [
        {"rollback_result": True}
    ]
    assert sorted(table.to_arrow()["fare"].to_pylist()) == [1.0, 2.0, 3.0, 4.0]


def test_versions_change(tmp_path: Path) -> None:
    table = trips(tmp_path, 6)
    assert call(table, "upgrade_table('trips', 'EIGHT')") == [{"result": True}]
    assert table.config.version == 8
    assert call(table, "downgrade_table('trips', to_version => 'SIX')") == [{"result": True}]
    assert table.config.version == 6


def test_partitions_are_dropped_and_the_table_is_emptied(tmp_path: Path, version: int) -> None:
    table = trips(tmp_path, version)
    assert call(table, "drop_partition('trips', 'la')") == [{"result": "SUCCESS"}]
    assert table.partitions() == ["sf"]
    (found,) = call(table, "truncate_table('trips')")
    assert found["result"] == "SUCCESS" and found["time_cost"] >= 0
    assert table.count() == 0


def test_truncate_of_partitions_leaves_the_others(tmp_path: Path) -> None:
    table = trips(tmp_path)
    call(table, "truncate_table('trips', partitions => 'la')")
    assert table.partitions() == ["sf"]


def test_hive_sync_passes_its_arguments(tmp_path: Path) -> None:
    table = trips(tmp_path)
    with pytest.raises(pyhudi.PyhudiError, match=r"127\.0\.0\.1:1"):
        call(table, "hive_sync('trips', metastore_uri => 'thrift://127.0.0.1:1', mode => 'hms')")
    with pytest.raises(pyhudi.PyhudiError, match=r"hive_sync\.mode"):
        call(table, "hive_sync('trips', mode => 'jdbc')")


def test_the_strategy_of_hive_sync_is_the_option_of_that_name(tmp_path: Path) -> None:
    with pytest.raises(pyhudi.PyhudiError, match=r"hive_sync\.table\.strategy"):
        call(trips(tmp_path), "hive_sync('trips', strategy => 'some')")


def test_further_options_win_and_leave_the_others(tmp_path: Path) -> None:
    table = trips(tmp_path).with_options({"hoodie.clean.commits.retained": 3})
    further = table.with_options({"hoodie.clean.hours.retained": 7})._options.services
    assert (further.commits_retained, further.hours_retained) == (3, 7)
    again = table.with_options({"hoodie.clean.commits.retained": 4})._options.services
    assert (again.commits_retained, table._options.services.commits_retained) == (4, 3)
