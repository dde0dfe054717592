"""A write, step by step; one text for every engine.

key -> tag -> (contest) -> assign            `plan_write`: nothing on the table changes
request -> start -> write + index -> publish  `execute`: data and index commit together

Source: architecture of the flow in docs/design.md; order of the files in table_format 2.2, 9.9.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.filenames import new_file_id
from pyhudi.formats import parquet
from pyhudi.formats.avroschema import with_meta_fields
from pyhudi.metadata.reader import RecordIndex
from pyhudi.metadata.writer import MetadataCommit
from pyhudi.options import WriteOptions
from pyhudi.read.rules import MergeRules, merge_rules
from pyhudi.read.slices import SliceSpec
from pyhudi.read.state import TableState
from pyhudi.records import FILE_NAME, PARTITION_PATH, RECORD_KEY, with_meta
from pyhudi.table.view import TableView
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.stats import CommitMetadata, WriteStat
from pyhudi.write.assign import Assignment, AssignRules, Mode, Target, assign
from pyhudi.write.batch import KeyPlan, Part, Rows
from pyhudi.write.contest import ContestTask, lost_rows
from pyhudi.write.entries import EntryTask, write_entries
from pyhudi.write.handles import FilePlan, WriteTask, Written, write_targets
from pyhudi.write.keys import key_rule
from pyhudi.write.report import WriteReport
from pyhudi.write.route import Router
from pyhudi.write.staging import Staged, Staging
from pyhudi.write.tag import Duplicates, ShardTags, TagTask, tag_shard

_SAMPLE_ROWS = 16 * 1024


class Operation(Enum):
    """Writing verbs; the value is the operation type of the commit."""

    INSERT = "INSERT"
    UPSERT = "UPSERT"
    BULK_INSERT = "BULK_INSERT"
    DELETE = "DELETE"

    @property
    def asks_index(self) -> bool:
        return self in (Operation.UPSERT, Operation.DELETE)


@dataclass
class Stopwatch:
    """Seconds per phase of one write."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            spent = self.seconds.get(name, 0.0) + time.monotonic() - began
            self.seconds[name] = round(spent, 4)


@dataclass(frozen=True)
class Setting:
    """Where and how a write happens.

    schema: the user columns the table has with this batch; avro_schema: the same as Avro JSON.
    """

    state: TableState
    engine: Engine
    staging: Staging
    options: WriteOptions
    index: RecordIndex
    schema: pa.Schema
    avro_schema: str
    watch: Stopwatch = field(default_factory=Stopwatch)


@dataclass(frozen=True)
class PlannedWrite:
    """A write ready to run: what goes where."""

    operation: Operation
    parts: tuple[Part, ...]
    shards: tuple[ShardTags, ...]
    lost: tuple[Staged | None, ...]
    assignment: Assignment

    @property
    def matched(self) -> int:
        return sum(sum(s.update_counts) for s in self.shards)

    @property
    def new(self) -> int:
        return sum(sum(s.insert_counts) for s in self.shards)

    @property
    def missing(self) -> int:
        return sum(s.missing_count for s in self.shards)

    @property
    def duplicates(self) -> int:
        return sum(s.duplicate_count for s in self.shards)

    @property
    def is_empty(self) -> bool:
        return not self.assignment.targets


def plan_write(setting: Setting, rows: Rows, operation: Operation) -> PlannedWrite:
    """Key, tag and assign; the table is only read.  Raises UserError, SchemaError."""
    rules = merge_rules(setting.state.config)
    rules.check()
    with setting.watch.phase("key"):
        ordering = rules.ordering if operation is not Operation.DELETE else ()
        plan = KeyPlan(
            setting.schema, key_rule(setting.state.config), setting.index.shard_count, ordering
        )
        parts = tuple(rows.stage(plan, setting.staging, setting.engine))
    view = setting.state.view()
    with setting.watch.phase("tag"):
        shards = _tag(setting, parts, operation, ordering)
        lost = _contest(setting, parts, shards, view, rules, ordering)
    with setting.watch.phase("assign"):
        assigned = assign(
            shards,
            view,
            AssignRules(
                setting.options.sizing,
                setting.state.config.is_merge_on_read,
                _record_bytes(setting, parts),
                small_files=operation is not Operation.BULK_INSERT,
            ),
            new_file_id=new_file_id,
        )
    return PlannedWrite(operation, parts, tuple(shards), tuple(lost), assigned)


