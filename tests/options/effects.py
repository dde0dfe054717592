"""What can be observed of an option: one function a scenario, all on tables in memory.

A scenario takes options and returns a value that can be compared; errors are values too.  Instants
are replaced by their rank, so that two runs with the same options give the same value.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.api.option_consistency import agreed
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import PyhudiError
from pyhudi.formats.log_file import HeaderKey, read_blocks
from pyhudi.keygen.timestamp_generator import time_rule, time_texts
from pyhudi.layouts.v8 import V8
from pyhudi.metadata.definitions import read_definitions
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.records import RECORD_KEY, InstantTime
from pyhudi.services.compaction import compaction_is_due
from pyhudi.spark.source.source_options import read_request
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType, format_properties, parse_properties
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.history.manifest import manifest_numbers
from pyhudi.timeline.history.writer import HistoryFiles
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.write.table_creation import NewTable, config_of
from tests.support.callbacks import server, taking
from tests.support.fake_metastore import metastore
from tests.support.filesystems import clone
from tests.support.inside import fs_of, state_of
from tests.sync.entries import plain as structure

Given = Mapping[str, str]
SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("v", pa.int64())]
)
SMALL = {
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.index.bloom.num_entries": "50",
}
QUIET = {**SMALL, "hoodie.table.services.enabled": "false"}
_INSTANT = re.compile(r"20\d{15}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")


def rows(ids: Any, ts: int, part: str | None = None) -> pa.Table:
    made = [{"id": f"k{i:05}", "ts": ts, "part": part or f"p{i % 2}", "v": i * 7 % 11} for i in ids]
    return pa.Table.from_pylist(made, SCHEMA)


def outcome(call: Callable[[], Any]) -> Any:
    """The value of a call, or its error, without what differs from run to run."""
    try:
        return plain(call())
    except PyhudiError as error:
        return type(error).__name__, _text(error.what)


def plain(value: Any) -> Any:
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    times = sorted(set(_INSTANT.findall(text)))
    return _UUID.sub("<id>", _INSTANT.sub(lambda m: f"<{times.index(m[0])}>", text))


def table(
    given: Given,
    kind: str = "cow",
    *,
    fs: FileSystem | None = None,
    index: IndexKind = IndexKind.RECORD,
    base: Given = QUIET,
    ordering: tuple[str, ...] = ("ts",),
    schema: pa.Schema = SCHEMA,
) -> Table:
    """A new table in memory, or the one at `fs`, opened with options."""
    options = parse_options({**base, **given})
    if fs is None:
        fs = MemoryFileSystem()
        table_type = TableType.COPY_ON_WRITE if kind == "cow" else TableType.MERGE_ON_READ
        create(fs, NewTable(schema, "t", table_type, ("id",), ("part",), ordering, options, index))
    return Table(fs, options=options, engine=LocalEngine(1))


OLDEST = {"hoodie.write.table.version": "6"}


@cache
def _built(kind: str, *, is_oldest: bool = False) -> MemoryFileSystem:
    """Two partitions, five commits; merge-on-read with logs: three in p0, two in p1."""
    made = table(OLDEST if is_oldest else {}, kind)
    made.bulk_insert(rows(range(40), 1))
    made.upsert(rows(range(40), 2))
    made.upsert(rows(range(0, 40, 2), 3))
    made.bulk_insert(rows(range(100, 110), 4))
    made.upsert(rows(range(0, 20, 2), 5))
    return fs_of(made)  # type: ignore[return-value]


def built(given: Given, kind: str) -> Table:
    return table(given, kind, fs=clone(_built(kind)))


# ---- what a table is, and what a call asks for -------------------------------------------------


def parsed(given: Given) -> Any:
    return outcome(lambda: bool(parse_options(given)))


def properties(given: Given) -> Any:
    def made() -> Any:
        definition = NewTable(
            SCHEMA, "t", TableType.COPY_ON_WRITE, ("id",), ("part",), ("ts",), parse_options(given)
        )
        return sorted(config_of(definition).properties.items())

    return outcome(made)


def agreement(given: Given) -> Any:
    """Of opening a table of version 6."""
    there = table(OLDEST).config
    return outcome(lambda: agreed(parse_options(given), there).ignored)


def upgraded(given: Given) -> Any:
    """Of a table of version 4 with the partition `default`."""
    base = {**QUIET, **OLDEST, "hoodie.metadata.enable": "false"}
    made = table(given, base=base, index=IndexKind.SIMPLE)
    made.insert(rows(range(2), 1, "default"))
    fs, name = fs_of(made), ".hoodie/hoodie.properties"
    old = {**parse_properties(fs.read(name)), "hoodie.table.version": "4"}
    fs.replace(name, format_properties(old))
    again = table({"hoodie.index.type": "SIMPLE", **given}, fs=fs, base={})
    return outcome(lambda: again.upgrade().to_version)


def spark_read(given: Given) -> Any:
    return outcome(lambda: repr(read_request({"path": "t", **given}).request))


def spark_stream(given: Given) -> Any:
    from pyhudi.spark.source.stream_reader import stream_request

    return outcome(lambda: stream_request({"path": "t", **given}).start)


def options_only(given: Given) -> Any:
    """Of names that another option makes known."""
    return outcome(lambda: sorted(parse_options({**given, "my.job": "1"}).write.commit_metadata))


def complex_keys(given: Given) -> Any:
    options = {**QUIET, "hoodie.datasource.write.keygenerator.type": "COMPLEX", **given}
    fs = MemoryFileSystem()
    definition = ("id",), ("part", "ts"), ()
    create(fs, NewTable(SCHEMA, "t", TableType.COPY_ON_WRITE, *definition, parse_options(options)))
    made = Table(fs, options=parse_options(options), engine=LocalEngine(1))
    made.insert(rows([1], 1))
    return made.scan([RECORD_KEY]).to_arrow()[RECORD_KEY].to_pylist()


def times(values: list[Any], kind: pa.DataType) -> Callable[[Given], Any]:
    def seen(given: Given) -> Any:
        base = {"hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd HH"}
        settings = parse_options({**base, **given}).keygen
        column = pa.chunked_array([pa.array(values, kind)])
        return outcome(lambda: time_texts(column, "at", rule=time_rule(settings)).to_pylist())

    return seen


# ---- reading -----------------------------------------------------------------------------------


def changes(given: Given) -> Any:
    return outcome(lambda: built(given, "cow").changes("000").to_arrow().num_rows)


def moment(instant: Instant) -> str:
    """What ranges of changes are compared with."""
    return instant.completed_at or instant.time


def changes_past_a_pending_instant(given: Given) -> Any:
    """Of instants; completion times leave no gaps."""
    fs = clone(_built("cow", is_oldest=True))
    made = table(given, fs=fs)
    second = list(made.timeline.commits)[1]
    fs.delete([state_of(made).log.path(second)])
    return outcome(lambda: made.changes("000").to_arrow().num_rows)


def changes_of_a_cleaned_range(given: Given) -> Any:
    fs = clone(_built("cow"))
    few = table({"hoodie.clean.commits.retained": "1"}, fs=fs)
    first, second = [moment(instant) for instant in few.timeline.commits][:2]
    few.clean()
    return outcome(lambda: table(given, fs=fs).changes(first, second).to_arrow().num_rows)


def changes_of_an_older_schema(given: Given) -> Any:
    fs = clone(_built("cow"))
    made = table(given, fs=fs)
    last = [moment(instant) for instant in made.timeline.commits][-1]
    wider = rows([1], 9).append_column("w", pa.array([1]))
    made.upsert(wider, schema_mode="widen")
    return made.changes("000", last).schema.names


def listed_by(given: Given) -> Any:
    return state_of(built(given, "cow")).listed_by


def skipped(given: Given) -> Any:
    fs = MemoryFileSystem()
    facts = {"hoodie.metadata.index.column.stats.enable": "true"}
    made = table(facts)
    fs = fs_of(made)  # type: ignore[assignment]
    made.bulk_insert(rows(range(10), 1, "p0"))
    made.bulk_insert(rows(range(50, 60), 7, "p0"))
    return outcome(lambda: str(table(given, fs=fs).scan(where=pc.field("ts") == 7).explain()))


# ---- writing -----------------------------------------------------------------------------------


def data_files(made: Table) -> list[tuple[str, int]]:
    """(kind, size) of each data file."""
    partitions = state_of(made).listing.partitions()
    infos = [info for partition in partitions for info in fs_of(made).children(partition)]
    return sorted(
        ("log" if ".log." in info.name else "base", info.size_bytes)
        for info in infos
        if ".log." in info.name or info.name.endswith(".parquet")
    )


def loaded(verb: str = "bulk_insert", count: int = 3000) -> Callable[[Given], Any]:
    """How the rows of a load lie, and the number of its files."""

    def seen(given: Given) -> Any:
        made = table(given)
        getattr(made, verb)(rows([i * 7919 % count for i in range(count)], 1, "p0"))
        return made.scan(["id", "v"]).to_arrow().slice(0, 50).to_pylist(), len(data_files(made))

    return seen


def base_file(given: Given) -> Any:
    """Codec, size and footer of a base file."""
    made = table(given)
    made.bulk_insert(rows(range(3000), 1, "p0"))
    [info] = [i for i in fs_of(made).children("p0") if i.name.endswith(".parquet")]
    footer = pq.read_metadata(pa.BufferReader(fs_of(made).read(f"p0/{info.name}")))
    kinds = {footer.row_group(0).column(c).compression for c in range(footer.num_columns)}
    bloom = {k: v for k, v in footer.metadata.items() if b"bloom" in k}
    pages = sum(footer.row_group(0).column(c).total_uncompressed_size for c in range(5, 9))
    return sorted(kinds), bloom, pages


def inserted_twice(kind: str = "cow") -> Callable[[Given], Any]:
    """File groups after some inserts into one partition."""

    def seen(given: Given) -> Any:
        made = table(given, kind)
        for turn in range(3):
            made.bulk_insert(rows(range(10 * turn, 10 * turn + 10), turn, "p0"))
        report = made.insert(rows(range(500, 503), 9, "p0"))
        return len(state_of(made).slices("p0")), report.file_groups

    return seen


def sized_by_history(given: Given) -> Any:
    """File groups of a bulk insert after a commit whose rows were wide."""
    made = table({"hoodie.parquet.max.file.size": "40kb", **given})
    wide = pa.Table.from_pylist(
        [{"id": f"w{i}" + "x" * 900 + str(i * 7919), "ts": 1, "part": "p1", "v": 1}
         for i in range(60)], SCHEMA
    )  # fmt: skip
    made.bulk_insert(wide)
    made.bulk_insert(rows(range(3000), 1, "p0"))
    return len(state_of(made).slices("p0"))


def logged(given: Given) -> Any:
    """Logs of an upsert."""
    made = table(given, "mor")
    made.bulk_insert(rows(range(2000), 1, "p0"))
    made.upsert(rows(range(2000), 2, "p0"))
    return [size // 64 for kind, size in data_files(made) if kind == "log"]


def positioned(given: Given) -> Any:
    """Whether log blocks of version 9 have record positions."""
    fs = MemoryFileSystem()
    made = _logging(fs, given)
    made.upsert(rows(range(3), 2))
    (log,) = [path for path in fs.store.files if ".log." in path and ".hoodie/" not in path]
    (block,) = read_blocks(fs.open(log), path=log)
    return HeaderKey.RECORD_POSITIONS in block.header


def partially_updated(given: Given) -> Any:
    """Values after an upsert of all columns."""
    fs = MemoryFileSystem()
    _logging(fs, {})
    made = Table(fs, options=parse_options({**QUIET, **given}), engine=LocalEngine(1))
    made.upsert(rows(range(3), 2).set_column(3, "v", pa.array([100, 200, 300])))
    return sorted(made.scan(["id", "ts", "v"]).to_arrow().to_pylist(), key=str)


def _logging(fs: MemoryFileSystem, given: Given) -> Table:
    """A merge-on-read table of version 9 with nine rows in its base file."""
    options = parse_options({**QUIET, "hoodie.write.table.version": "9", **given})
    kind = TableType.MERGE_ON_READ
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), (), ("ts",), options, IndexKind.SIMPLE))
    made = Table(fs, options=options, engine=LocalEngine(1))
    made.bulk_insert(rows(range(9), 1))
    return made


def inserted_again(given: Given) -> Any:
    made = table(given)
    made.insert(rows(range(4), 1))
    return outcome(lambda: made.insert(rows(range(2, 6), 2)).inserted)


def doubled(verb: str) -> Callable[[Given], Any]:
    """A batch that names a key twice."""

    def seen(given: Given) -> Any:
        made = table(given)
        batch = pa.concat_tables([rows([1], 1), rows([1], 2)])
        return outcome(lambda: getattr(made, verb)(batch).inserted)

    return seen


def overwritten(given: Given) -> Any:
    made = built(given, "cow")
    made.insert_overwrite(rows([0], 9, "p0"))
    return made.scan().count()


def lacking_a_column(given: Given) -> Any:
    made = built(given, "cow")
    return outcome(lambda: made.upsert(rows([1], 9).drop_columns(["v"])).updated)


def marked_delete(given: Given) -> Any:
    payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    base = {**QUIET, "hoodie.datasource.write.payload.class": payload}
    made = table(given, "mor", base=base)
    made.upsert(rows(range(4), 1))
    made.upsert(pc_set(rows([1], 2), "v", 77))
    made.upsert(pc_set(rows([2], 2), "v", 88))
    return made.scan().count()


def pc_set(batch: pa.Table, name: str, value: int) -> pa.Table:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), pa.array([value] * len(batch), pa.int64()))


def moved(index: IndexKind) -> Callable[[Given], Any]:
    """Partition of a key that comes with another one."""

    def seen(given: Given) -> Any:
        made = table(given, index=index)
        made.upsert(rows([1], 1, "p0"))
        made.upsert(rows([1], 2, "p1"))
        return made.scan(["_hoodie_partition_path"]).to_arrow().to_pydict()

    return seen


def found_by(kind: str = "cow", index: IndexKind = IndexKind.RECORD) -> Callable[[Given], Any]:
    """The path a look-up takes, and where new keys go."""

    def seen(given: Given) -> Any:
        made = table(given, kind, index=index)
        made.upsert(rows(range(6), 1, "p0"))
        made.upsert(rows(range(20, 26), 1, "p0"))
        report = made.upsert(rows(range(3, 9), 2, "p0"))
        methods = [name for name in ("seek", "scan", "hash") if report.lookup.get(name)]
        kinds = [kind for kind, _ in data_files(made)]
        return plain(report.index), methods, kinds, len(state_of(made).slices())

    return seen


def indexed_columns(given: Given) -> Any:
    """The columns with statistics in a new table of version 9."""
    new = {"hoodie.metadata.index.column.stats.enable": "true", "hoodie.write.table.version": "9"}
    made = table({**new, **given})
    return read_definitions(fs_of(made), made.config)["column_stats"]["sourceFields"]


def metadata_files(
    index: IndexKind = IndexKind.RECORD, base: Given = QUIET
) -> Callable[[Given], Any]:
    """File groups of each partition of the metadata table, and its compactions."""

    def groups(made: Table, path: str) -> list[str]:
        names = [info.name for info in fs_of(made).children(f".hoodie/metadata/{path}")]
        return sorted({n.split("_")[0].lstrip(".") for n in names if not n.startswith(".hoodie")})

    def seen(given: Given) -> Any:
        made = table(given, index=index, base=base)
        for ts in range(1, 5):
            made.upsert(rows(range(4), ts))
        found = {path: groups(made, path) for path in sorted(made.config.metadata_partitions)}
        names = [info.name for info in fs_of(made).children(".hoodie/metadata/files")]
        return found, sum(name.endswith(".hfile") for name in names)

    return seen


def partition_groups(given: Given) -> Any:
    """File groups of each partition in the record index of a new table, after a hundred rows."""
    version = {"hoodie.write.table.version": "9"}
    made = table({**version, **given}, index=IndexKind.SIMPLE)
    made.upsert(rows(range(100), 1))
    opened = table({}, fs=fs_of(made))
    if "record_index" not in opened.config.metadata_partitions:
        return {}
    return state_of(opened).locations.group_counts  # type: ignore[union-attr]


def built_index(given: Given) -> Any:
    """File groups of a record index that a write builds for the hundred rows of a table."""
    made = table({}, index=IndexKind.BLOOM)
    made.bulk_insert(rows(range(100), 1))
    table({"hoodie.metadata.record.index.enable": "true", **given}, fs=fs_of(made)).upsert(
        rows(range(4), 2)
    )
    return state_of(table({}, fs=fs_of(made))).record_index.bucket_count


# ---- services ----------------------------------------------------------------------------------


def after_writes(count: int, kind: str = "cow") -> Callable[[Given], Any]:
    """Notes of some upserts, and what is left of files and instants."""

    def seen(given: Given) -> Any:
        made = table(given, kind, base=SMALL)
        notes = [len(made.upsert(rows(range(4), ts)).notes) for ts in range(1, count + 1)]
        state = state_of(made)
        plans = len(state.timeline.pending.instants)
        kinds = [instant.action.value for instant in state.timeline]
        return notes, len(data_files(made)), plans, kinds

    return seen


def planned_clean(given: Given) -> Any:
    report = built({"hoodie.clean.commits.retained": "1", **given}, "cow").clean(dry_run=True)
    return report.files, report.partitions, report.kept_from is None


def planned_compaction(given: Given) -> Any:
    made = built(given, "mor")
    report = outcome(lambda: made.compact(dry_run=True))
    state = state_of(made)
    rules = parse_options(given).services.compaction
    due = compaction_is_due(state.timeline, state.zone, rules)
    if isinstance(report, tuple):
        return report
    return report.file_groups, report.log_files, due


def planned_later(given: Given) -> Any:
    """`planned_compaction` when more than a second has passed."""
    _built("mor")
    time.sleep(1.1)
    return planned_compaction(given)


def planned_log_compaction(given: Given) -> Any:
    report = built(given, "mor").compact_logs(dry_run=True)
    return report.file_groups


def planned_clustering(given: Given) -> Any:
    """The plan that is written, without names."""

    def plan() -> Any:
        made = built(given, "cow")
        if made.schedule_clustering() is None:
            return None
        state = state_of(made)
        action = Action(state.log.layout.clustering_action)
        [pending] = state.timeline.where({action}, State.REQUESTED)
        record = state.log.requested(pending)["clusteringPlan"]
        groups = [
            ([(part["partitionPath"], "4.parquet" in part["dataFilePath"]) for part in g["slices"]],
             [p["dataFilePath"][-30:-8] for p in g["slices"]], g["numOutputFileGroups"])
            for g in record["inputGroups"]
        ]  # fmt: skip
        shape = [(parts, count, len(names)) for parts, names, count in groups]
        order = [names for _, names, _ in groups]
        ranks = {name: n for n, name in enumerate(sorted(n for names in order for n in names))}
        return shape, [[ranks[n] for n in names] for names in order], record["strategy"]

    return outcome(plan)


def archived(given: Given) -> Any:
    few = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
    made = table({**few, **given})
    for ts in range(1, 8):
        made.upsert(rows(range(2), ts))
    made.savepoint("kept", [i.time for i in made.timeline.commits][1])
    preview = made.archive(dry_run=True)
    return len(preview.instants), preview.held_by


def archive_files(given: Given) -> Any:
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
           "hoodie.metadata.compact.max.delta.commits": "1"}  # fmt: skip
    made = table({**few, **given})
    merged = 0
    for ts in range(1, 11):
        made.upsert(rows(range(2), ts))
        merged += made.archive().merged
    folder = HISTORY if made.config.version > 6 else ".hoodie/archived"
    files = [i for i in fs_of(made).children(folder) if i.name.endswith((".parquet", "_1-0-1"))]
    return merged, len(files), [info.size_bytes // 256 for info in files]


def history_files(given: Given) -> Any:
    """Levels and versions of the archived timeline of layout 2 after ten archival runs."""
    fs = MemoryFileSystem()
    files = HistoryFiles(TimelineLog(fs, layout=V8), HISTORY)
    rules = parse_options(given).services
    merged = 0
    for number in range(10):
        time, done = InstantTime(f"{number}0"), InstantTime(f"{number}1")
        instant = Instant(time, Action.COMMIT, State.COMPLETED, done)
        fs.create(f".hoodie/timeline/{instant}", b"Obj\x01")
        files.append([instant], batch=rules.archive_batch)
        files.remove([instant])
        merged += files.maintain(rules)
    return merged, len(fs.names(HISTORY)), manifest_numbers(fs, HISTORY)


def expired(given: Given) -> Any:
    """Partitions that expire in a table whose rows are a day old or older."""
    made = built(given, "cow")
    return outcome(lambda: made.expire_partitions(dry_run=True).partitions)


# ---- callbacks ---------------------------------------------------------------------------------


def called_back(given: Given) -> Any:
    """Path, key and header of the callback of a write, which is answered late; or that none came in
    time."""
    prefix = "hoodie.write.commit.callback."
    base = {**QUIET, prefix + "on": "true", prefix + "http.url": server() + "/commits?wait=0.5"}
    with taking() as requests:
        report = table(given, base=base).insert(rows(range(2), 1))
    found = [(r.path, r.headers["HUDI-CALLBACK-API-KEY"], r.headers["Team"]) for r in requests]
    return found, len(report.notes)


# ---- checks before a commit --------------------------------------------------------------------


def checked(given: Given) -> Any:
    """The outcome of a write of two rows with checks: its notes, or the error; and the rows."""
    made = table(given, base=QUIET)
    written = outcome(lambda: made.insert(rows(range(2), 1)).notes)
    return written, made.count()


# ---- catalogs ----------------------------------------------------------------------------------


def registered(kind: str) -> Callable[[Given], Any]:
    """What two syncs store in a metastore, with a write between them, and the requests of each."""

    def look(given: Given) -> Any:
        made = table(QUIET, kind)
        made.insert(rows(range(4), 1))
        place = {"hoodie.datasource.meta.sync.base.path": "s3://lake/t", **given}
        with metastore() as (uri, handler):
            found = outcome(lambda: made.sync(uri=uri, options=place).entries)
            first = len(handler.calls)
            made.insert(rows(range(4, 8), 2, "p%2F2"))
            outcome(lambda: made.sync(uri=uri, options=place))
            tables = {
                name: (entry.tableType, structure(entry.sd), structure(entry.partitionKeys),
                       {k: v for k, v in entry.parameters.items() if "commit" not in k})
                for name, entry in handler.tables.items()
            }  # fmt: skip
            values = [[p.values for p in ps.values()] for ps in handler.partitions.values()]
            writes = [c for c in handler.calls if not c.startswith("get_table")]
            return repr((found and type(found), tables, values, writes, first))

    return look


def registered_again(given: Given) -> Any:
    """The requests of a sync after a commit that changes nothing in the catalog."""
    made = table(QUIET)
    made.insert(rows(range(4), 1))
    place = {"hoodie.datasource.meta.sync.base.path": "s3://lake/t", **given}
    with metastore() as (uri, handler):
        made.sync(uri=uri, options=place)
        made.insert(rows(range(4), 2))
        handler.calls.clear()
        made.sync(uri=uri, options=place)
        return list(handler.calls)


def sent_event(given: Given) -> Any:
    """Path, job and token of the event of a write."""
    base = {
        **QUIET,
        "pyhudi.openlineage.url": server(),
        "hoodie.datasource.meta.sync.base.path": "s3://lake/t",
    }
    with taking() as taken:
        table(given, base=base).insert(rows(range(2), 1))
        return [(t.path, t.message["job"], t.headers["Authorization"]) for t in taken]


def sent_dataset(given: Given) -> Any:
    """The URN, token and properties that DataHub gets from a sync."""
    base = {
        **QUIET,
        "hoodie.meta.sync.datahub.emitter.server": server(),
        "hoodie.datasource.meta.sync.base.path": "s3://lake/t",
    }
    with taking() as taken:
        table(given, base=base).sync("datahub")
    found = [(t.path, t.message["proposal"], t.headers["Authorization"]) for t in taken]
    return [(path, p["entityUrn"], p["aspect"]["value"], token) for path, p, token in found]


def registered_inline(given: Given) -> Any:
    """The notes of a write, after which the metastore is synced or not."""
    with metastore() as (uri, handler):
        base = {
            **QUIET,
            "hoodie.datasource.hive_sync.metastore.uris": uri,
            "hoodie.datasource.meta.sync.base.path": "s3://lake/t",
        }
        report = table(given, base=base).insert(rows(range(4), 1))
        return report.notes, sorted(handler.tables)
