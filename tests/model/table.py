"""A small explicit-state model of a table under several writers and the services.

What is modelled is docs/transactions.md, cut down to what can go wrong: an instant is drawn by
putting its requested file; data files are written without the lock; at the end the write looks
for conflicts and puts its completed file; the index entry goes with it.  Whoever dies leaves what
it had; rollback of the dead, compaction and cleaning run at any time.  Keys are numbers, a file
group holds one key, a file is (key, instant).

`atomic_put`: whether putting a file fails where its name is taken.  The lock of a store without
it is a file that both writers believe they made, so without it the lock excludes nobody, and two
writers may draw one instant.

A state is a value; `steps` gives every state that may come next, with what happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

KEYS: Final = (0, 1, 2)


class At(Enum):
    """Where a writer is."""

    IDLE = "idle"
    LOCKED = "locked"  # to begin
    DRAWN = "drawn"  # has an instant
    WRITTEN = "written"  # its file is on the store
    ENDING = "ending"  # has the lock again
    CHECKED = "checked"  # saw no conflict
    INDEXED = "indexed"  # its index entry is there, not yet believed
    DONE = "done"
    DEAD = "dead"
    GAVE_UP = "gave up"


@dataclass(frozen=True, slots=True)
class Writer:
    """One write of one key.  began: newest completed instant of the key when it was planned."""

    key: int
    at: At = At.IDLE
    instant: int = 0
    began: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Everything on the store, and every writer.

    base: what a compaction has folded per key; acknowledged: instants whose writers were told
    that they are done; owner: who holds the lock, -1 nobody.  sees: (key, instant) a reader saw.
    """

    writers: tuple[Writer, ...]
    owner: int = -1
    clock: int = 0
    requested: frozenset[tuple[int, int]] = frozenset()  # (instant, writer)
    files: frozenset[tuple[int, int]] = frozenset()  # (key, instant)
    index: frozenset[tuple[int, int]] = frozenset()  # (key, instant)
    completed: frozenset[tuple[int, int]] = frozenset()  # (instant, writer)
    acknowledged: frozenset[tuple[int, int, int]] = frozenset()  # (key, instant, writer)
    overwritten: frozenset[int] = frozenset()  # instants that a later one of the key knew of
    services: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """atomic_put: the store refuses a taken name.  crashes, services: how many may happen."""

    atomic_put: bool = True
    crashes: int = 1
    services: int = 2


def start(keys: tuple[int, ...]) -> Table:
    return Table(tuple(Writer(key) for key in keys))


def done_times(table: Table) -> frozenset[int]:
    return frozenset(time for time, _ in table.completed)


def newest(table: Table, key: int) -> int:
    """The newest completed instant that wrote a key; 0 for none."""
    done = done_times(table)
    return max((t for k, t in table.files if k == key and t in done), default=0)


def steps(table: Table, rules: Rules) -> Iterator[tuple[str, Table]]:
    """Every state one step away, with the name of the step."""
    for number, writer in enumerate(table.writers):
        for name, after in _writer_steps(table, number, writer, rules):
            yield f"writer {number}: {name}", after
        if writer.at not in (At.IDLE, At.DONE, At.DEAD, At.GAVE_UP):
            dead = sum(1 for w in table.writers if w.at is At.DEAD)
            if dead < rules.crashes:
                yield f"writer {number}: dies", _dead(table, number, writer)
    if table.services < rules.services and table.owner == -1:
        yield from _service_steps(table)


def _put(table: Table, number: int, **changes: object) -> Table:
    writers = list(table.writers)
    writers[number] = replace(writers[number], **changes)  # type: ignore[arg-type]
    return replace(table, writers=tuple(writers))


def _dead(table: Table, number: int, writer: Writer) -> Table:
    """The lock of the dead is free; what they wrote stays."""
    free = replace(table, owner=-1) if table.owner == number else table
    return _put(free, number, at=At.DEAD)