def _tag(
    setting: Setting, parts: tuple[Part, ...], operation: Operation, ordering: tuple[str, ...]
) -> list[ShardTags]:
    if not sum(part.row_count for part in parts):
        return []
    duplicates = _duplicates(setting.options, operation, ordering)
    tasks = [
        TagTask(
            setting.state.fs,
            parts,
            number,
            shard if operation.asks_index else None,
            duplicates,
            ordering,
            deletes_all=operation is Operation.DELETE,
            moves=setting.options.update_partition_path,
            staging=setting.staging,
        )
        for number, shard in enumerate(setting.index.shards)
    ]
    return setting.engine.run(tag_shard, tasks, label="tag")


def _duplicates(
    options: WriteOptions, operation: Operation, ordering: tuple[str, ...]
) -> Duplicates:
    match operation:
        case Operation.DELETE:
            return Duplicates.NEWEST
        case Operation.UPSERT:
            combine = options.combine_before_upsert
        case _:
            combine = options.combine_before_insert
    if not combine:
        if operation is Operation.UPSERT:
            raise UserError(
                "an upsert has to combine rows of one key",
                hint="leave hoodie.combine.before.upsert at true",
            )
        return Duplicates.KEEP
    return Duplicates.GREATEST if ordering else Duplicates.NEWEST


def _contest(
    setting: Setting,
    parts: tuple[Part, ...],
    shards: Sequence[ShardTags],
    view: TableView,
    rules: MergeRules,
    ordering: tuple[str, ...],
) -> list[Staged | None]:
    lost: list[Staged | None] = [None] * len(shards)
    contested = [i for i, shard in enumerate(shards) if shard.contested]
    if not contested:
        return lost
    slices = {s.group: s for s in view.latest_slices()}
    spec = SliceSpec(with_meta(setting.schema), (RECORD_KEY, *ordering), rules, view.visibility)
    tasks = [
        ContestTask(
            setting.state.fs,
            spec,
            parts,
            shards[i],
            tuple((home, slices[shards[i].homes[home]]) for home in shards[i].contested),
            ordering,
            setting.staging,
        )
        for i in contested
    ]
    for i, result in zip(
        contested, setting.engine.run(lost_rows, tasks, label="contest"), strict=True
    ):
        lost[i] = result
    return lost


