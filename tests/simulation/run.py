"""One seed, from its plan to its verdict."""

from __future__ import annotations

import gc
import itertools
import random
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, PyhudiError, UserError, WriteConflictError
from pyhudi.operations.create import create
from pyhudi.options.indexes import IndexKind
from pyhudi.table.properties import TableType
from pyhudi.table.version_record import load_record
from pyhudi.write.table_creation import NewTable
from tests.simulation.actors import (
    NON_BLOCKING,
    ROLES,
    SCHEMA,
    Actor,
    Ingest,
    Service,
    Writer,
    options_of,
    rows,
)
from tests.simulation.checks import Observer, Op
from tests.simulation.followers import Follower, Reader
from tests.simulation.scheduler import (
    BrokenError,
    Process,
    Scheduler,
    StuckError,
    virtual_world,
)
from tests.simulation.store import FAULTS, STORES, Store, simulated_obstore

_QUIET_SECONDS: Final = 12 * 3600.0
_FOCUSES: Final[dict[str, tuple[str, ...]]] = {
    "": (),
    ".lock": (),
    "marker|MARKERS|heartbeat": (),
    "/metadata/": ("create_index", "drop_index"),
    "commit": ("compact", "cluster"),
    r"\.parquet": ("insert_overwrite", "travel"),
    r"\.log\.": ("compact", "logs", "schedule"),
    "rollback|restore": ("restore", "rollback", "savepoint"),
    "hoodie.properties": ("downgrade", "upgrade"),
    "history|archive": ("archive", "clean"),
    ".pinned|savepoint": ("pinned", "restore", "savepoint"),
}
"""Patterns of paths whose calls meet more faults, and verbs that call them more."""
_BLOCKING: Final = frozenset({
    "insert_overwrite", "insert_overwrite_table", "delete_partitions", "downgrade",
    "delete", "delete_where", "update", "merge", "merge_delete",
})  # fmt: skip
"""Verbs that non-blocking writers do not have, or whose result depends on when they began."""
_OTHERS: Final = {"writer": 5, "service": 5, "keeper": 2, "reader": 2, "ingest": 1,
                  "consumer": 1, "follower": 1, "capturer": 1}  # fmt: skip
_ACTORS: Final[dict[str, type[Actor]]] = {
    "writer": Writer, "service": Service, "keeper": Service, "reader": Reader, "ingest": Ingest,
    "consumer": Follower, "follower": Follower, "capturer": Follower,
}  # fmt: skip
_CAPTURES: Final = "hoodie.table.cdc.enabled=true"
_OPTIONS: Final = (
    "hoodie.metadata.compact.max.delta.commits=2",
    "hoodie.metadata.index.column.stats.enable=true",
    "hoodie.compact.inline=true",
    "hoodie.compact.inline.max.delta.commits=2",
    "hoodie.clustering.inline=true",
    "hoodie.clustering.inline.max.commits=2",
    "hoodie.clean.commits.retained=1",
    "hoodie.write.concurrency.early.conflict.detection.enable=true",
    "hoodie.write.markers.type=TIMELINE_SERVER_BASED",
    "hoodie.cleaner.policy.failed.writes=LAZY",
    "hoodie.archive.beyond.savepoint=true",
    "hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained=1",
    "hoodie.clean.incremental.enabled=false",
    "hoodie.parquet.small.file.limit=0",
    "hoodie.compact.schedule.inline=true",
    "hoodie.log.compaction.inline=true",
    "hoodie.log.compaction.blocks.threshold=2",
    "hoodie.logfile.data.block.format=avro",
    "hoodie.metadata.index.bloom.filter.enable=true",
)