def _writer_steps(
    table: Table, number: int, writer: Writer, rules: Rules
) -> Iterator[tuple[str, Table]]:
    free = table.owner == -1 or not rules.atomic_put
    match writer.at:
        case At.IDLE if free:
            yield "takes the lock", _put(replace(table, owner=number), number, at=At.LOCKED)
        case At.LOCKED:
            yield from _draw(table, number, writer, rules)
        case At.DRAWN:
            file = (writer.key, writer.instant)
            yield (
                "writes its file",
                _put(replace(table, files=table.files | {file}), number, at=At.WRITTEN),
            )
        case At.WRITTEN if free:
            yield "takes the lock", _put(replace(table, owner=number), number, at=At.ENDING)
        case At.ENDING:
            if newest(table, writer.key) != writer.began:
                yield "sees a conflict", _gave_up(table, number, writer)
            else:
                yield "sees no conflict", _put(table, number, at=At.CHECKED)
        case At.CHECKED:
            entry = (writer.key, writer.instant)
            yield (
                "writes its index entry",
                _put(replace(table, index=table.index | {entry}), number, at=At.INDEXED),
            )
        case At.INDEXED:
            yield from _complete(table, number, writer, rules)
        case _:
            return


def _draw(table: Table, number: int, writer: Writer, rules: Rules) -> Iterator[tuple[str, Table]]:
    """An instant is whoever's whose requested file is there first.  Clocks may stand still: two
    writers that looked at the same timeline want the same instant."""
    taken = {time for time, _ in table.requested}
    wanted = {max(taken, default=0) + 1}
    if not rules.atomic_put and taken:
        wanted.add(max(taken))  # one that looked before the other put its file
    for time in wanted:
        drawn = replace(table, requested=table.requested | {(time, number)}, owner=-1)
        yield (
            f"draws instant {time}",
            _put(drawn, number, at=At.DRAWN, instant=time, began=newest(table, writer.key)),
        )


def _gave_up(table: Table, number: int, writer: Writer) -> Table:
    return _put(_without(replace(table, owner=-1), writer, number), number, at=At.GAVE_UP)


def _without(table: Table, writer: Writer, number: int) -> Table:
    """A write rolled back: its files by its instant's markers, its index entry, its instant."""
    return replace(
        table,
        files=table.files - {(writer.key, writer.instant)},
        index=table.index - {(writer.key, writer.instant)},
        requested=table.requested - {(writer.instant, number)},
    )


def _complete(
    table: Table, number: int, writer: Writer, rules: Rules
) -> Iterator[tuple[str, Table]]:
    """The commit point: the completed file is put."""
    if rules.atomic_put and writer.instant in done_times(table):
        yield "is refused: the instant is completed", _gave_up(table, number, writer)
        return
    done = frozenset(p for p in table.completed if p[0] != writer.instant)
    after = replace(
        table,
        completed=done | {(writer.instant, number)},
        acknowledged=table.acknowledged | {(writer.key, writer.instant, number)},
        overwritten=table.overwritten | ({writer.began} if writer.began else frozenset()),
        owner=-1,
    )
    yield "completes", _put(after, number, at=At.DONE)


def _service_steps(table: Table) -> Iterator[tuple[str, Table]]:
    used = replace(table, services=table.services + 1)
    done = done_times(table)
    for number, writer in enumerate(table.writers):
        pending = (writer.instant, number) in table.requested and writer.instant not in done
        if writer.at is At.DEAD and pending:
            yield f"rollback of writer {number}", _without(used, writer, number)
    for key in KEYS:
        times = sorted(t for k, t in table.files if k == key and t in done)
        if len(times) > 1:  # a compaction or a clean leaves the newest slice
            old = frozenset((key, time) for time in times[:-1])
            yield f"clean of key {key}", replace(used, files=table.files - old)


def faults(table: Table) -> Iterator[str]:
    """What must not be, whoever looks at the table now."""
    done = done_times(table)
    seen: dict[int, list[int]] = {}
    for key, time in table.files:
        if time in done:
            seen.setdefault(key, []).append(time)
    for key, time, _ in table.acknowledged:
        if time not in done:
            yield f"the acknowledged write of key {key} at {time} is not completed"
        elif (key, time) not in table.files and time == max(seen.get(key, [time])):
            yield f"the acknowledged row of key {key} at {time} is gone"
        elif not seen.get(key):
            yield f"key {key} has no row, though one was acknowledged"
        elif time not in table.overwritten and time != max(seen[key]):
            yield f"the write of key {key} at {time} is lost under one that did not know of it"
        if time in done and (key, time) not in table.index and time == newest(table, key):
            yield f"the index does not know key {key} at {time}"
    for key, times in seen.items():
        owners = {w for k, t, w in table.acknowledged if k == key and t in times}
        completed_by = {w for t, w in table.completed if t in times}
        if not completed_by & owners and owners:
            yield f"key {key} shows rows of a write that another completed"
        for time in times:
            if not any(k == key and t == time for k, t, _ in table.acknowledged):
                yield f"key {key} shows a row at {time} that nobody completed for it"
