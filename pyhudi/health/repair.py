"""Repair of the problems in a diagnosis: planned first, then executed.  Idempotent.

```
properties -> payload class, archive folder -> files of the timeline
-> interrupted rebuild completed, failed writes rolled back
-> leftovers deleted -> replaced groups removed -> metafiles
-> damaged and orphan files moved out -> metadata table rebuilt -> cleans and restores finished
```

No file with data is deleted: it is moved to `.hoodie/.set_aside/<when>/` under its original path,
and only files with names of this table are moved.  Repairs that lose rows or history require
`allow_loss`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from pyhudi.engine import LOCAL, Engine
from pyhudi.errors import (
    IndexNotReadyError,
    PyhudiError,
    UserError,
)
from pyhudi.filenames import PARTITION_METAFILE, PROPERTIES
from pyhudi.health.archive_checks import ARCHIVE_FOLDER, archive_elsewhere
from pyhudi.health.commit_reconstruction import (
    compaction_plan_of,
    completed_instant,
    reconstruct_content,
)
from pyhudi.health.doctor import check_is_table, examine
from pyhudi.health.findings import Diagnosis, Finding, RepairAction, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.health.metadata_rebuild import DAMAGED, rebuild_metadata
from pyhudi.health.quarantine import quarantine_files
from pyhudi.health.replaced_groups import take_out_again
from pyhudi.health.timeline_checks import sound_properties
from pyhudi.markup import card_html, facts_text, plural, rows_html
from pyhudi.merge.merge_choice import mode_properties
from pyhudi.metadata.rebuild import finish_swap
from pyhudi.operations.rollback_restore import end_cleans
from pyhudi.options import Options
from pyhudi.records import InstantTime
from pyhudi.recovery.newest_commit import roll_back_newest
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.services.leftovers import delete_leftovers
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.listing import partition_metafile
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import load_config, store_config
from pyhudi.timeline.clock import format_instant, system_clock
from pyhudi.timeline.instant import COMPLETES_AS, Action, Instant, State, parse_instant_name
from pyhudi.transaction.begin import table_lock


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a repair: what it does, to which path, and why."""

    repair: RepairAction
    path: str
    why: str
    loses: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path, "does": self.repair.value, "why": self.why, "loses_data": self.loses
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What repair did, or (dry_run) would do.  left: the findings that remain after it."""

    path: str
    steps: tuple[Step, ...] = ()
    left: tuple[Finding, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return all(f.severity is Severity.INFO for f in self.left)

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "dry_run": self.dry_run,
            "steps": [step.to_dict() for step in self.steps],
            "left": [finding.to_dict() for finding in self.left],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return facts_text(self._title(), {s.path: f"{s.repair.value}: {s.why}" for s in self.steps})

    def _repr_html_(self) -> str:
        rows = [(s.path, s.repair.value, s.why) for s in self.steps]
        return card_html(self._title(), rows_html(("path", "step", "why"), rows))

    def _title(self) -> str:
        steps, left = plural(len(self.steps), "step"), plural(len(self.left), "finding")
        return f"{self.path}: {steps}{' planned' if self.dry_run else ''}, {left} left"


def plan_repair(diagnosis: Diagnosis, *, allow_loss: bool = False) -> tuple[Step, ...]:
    """The steps of the repair, in order.  Pure.

    While data files are missing or torn and their loss is not allowed, the metadata table is not
    rebuilt: one rebuilt from the store would not list them.
    """
    order = list(RepairAction).index
    found = [f for f in diagnosis.findings if f.repair is not None]
    is_blocked = not allow_loss and any(
        f.repair is RepairAction.QUARANTINE and f.loses for f in found
    )
    steps = {
        Step(f.repair, f.path, f.what, f.loses): None
        for f in found
        if f.repair is not None
        and (allow_loss or not f.loses)
        and not (is_blocked and f.repair is RepairAction.METADATA)
    }
    return tuple(sorted(steps, key=lambda step: (order(step.repair), step.path)))


def execute_repair(
    fs: FileSystem,
    *,
    options: Options | None = None,
    engine: Engine = LOCAL,
    dry_run: bool = False,
    allow_loss: bool = False,
) -> RepairReport:
    """Repair what `examine` finds, under the table's lock.

    allow_loss: also make repairs that lose rows or history: the newest commit is rolled back if
    its files are damaged; else the damaged files are moved out and their file groups return to
    their earlier content.
    Raises TableNotFoundError before anything is created, LockError; what could not be repaired is
    in the report.
    """
    check_is_table(fs)
    settings = options or Options()
    if dry_run:
        found = examine(fs, engine=engine)
        return RepairReport(fs.url, plan_repair(found, allow_loss=allow_loss), found.findings, True)
    done: list[Step] = []
    notes: list[str] = []
    with table_lock(fs, settings.write, "repair"):
        when = format_instant(system_clock(), None)
        tried: set[tuple[Step, ...]] = set()
        for _ in range(len(RepairAction)):  # one repair can reveal the next problem
            steps = plan_repair(examine(fs, engine=engine), allow_loss=allow_loss)
            kinds = (tuple(group) for _, group in groupby(steps, key=lambda step: step.repair))
            same_kind = next((kind for kind in kinds if kind not in tried), None)
            if same_kind is None:  # the same steps again would not help
                break
            if same_kind[0].repair is RepairAction.FINISH:  # takes the lock itself
                break
            done += same_kind
            notes += _execute(fs, same_kind, settings, engine, when)
            tried.add(same_kind)
        left = examine(fs, engine=engine)
    services = [s for s in plan_repair(left) if s.repair is RepairAction.FINISH]
    if services:
        notes += _finish(fs, settings, engine)
        done += services
        left = examine(fs, engine=engine)
    steps_done, distinct_notes = tuple(dict.fromkeys(done)), tuple(dict.fromkeys(notes))
    return RepairReport(fs.url, steps_done, left.findings, notes=distinct_notes)


def _execute(
    fs: FileSystem, steps: Sequence[Step], options: Options, engine: Engine, when: str
) -> list[str]:
    """Execute steps of one kind; returns notes for the report.  The steps of other kinds wait for
    the next examination."""
    paths, notes = [step.path for step in steps], list[str]()
    try:
        match steps[0].repair:
            case RepairAction.PROPERTIES:
                notes += _restore_properties(fs)
            case RepairAction.PAYLOAD_CLASS:
                _add_payload_class(fs)
            case RepairAction.ARCHIVE_FOLDER:
                _state_archive_folder(fs)
            case RepairAction.SWEEP:
                delete_leftovers(fs, paths)
            case RepairAction.METADATA:
                notes += _rebuild(fs, options, engine)
            case RepairAction.REPLACE:
                time = take_out_again(fs, paths, options, engine)
                notes.append(
                    f"replacecommit {time} removes {len(steps)} file groups from the table"
                )
            case RepairAction.ROLL_BACK:
                notes += _roll_back(fs, options, engine)
            case _:
                # notes of the repairs before one that fails stay in the list
                notes.extend(_repair_files(fs, steps, options, engine, when))
    except PyhudiError as refused:
        notes.append(f"{steps[0].repair.value}: {refused}")
    return notes


def _finish(fs: FileSystem, options: Options, engine: Engine) -> list[str]:
    """Finish pending cleans and restores; a note where another process runs one."""
    try:
        end_cleans(fs, options, engine, "repair")
    except PyhudiError as refused:
        return [f"{RepairAction.FINISH.value}: {refused}"]
    return []


def _restore_properties(fs: FileSystem) -> list[str]:
    source = sound_properties(fs)
    if source is None:
        return []
    fs.replace(PROPERTIES, fs.read(source))
    return [f"{PROPERTIES}: restored from {source}"]


def _add_payload_class(fs: FileSystem) -> None:
    config = load_config(fs)
    store_config(fs, config.with_properties(mode_properties(config.merge_mode, config.version)))


def _state_archive_folder(fs: FileSystem) -> None:
    config = load_config(fs)
    name = archive_elsewhere(fs, config)
    if name is not None:
        store_config(fs, config.with_properties({ARCHIVE_FOLDER: name}))


def _repair_files(
    fs: FileSystem, steps: Sequence[Step], options: Options, engine: Engine, when: str
) -> Iterator[str]:
    """Repair the files of steps of one kind; one note per repair that has one, as it is done."""
    inventory = TableInventory.of(fs, load_config(fs))
    if steps[0].repair is RepairAction.QUARANTINE:
        undone = _roll_back_damaged(inventory, steps, options, engine)
        yield from undone.notes
        if undone.is_done:
            return
    for step in steps:
        match step.repair:
            case RepairAction.RECOMPLETE:
                yield from _recomplete(inventory, step, when)
            case RepairAction.FORGET:
                _forget(inventory, step.path, when)
            case RepairAction.METAFILE:
                _write_metafile(inventory, step.path)
            case _:
                quarantine_files(fs, [step.path], when)


def _rebuild(fs: FileSystem, options: Options, engine: Engine) -> list[str]:
    """Rebuild the metadata table; a note if it lost partitions."""
    before = load_config(fs).metadata_partitions
    now = rebuild_metadata(fs, options, engine).metadata_partitions
    lost = sorted(before - now)
    return [f"metadata partitions were dropped: {', '.join(lost)}"] if lost else []


def _roll_back(fs: FileSystem, options: Options, engine: Engine) -> list[str]:
    """Roll back failed writes.  Where the metadata table is damaged or has compacted one of them,
    it is rebuilt; returns a note of that."""
    config = load_config(fs)
    try:
        config = finish_swap(fs, config)
        roll_back_failed(
            fs,
            config,
            timeline_log(fs, config),
            engine=engine,
            heartbeats=options.write.concurrency.heartbeats,
        )
    except DAMAGED as why:
        if not config.metadata_partitions and not isinstance(why, IndexNotReadyError):
            raise
        return [f"the metadata table was rebuilt: {why.what}", *_rebuild(fs, options, engine)]
    return []


@dataclass(frozen=True, slots=True)
class _Undone:
    """Whether a commit was rolled back, and notes on it."""

    is_done: bool = False
    notes: tuple[str, ...] = ()


def _roll_back_damaged(
    inventory: TableInventory, steps: Sequence[Step], options: Options, engine: Engine
) -> _Undone:
    """Roll back the newest commit if all damaged files are its own."""
    newest = inventory.timeline.commits.last
    if newest is None or not all(step.loses for step in steps):
        return _Undone()
    commit = inventory.commits.get(newest)
    written = {stat.path for stat in commit.stats} if commit else set()
    if not {step.path for step in steps} <= written:
        return _Undone()
    try:
        roll_back_newest(
            inventory.fs,
            inventory.config,
            inventory.log,
            newest.time,
            engine=engine,
            heartbeats=options.write.concurrency.heartbeats,
        )
    except (UserError, PyhudiError) as refused:
        note = f"commit {newest.time} could not be rolled back: {refused.what}"
        return _Undone(notes=(note,))
    return _Undone(True, (f"commit {newest.time} was rolled back: its files were damaged",))


def _recomplete(inventory: TableInventory, step: Step, when: str) -> list[str]:
    instant = parse_instant_name(step.path.rsplit("/", 1)[-1])
    assert instant is not None
    if instant.action is Action.COMPACTION and instant.state is State.REQUESTED:
        _replan(inventory, instant, step.path, when)
        return []
    instant = replace(instant, action=COMPLETES_AS[instant.action])
    content = reconstruct_content(inventory, instant)
    if content is None:
        return [f"{step.path}: cannot be reconstructed from the store"]
    completed = completed_instant(inventory, instant)
    inventory.fs.replace(inventory.log.path(completed), content)
    return [f"{step.path}: reconstructed; its row counts are those of its files"]


def _replan(inventory: TableInventory, pending: Instant, path: str, when: str) -> None:
    content = compaction_plan_of(inventory, pending)
    if content is None:
        _forget(inventory, path, when)
    else:
        inventory.fs.replace(path, content)


def _forget(inventory: TableInventory, path: str, when: str) -> None:
    """Move every state file of an instant to the quarantine."""
    instant = parse_instant_name(path.rsplit("/", 1)[-1])
    assert instant is not None
    states = (inventory.log.path(replace(instant, state=s)) for s in reversed(State))
    quarantine_files(inventory.fs, [p for p in states if inventory.fs.exists(p)], when)


def _write_metafile(inventory: TableInventory, path: str) -> None:
    partition = path[: -len(PARTITION_METAFILE)].rstrip("/")
    times = [
        n.instant for p, (_, n) in inventory.data_files.items() if p.rpartition("/")[0] == partition
    ]
    first = min(times, default=InstantTime("00000000000000"))
    inventory.fs.replace(path, partition_metafile(first, partition))