@dataclass(frozen=True)
class Plan:
    """What a seed runs; every field can be changed to shrink it."""

    seed: int
    store: str
    version: int
    kind: str
    index: str
    actors: tuple[str, ...]
    steps: int
    faults: tuple[str, ...]
    rate: float
    focus: str
    stay: float
    options: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()  # what its actors do, of what their roles can; none: all

    @classmethod
    def of(cls, seed: int) -> Plan:
        """A plan of few faults, options and verbs, so that those which it has meet often."""
        dice = random.Random(f"plan {seed}")
        actors = ("writer", *dice.choices(list(_OTHERS), list(_OTHERS.values()),
                                          k=dice.randint(1, 5)))  # fmt: skip
        rate = dice.choice((0.0, 0.003, 0.01, 0.03))
        version, kind = dice.choice((6, 8, 9)), dice.choice(("cow", "mor"))
        index = dice.choice(("record", "bloom", "simple", "bucket"))
        options = {option for option in _OPTIONS if dice.random() < 0.2}
        if "capturer" in actors:
            options.add(_CAPTURES)
        if (version, kind, index) in ((8, "mor", "bucket"), (9, "mor", "bucket")):
            options |= {NON_BLOCKING} if dice.random() < 0.5 else set()
        focus = dice.choice(list(_FOCUSES))
        verbs = {verb for each in ROLES.values() for verb in _some(dice, list(each))}
        verbs.update(_FOCUSES[focus])
        for verb in _FOCUSES[focus]:
            if not any(verb in ROLES[actor] for actor in actors):
                actors += tuple(role for role, each in ROLES.items() if verb in each)
        if NON_BLOCKING in options:
            verbs -= _BLOCKING
        return cls(
            seed, dice.choice(sorted(STORES)), version, kind, index,
            actors, dice.choice((4, 6, 9)),
            _some(dice, FAULTS) if rate else (),
            rate, focus, dice.choice((0.0, 0.5, 0.9, 0.98)),
            tuple(sorted(options)), tuple(sorted({"upsert", *verbs})),
        )  # fmt: skip

    def __str__(self) -> str:
        return (f"seed {self.seed}: version {self.version}, {self.kind}, {self.index}, "
                f"{self.store}, {' '.join(self.actors)}, {self.steps} steps, "
                f"faults {' '.join(self.faults) or 'none'} at {self.rate}"
                f"{' near ' if self.focus else ''}{self.focus}; "
                f"{' '.join(self.verbs)}; {' '.join(self.options)}")  # fmt: skip


def _some(dice: random.Random, names: Sequence[str]) -> tuple[str, ...]:
    """A few of them as often as most of them."""
    share = dice.choice((0.2, 0.6))
    return tuple(name for name in names if dice.random() < share) or (dice.choice(names),)


@dataclass
class Verdict:
    plan: Plan
    problem: str = ""
    trace: list[str] = field(default_factory=list)
    commits: int = 0
    sometimes: Counter[str] = field(default_factory=Counter)


