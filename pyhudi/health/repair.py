"""Repair: what a diagnosis asks for, planned first, then done; doing it again changes nothing.

```
properties -> half a rebuild ended -> files of the timeline -> failed writes rolled back
-> replaced groups taken out -> metafiles -> damaged and nobody's files set aside
-> metadata table rebuilt
```

Nothing that holds data is deleted: a file that has to go is moved to `.hoodie/.set_aside/<when>/`
under the path it had, and only names that are this table's are moved.  What costs rows or history
is only done when asked for (`allow_loss`).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyhudi.engine import Engine, LocalEngine
from pyhudi.errors import PyhudiError, UserError
from pyhudi.filenames import PARTITION_METAFILE, PROPERTIES
from pyhudi.health.commit_reconstruction import compaction_plan_of, reconstruct_content
from pyhudi.health.doctor import check_is_table, examine
from pyhudi.health.findings import Diagnosis, Finding, Mend, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.health.metadata_rebuild import rebuild_metadata
from pyhudi.health.quarantine import delete_leftovers, set_aside
from pyhudi.health.replaced_groups import take_out_again
from pyhudi.health.timeline_checks import sound_properties
from pyhudi.metadata.rebuild import finish_swap
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.options import Options
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.listing import partition_metafile
from pyhudi.table.properties import load_config
from pyhudi.timeline.clock import format_instant, system_clock
from pyhudi.timeline.instant import Action, Instant, State, parse_instant_name
from pyhudi.transaction.begin import table_lock
from pyhudi.transaction.rollback import roll_back_failed, roll_back_newest


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that repair does: to what, and because of what."""

    mend: Mend
    path: str
    why: str
    loses: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path, "does": self.mend.value, "why": self.why, "loses_data": self.loses
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What repair did, or (dry_run) would do; `left` is what is wrong after it."""

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

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(s.path)}</td><td>{html.escape(s.mend.value)}</td>"
            f"<td>{html.escape(s.why)}</td></tr>"
            for s in self.steps
        )
        return f"<b>{html.escape(self.path)}: {len(self.left)} left</b><table>{rows}</table>"


def plan_repair(diagnosis: Diagnosis, *, allow_loss: bool = False) -> tuple[Step, ...]:
    """What there is to do, in order.  Pure.

    While data files are missing or torn and may not be given up, the metadata table stays as it
    is: one made anew from the store would not know of them.
    """
    order = list(Mend).index
    found = [f for f in diagnosis.findings if f.mend is not None]
    held = not allow_loss and any(f.mend is Mend.SET_ASIDE and f.loses for f in found)
    steps = {
        Step(f.mend, f.path, f.what, f.loses): None
        for f in found
        if f.mend is not None
        and (allow_loss or not f.loses)
        and not (held and f.mend is Mend.METADATA)
    }
    return tuple(sorted(steps, key=lambda step: (order(step.mend), step.path)))


def execute_repair(
    fs: FileSystem,
    *,
    options: Options | None = None,
    engine: Engine | None = None,
    dry_run: bool = False,
    allow_loss: bool = False,
) -> RepairReport:
    """Mend what `examine` finds, under the table's lock.

    allow_loss: also what costs rows or history: the newest commit is taken back if its files are
    damaged, else the damaged files go and their file groups show what they held before.
    Raises TableNotFoundError before anything is created, LockError; what could not be mended is
    in the report.
    """
    check_is_table(fs)
    settings, spread = options or Options(), engine or LocalEngine()
    if dry_run:
        found = examine(fs)
        return RepairReport(fs.url, plan_repair(found, allow_loss=allow_loss), found.findings, True)
    done: list[Step] = []
    notes: list[str] = []
    with table_lock(fs, settings.write, "repair"):
        when = format_instant(system_clock(), None)
        last: tuple[Step, ...] = ()
        for _ in range(len(Mend)):  # mending one thing shows the next
            found = examine(fs)
            steps = plan_repair(found, allow_loss=allow_loss)
            if not steps or steps == last:  # what did not help once does not help twice
                break
            done += _carry_out(fs, found, steps, settings, spread, when=when, notes=notes)
            last = steps
        left = examine(fs)
    steps_done, told = tuple(dict.fromkeys(done)), tuple(dict.fromkeys(notes))
    return RepairReport(fs.url, steps_done, left.findings, notes=told)


def _carry_out(
    fs: FileSystem,
    found: Diagnosis,
    steps: Sequence[Step],
    options: Options,
    engine: Engine,
    *,
    when: str,
    notes: list[str],
) -> list[Step]:
    """Do the steps of the first kind; the others wait for the table to be looked at again."""
    kind = steps[0].mend
    mine = [step for step in steps if step.mend is kind]
    try:
        match kind:
            case Mend.PROPERTIES:
                _restore_properties(fs, notes)
            case Mend.SWEEP:
                delete_leftovers(fs, [step.path for step in mine])
            case Mend.METADATA:
                rebuild_metadata(fs, options, engine)
            case Mend.REPLACE:
                time = take_out_again(fs, [step.path for step in mine], options, engine)
                notes.append(f"replacecommit {time} takes {len(mine)} file groups out of the table")
            case Mend.ROLL_BACK:
                _roll_back(fs, options)
            case _:
                _mend_files(fs, mine, options, when, notes)
    except PyhudiError as refused:
        notes.append(f"{kind.value}: {refused}")
    return mine


def _restore_properties(fs: FileSystem, notes: list[str]) -> None:
    source = sound_properties(fs)
    if source is not None:
        fs.replace(PROPERTIES, fs.read(source))
        notes.append(f"{PROPERTIES}: restored from {source}")


def _mend_files(
    fs: FileSystem, steps: Sequence[Step], options: Options, when: str, notes: list[str]
) -> None:
    ground = TableInventory.of(fs, load_config(fs))
    if steps[0].mend is Mend.SET_ASIDE and _undone(ground, steps, options, notes):
        return
    for step in steps:
        match step.mend:
            case Mend.RECOMPLETE:
                _recomplete(ground, step, when, notes)
            case Mend.FORGET:
                _forget(ground, step.path, when)
            case Mend.METAFILE:
                _write_metafile(ground, step.path)
            case _:
                set_aside(fs, [step.path], when)


def _roll_back(fs: FileSystem, options: Options) -> None:
    config = load_config(fs)
    ground = TableInventory.of(fs, finish_swap(fs, config))
    roll_back_failed(
        fs, ground.config, ground.log, metadata_rollback=rollback_metadata,
        heartbeats=options.write.concurrency.heartbeats,
    )  # fmt: skip


def _undone(
    ground: TableInventory, steps: Sequence[Step], options: Options, notes: list[str]
) -> bool:
    """Take the newest commit back if all that is damaged is its own, and nothing hinders."""
    newest = ground.timeline.commits.last
    if newest is None or not all(step.loses for step in steps):
        return False
    commit = ground.commits.get(newest)
    own = {stat.path for stat in commit.stats} if commit else set()
    if not {step.path for step in steps} <= own:
        return False
    try:
        roll_back_newest(
            ground.fs, ground.config, ground.log, newest.time, metadata_rollback=rollback_metadata,
            heartbeats=options.write.concurrency.heartbeats,
        )  # fmt: skip
    except (UserError, PyhudiError) as refused:
        notes.append(f"commit {newest.time} could not be taken back whole: {refused.what}")
        return False
    notes.append(f"commit {newest.time} was taken back: its files were damaged")
    return True


def _recomplete(ground: TableInventory, step: Step, when: str, notes: list[str]) -> None:
    instant = parse_instant_name(step.path.rsplit("/", 1)[-1])
    assert instant is not None
    if instant.action is Action.COMPACTION:
        _replan(ground, instant, step.path, when)
        return
    content = reconstruct_content(ground, instant)
    if content is None:
        notes.append(f"{step.path}: what it held cannot be told from the store")
        return
    completed = replace(instant, state=State.COMPLETED)
    ground.fs.replace(ground.log.path(completed), content)
    notes.append(f"{step.path}: written anew; counts of rows in it are those of its files")


def _replan(ground: TableInventory, pending: Instant, path: str, when: str) -> None:
    content = compaction_plan_of(ground, pending)
    if content is None:
        _forget(ground, path, when)
    else:
        ground.fs.replace(path, content)


def _forget(ground: TableInventory, path: str, when: str) -> None:
    """Set aside every state file of an instant."""
    instant = parse_instant_name(path.rsplit("/", 1)[-1])
    assert instant is not None
    states = (ground.log.path(replace(instant, state=s)) for s in reversed(State))
    set_aside(ground.fs, [p for p in states if ground.fs.exists(p)], when)


def _write_metafile(ground: TableInventory, path: str) -> None:
    partition = path[: -len(PARTITION_METAFILE)].rstrip("/")
    times = [n.instant for p, (_, n) in ground.data_files.items()
             if p.rpartition("/")[0] == partition]  # fmt: skip
    first = min(times, default=InstantTime("00000000000000"))
    ground.fs.replace(path, partition_metafile(first, partition))