def _record_bytes(setting: Setting, parts: Sequence[Part]) -> int:
    """Bytes a row takes in a base file: as the newest commit with base files tells, else as a
    sample of the batch does."""
    timeline = setting.state.timeline.commits
    for instant in reversed(timeline.instants):
        stats = [s for s in setting.state.log.commit(instant).stats if s.log_version is None]
        rows = sum(s.write_count for s in stats)
        size = sum(s.size_bytes for s in stats)
        if rows and size > setting.options.sizing.small_file_bytes:
            return -(-size // rows)
    sample = next((p for p in parts if p.row_count), None)
    if sample is None:
        return setting.options.sizing.record_bytes
    rows_of = sample.staged.load().slice(0, _SAMPLE_ROWS)
    names = [n for n in rows_of.schema.names if n not in (PARTITION_PATH, FILE_NAME)]
    sink = pa.BufferOutputStream()
    parquet.write_base(
        sink,
        rows_of.select(names),
        avro_schema="",
        bloom=None,
        compression=setting.options.base_file.codec,
    )
    taken: int = sink.tell()
    return max(1, int(-(-taken // rows_of.num_rows)))


def profile(planned: PlannedWrite) -> bytes:
    """The inflight file: how many rows each file group and partition will take."""
    fresh: dict[str, int] = {}
    stats = []
    for target in planned.assignment.targets:
        if target.insert_count:
            partition = target.group.partition
            fresh[partition] = fresh.get(partition, 0) + target.insert_count
        if target.update_count and target.slice:
            stats.append(_profile_stat(target))
    heads = [WriteStat(p, "", "", None, 0, 0, 0, count, 0, 0) for p, count in sorted(fresh.items())]
    return CommitMetadata((*heads, *stats), operation=planned.operation.value).to_json()


def _profile_stat(target: Target) -> WriteStat:
    assert target.slice is not None
    group = target.group
    return WriteStat(
        group.partition, group.file_id, "", target.slice.instant, 0, 0, target.update_count, 0, 0, 0
    )


@dataclass(frozen=True)
class WrittenFiles:
    """What the tasks of a write wrote, data and index."""

    data: tuple[Written, ...]
    index: tuple[WriteStat, ...]

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        return tuple(w.stat for w in self.data)


def write_files(
    setting: Setting, planned: PlannedWrite, instant: Instant, metadata: MetadataCommit
) -> WrittenFiles:
    """Write every target and the index entries, in one run of the engine."""
    router = Router.of(planned.parts, planned.shards, planned.assignment.routes, planned.lost)
    plan = _file_plan(setting, planned, instant)
    tasks: list[WriteTask | EntryTask] = [
        WriteTask(plan, router, targets)
        for targets in _dealt(planned.assignment.targets, setting.engine.parallelism)
    ]
    groups = tuple(target.group for target in planned.assignment.targets)
    shard_targets = metadata.shard_targets()
    for shard, route, lost in zip(
        planned.shards, planned.assignment.routes, planned.lost, strict=True
    ):
        if planned.new or planned.operation is Operation.DELETE or shard.delete_count:
            tasks.append(
                EntryTask(
                    setting.state.fs,
                    instant,
                    shard_targets[shard.shard],
                    planned.parts,
                    shard.tags,
                    route,
                    lost,
                    groups,
                )
            )
    data: list[Written] = []
    index: list[WriteStat] = []
    for result in setting.engine.run(perform, tasks, label="write"):
        if isinstance(result, list):
            data += result
        elif result is not None:
            index.append(result)
    return WrittenFiles(tuple(data), tuple(index))


def perform(task: WriteTask | EntryTask) -> list[Written] | WriteStat | None:
    """One task of a write, on a worker."""
    match task:
        case WriteTask():
            return write_targets(task)
        case EntryTask():
            return write_entries(task)


def _file_plan(setting: Setting, planned: PlannedWrite, instant: Instant) -> FilePlan:
    rules = merge_rules(setting.state.config)
    return FilePlan(
        setting.state.fs,
        instant.time,
        setting.schema,
        with_meta_fields(setting.avro_schema),
        rules.ordering,
        setting.options.base_file,
        setting.options.log_format,
        natural_deletes=planned.operation is Operation.DELETE,
    )


def _dealt(targets: Sequence[Target], parallelism: int) -> list[tuple[tuple[int, Target], ...]]:
    """Targets dealt to tasks, heavy ones first and the load even."""
    task_count = max(1, min(len(targets), 4 * parallelism))
    loads = [0] * task_count
    hands: list[list[tuple[int, Target]]] = [[] for _ in range(task_count)]
    heavy = sorted(enumerate(targets), key=lambda item: (-_weight(item[1]), item[0]))
    for item in heavy:
        at = loads.index(min(loads))
        hands[at].append(item)
        loads[at] += _weight(item[1])
    return [tuple(hand) for hand in hands if hand]


def _weight(target: Target) -> int:
    rows = (target.update_count + target.insert_count) * 100
    stored = target.slice.base.size_bytes if target.slice and target.slice.base else 0
    return 1 + rows + (stored if target.mode is Mode.REWRITE else 0)


def report_of(
    setting: Setting,
    planned: PlannedWrite,
    *,
    instant: Instant | None,
    files: WrittenFiles | None,
    **more: object,
) -> WriteReport:
    """The report of a write, or of a dry run (no files)."""
    written = files.data if files else ()
    lost = sum(len(staged.load()) for staged in planned.lost if staged is not None)
    return WriteReport(
        operation=planned.operation.value.lower(),
        instant=instant.time if instant else None,
        inserted=sum(w.inserted for w in written),
        updated=sum(w.updated for w in written),
        deleted=sum(w.deleted for w in written),
        unchanged=sum(w.unchanged for w in written) + lost,
        missing_keys=planned.missing,
        duplicates=planned.duplicates,
        files=len(written),
        bytes_written=sum(w.stat.write_bytes for w in written),
        file_groups=len(planned.assignment.targets),
        seconds=dict(setting.watch.seconds),
        index=f"record index, {setting.index.shard_count} shards"
        if planned.operation.asks_index
        else "not asked: inserts do not look keys up",
        dry_run=files is None,
        matched=planned.matched,
        new=planned.new,
        **more,  # type: ignore[arg-type]
    )