class Simulation:
    """The world of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scheduler = Scheduler(self._dice("turns"), stay=plan.stay)
        self.store = Store(self.scheduler, self._dice("store"), focus=plan.focus)
        self._pids, self._skews = itertools.count(1000), self._dice("skews")
        self._skew: dict[str, float] = {}
        self._pid: dict[str, int] = {}
        self._fs = STORES[plan.store]
        self.observer = Observer(
            self.scheduler, self._fs(self.store, self.process("observer")), self._dice("observer"),
            is_ordered=NON_BLOCKING in plan.options,
        )  # fmt: skip
        self.store.changed = self.observer.changed
        self.settings = dict(option.split("=") for option in plan.options)
        if plan.index == "bucket":
            self.settings.pop("hoodie.clustering.inline", None)
        self.actors = [self._actor(number, role) for number, role in enumerate(plan.actors)]

    def _dice(self, purpose: str) -> random.Random:
        return random.Random(f"{purpose} {self.plan.seed}")

    def process(self, name: str) -> Process:
        actor = name.partition(".")[0]
        machine = "disk" if self.plan.store == "disk" else actor
        skew = self._skew.setdefault(machine, self._skews.choice((0.0, 0.0, -1.5, 0.3, 4.0)))
        number = next(self._pids)
        pid = self._pid.setdefault(actor, number)  # as a container has it after each restart
        process = Process(name, machine, pid, str(number), skew)
        self.store.processes.append(process)
        return process

    def _actor(self, number: int, role: str) -> Actor:
        name = f"{role}{number}"
        every = ROLES[role]
        if NON_BLOCKING in self.plan.options:
            every = {verb: n for verb, n in every.items() if verb not in _BLOCKING}
        verbs = {verb: n for verb, n in every.items() if verb in self.plan.verbs} or every
        return _ACTORS[role](
            name, verbs, self.plan.steps, self._dice(name), self.scheduler, self.observer,
            lambda process: self._fs(self.store, process), self.process, self.settings,
            self.plan.index,
        )  # fmt: skip

    def run(self) -> Verdict:
        problem = ""
        gc.collect()
        gc.disable()  # finalizers run at the same places in every run
        try:
            with virtual_world(self.scheduler, self._dice("tokens")), simulated_obstore():
                problem = self._run()
        finally:
            gc.enable()
        found = Counter(self.observer.sometimes)
        found.update({f"fault: {name}": n for name, n in self.store.met.items()})
        lines = [str(call) for call in self.store.trace]
        return Verdict(self.plan, problem, lines, len(self.observer.events), found)

    def _run(self) -> str:
        try:
            self._phase("create", self._create)
            self.observer.is_on = True
            self.store.faults, self.store.rate = self.plan.faults, self.plan.rate
            for actor in self.actors:
                actor.start()
            self.scheduler.run()
            self._raise()
            self.store.rate = 0.0
            for process in self.store.processes:
                self.scheduler.kill(process)
            self._phase("end", self._end)
        except BrokenError as broken:
            cause = broken.__cause__
            more = "".join(traceback.format_exception(cause)[-12:]) if cause else ""
            return f"{broken}\n{more}".strip()
        except StuckError as stuck:
            return str(stuck)
        return ""

    def _raise(self) -> None:
        """The first problem of a phase."""
        for failure in self.scheduler.failures:
            if not isinstance(failure, BrokenError):
                raise BrokenError(f"an error of no kind: {failure!r}") from failure
            raise failure
        if self.observer.problem is not None:
            raise self.observer.problem

    def _phase(self, name: str, act: Any) -> None:
        process = self.process(name)
        self.scheduler.spawn(process, name, lambda: act(self._fs(self.store, process)))
        self.scheduler.run()
        self._raise()

    def _create(self, fs: Any) -> None:
        plan = self.plan
        kind = TableType.MERGE_ON_READ if plan.kind == "mor" else TableType.COPY_ON_WRITE
        version = {"hoodie.write.table.version": str(plan.version)}
        options = options_of(**version, **self.settings)
        index = IndexKind[plan.index.upper()]
        ordering = ("op",) if self.observer.is_ordered else ()
        create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ordering, options, index))

    def _end(self, fs: Any) -> None:
        """Everybody is gone, late requests have arrived: the table is whole and can be written."""
        self.scheduler.pause(_QUIET_SECONDS)
        table = Table(fs, options=options_of("last"), engine=LocalEngine(1))
        self.observer.ops["last"] = op = Op("last", "upsert", ("k0", "k1"))
        try:
            if (change := load_record(fs)) is not None:
                self.observer.sometimes["a version change was finished"] += 1
                finish = table.upgrade if change.after > change.before else table.downgrade
                try:
                    finish(change.after)
                except UserError as in_use:  # what it advises must do
                    if "delete the savepoints" in str(in_use) or "delete_savepoint" in str(in_use):
                        for saved in table.savepoints():
                            table.delete_savepoint(str(saved.instant))
                    elif "run table.cluster()" in str(in_use):
                        table.cluster()
                    else:
                        raise
                    finish(change.after)
            try:
                report = table.upsert(rows([0, 1], "last"))
            except WriteConflictError as pending:  # a clustering that failed is to be finished
                if "finish the clustering" not in str(pending):
                    raise
                table.cluster()
                report = table.upsert(rows([0, 1], "last"))
            except IndexNotReadyError as unfinished:  # two rebuilds were interrupted
                if "a rebuild of the metadata table was interrupted" not in str(unfinished):
                    raise
                self.observer.sometimes["an interrupted rebuild was repeated"] += 1
                table.metadata.rebuild()
                report = table.upsert(rows([0, 1], "last"))
            op.instant = report.instant
            self.observer.acknowledged(op)
            orphans = [f for f in table.doctor().findings if f.code == "orphan"]
            is_late = self.store.met.keys() & {"late", "outlives", "freeze that nobody waits for"}
            if orphans and not is_late:
                raise BrokenError(f"the last write has left files of failed ones: {orphans[:4]}")
            table.repair()
            found = table.doctor()
            if not found.is_healthy:
                raise BrokenError(f"the doctor finds after a repair: {found}")
            verified = table.metadata.verify()
            if not verified.is_healthy:
                raise BrokenError(f"the metadata table differs: {verified}")
            self.observer.check_timeline()
            self.observer.check_rows(table)
            self.observer.check_ingested(table.checkpoint())
            for actor in self.actors:
                actor.finish(fs)
        except PyhudiError as error:
            raise BrokenError(f"at the end {type(error).__name__}: {error}") from error


def run(plan: Plan) -> Verdict:
    """Run a plan in this process, which must be a fresh one: caches of the library are global."""
    return Simulation(plan).run()


def smaller(plan: Plan) -> list[Plan]:
    """Plans that do less: fewer steps, and parts of each list left out, the large parts first."""
    found = [replace(plan, steps=steps) for steps in (plan.steps // 2, plan.steps - 1) if steps]
    for name, least in {"actors": 1, "faults": 0, "options": 0, "verbs": 1}.items():
        values = getattr(plan, name)
        for size in sorted({len(values) // 2, 1} - {0}, reverse=True):
            for start in range(0, len(values), size):
                left = values[:start] + values[start + size :]
                if least <= len(left) < len(values):
                    found.append(replace(plan, **{name: left}))
    return found
