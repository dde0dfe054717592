"""A small explicit-state model of a table under several writers and the services.

What is modelled is docs/transactions.md, cut down to what can go wrong: an instant is drawn by
putting its requested file; data files are written without the lock; at the end the write looks
for conflicts, puts its index entry, confirms the lock and sends the request that puts its
completed file.  A holder may lose its lease at any step, and a request that was sent is carried
out at any time after, also when its writer is dead.  Whoever dies leaves what it had.  A rollback
takes several steps under the lock and may crash between them; the next holder finishes it.  A
clean is planned at one time and deletes one file a step.  Keys are numbers, a file group holds
one key, a file is (key, instant).

`atomic_put`: whether putting a file fails where its name is taken.  The lock of a store without
it is a file that both writers believe they made, so without it the lock excludes nobody, and two
writers may draw one instant.  `fenced`: whether readers and the writer itself verify a commit that
may be late.  `gives_way`: whether a write that ends gives way to the rollback of one that lost the
lock at its commit point.  Without any of the three there is a counter-example.

`completion_times`: the timeline of table versions 8 and 9.  Commits then complete in another order
than that of their instants, and readers of changes remember the latest completion time they saw:
a commit that becomes visible must have a later one.  `ends_under_lock`: whether a writer draws its
completion time after it has confirmed the lock; else it draws it with its instant, and there is a
counter-example.

A state is a value; `steps` gives every state that may come next, with what happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

KEYS: Final = (0, 1, 2)
NO_WRITER: Final = -1
SERVICE: Final = -2


class At(Enum):
    """Where a writer is."""

    IDLE = "idle"
    LOCKED = "locked"  # to begin
    DRAWN = "drawn"  # has an instant
    WRITTEN = "written"  # its file is on the store
    ENDING = "ending"  # has the lock again
    CHECKED = "checked"  # saw no conflict
    INDEXED = "indexed"  # its index entry is there, not yet believed
    SENT = "sent"  # the lock was confirmed, the request to publish is on its way
    UNSURE = "unsure"  # published, but the lock was lost meanwhile
    DONE = "done"
    CRASHED = "dead"
    GAVE_UP = "gave up"


_HOLDING: Final = frozenset({At.LOCKED, At.ENDING, At.CHECKED, At.INDEXED, At.SENT})
_OVER: Final = frozenset({At.IDLE, At.DONE, At.CRASHED, At.GAVE_UP})


@dataclass(frozen=True, slots=True)
class Writer:
    """One write of one key.  began: newest completed instant of the key when it was planned.
    sent: whether its request to publish is on its way.  end: its completion time."""

    key: int
    at: At = At.IDLE
    instant: int = 0
    began: int = 0
    sent: bool = False
    end: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Everything on the store, and every writer.

    owner: who holds the lock.  undone: instants that a rollback names; fenced: those whose
    inflight file it has removed.  rollback: (writer, step) of one that has begun; going: files
    that a clean has planned to delete.  acknowledged: writes that were published and seen;
    reported: those whose writers reported success.  seen: the latest completion time that readers
    have seen; passed: instants that became visible with an earlier one.
    """

    writers: tuple[Writer, ...]
    owner: int = NO_WRITER
    requested: frozenset[tuple[int, int]] = frozenset()  # (instant, writer)
    files: frozenset[tuple[int, int]] = frozenset()  # (key, instant)
    index: frozenset[tuple[int, int]] = frozenset()  # (key, instant)
    completed: frozenset[tuple[int, int]] = frozenset()  # (instant, writer)
    acknowledged: frozenset[tuple[int, int, int]] = frozenset()  # (key, instant, writer)
    reported: frozenset[tuple[int, int, int]] = frozenset()
    overwritten: frozenset[int] = frozenset()  # instants that a later one of the key knew of
    undone: frozenset[int] = frozenset()
    fenced: frozenset[int] = frozenset()
    rollback: tuple[int, int] | None = None
    going: frozenset[tuple[int, int]] = frozenset()
    services: int = 0
    crashes: int = 0
    losses: int = 0
    seen: int = 0
    passed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Rules:
    """crashes: of writers and rollbacks, services: cleans, losses: of leases, how many may be."""

    atomic_put: bool = True
    crashes: int = 1
    services: int = 2
    losses: int = 1
    fenced: bool = True
    gives_way: bool = True
    completion_times: bool = False
    ends_under_lock: bool = True


def start(keys: tuple[int, ...]) -> Table:
    return Table(tuple(Writer(key) for key in keys))


def done_times(table: Table, rules: Rules) -> frozenset[int]:
    """Instants that readers believe."""
    late = table.undone & table.fenced if rules.fenced else frozenset()
    return frozenset(time for time, _ in table.completed) - late


def newest(table: Table, key: int, rules: Rules) -> int:
    """The newest completed instant that wrote a key; 0 for none."""
    done = done_times(table, rules)
    return max((t for k, t in table.files if k == key and t in done), default=0)


def steps(table: Table, rules: Rules) -> Iterator[tuple[str, Table]]:
    """Every state one step away, with the name of the step."""
    for number, writer in enumerate(table.writers):
        for name, after in _writer_steps(table, number, writer, rules):
            yield f"writer {number}: {name}", after
        if writer.at not in _OVER and table.crashes < rules.crashes:
            yield f"writer {number}: dies", _crashed(table, number)
        if writer.at in _HOLDING and table.owner == number and table.losses < rules.losses:
            lost = replace(table, owner=NO_WRITER, losses=table.losses + 1)
            yield f"writer {number}: loses its lease", lost
        if writer.at is At.CRASHED and writer.sent:
            landed = _published(table, number, writer, rules)
            yield f"the request of dead writer {number} is carried out", landed
    yield from _rollback_steps(table, rules)
    yield from _clean_steps(table, rules)


def _put(table: Table, number: int, **changes: object) -> Table:
    writers = list(table.writers)
    writers[number] = replace(writers[number], **changes)  # type: ignore[arg-type]
    return replace(table, writers=tuple(writers))


def _freed(table: Table, number: int) -> Table:
    return replace(table, owner=NO_WRITER) if table.owner == number else table


def _crashed(table: Table, number: int) -> Table:
    """The lock of the dead is free; what they wrote stays."""
    counted = replace(table, crashes=table.crashes + 1)
    return _put(_freed(counted, number), number, at=At.CRASHED)


def _is_pending(table: Table, number: int, rules: Rules) -> bool:
    time = table.writers[number].instant
    return (time, number) in table.requested and time not in done_times(table, rules)


def _lost_at_commit_point(table: Table, number: int, rules: Rules) -> bool:
    """What another holder of the lock sees by the index entry of a pending write."""
    writer = table.writers[number]
    indexed = (writer.key, writer.instant) in table.index
    return indexed and table.owner != number and _is_pending(table, number, rules)


def _failed(table: Table, rules: Rules) -> list[int]:
    """Writers whose writes the next holder of the lock rolls back."""
    return [
        number
        for number, writer in enumerate(table.writers)
        if (writer.at is At.CRASHED and _is_pending(table, number, rules))
        or _lost_at_commit_point(table, number, rules)
    ]


def _writer_steps(
    table: Table, number: int, writer: Writer, rules: Rules
) -> Iterator[tuple[str, Table]]:
    free = table.owner == NO_WRITER or not rules.atomic_put
    holds = table.owner == number or not rules.atomic_put
    match writer.at:
        case At.IDLE if free and table.rollback is None and not _failed(table, rules):
            yield "takes the lock", _put(replace(table, owner=number), number, at=At.LOCKED)
        case At.LOCKED:
            yield from _draw(table, number, writer, rules)
        case At.DRAWN:
            files = table.files | {(writer.key, writer.instant)}
            yield "writes its file", _put(replace(table, files=files), number, at=At.WRITTEN)
        case At.WRITTEN if free:
            yield "takes the lock", _put(replace(table, owner=number), number, at=At.ENDING)
        case At.ENDING | At.CHECKED | At.INDEXED if not holds:
            if free:
                yield "has lost the lock, and takes it to give up", _gave_up(table, number, rules)
        case At.ENDING:
            if _must_give_way(table, number, writer, rules):
                yield "sees a conflict", _gave_up(table, number, rules)
            else:
                yield "sees no conflict", _put(table, number, at=At.CHECKED)
        case At.CHECKED:
            index = table.index | {(writer.key, writer.instant)}
            yield "writes its index entry", _put(replace(table, index=index), number, at=At.INDEXED)
        case At.INDEXED:
            end = writer.end or _next_end(table, rules)
            yield "confirms the lock", _put(table, number, at=At.SENT, sent=True, end=end)
        case At.SENT:
            yield from _publish(table, number, writer, rules)
        case At.UNSURE if free:
            yield from _look(table, number, writer, rules)
        case _:
            return


def _draw(table: Table, number: int, writer: Writer, rules: Rules) -> Iterator[tuple[str, Table]]:
    """An instant is whoever's whose requested file is there first.  Clocks may stand still: two
    writers that looked at the same timeline want the same instant."""
    taken = {time for time, _ in table.requested} | table.undone
    expected = {max(taken, default=0) + 1}
    if not rules.atomic_put and taken:
        expected.add(max(taken))  # one that looked before the other put its file
    for time in expected:
        drawn = _freed(replace(table, requested=table.requested | {(time, number)}), number)
        began = newest(table, writer.key, rules)
        if not rules.atomic_put:
            drawn = replace(drawn, owner=NO_WRITER)
        end = 0 if rules.ends_under_lock else _next_end(table, rules)
        yield (
            f"draws instant {time}",
            _put(drawn, number, at=At.DRAWN, instant=time, began=began, end=end),
        )


def _next_end(table: Table, rules: Rules) -> int:
    """A completion time after all that were visible: after those of completed files, and after
    rollbacks, whose own times are later than those of what they undo.  0 without them."""
    return table.seen + 1 if rules.completion_times else 0


def _must_give_way(table: Table, number: int, writer: Writer, rules: Rules) -> bool:
    if newest(table, writer.key, rules) != writer.began:
        return True
    if not rules.gives_way:
        return False
    others = (n for n in range(len(table.writers)) if n != number)
    return table.rollback is not None or any(
        _lost_at_commit_point(table, other, rules) for other in others
    )


def _gave_up(table: Table, number: int, rules: Rules) -> Table:
    """Roll back one's own write under the lock, and free it.  It may be rolled back already."""
    writer = table.writers[number]
    after = _freed(replace(table, owner=number), number)
    if _is_pending(table, number, rules) or writer.instant in table.undone:
        undone = table.undone | {writer.instant}
        after = replace(after, undone=undone, fenced=table.fenced | {writer.instant})
        completed = after.completed - {(writer.instant, number)}
        after = _without(replace(after, completed=completed), number)
    if after.rollback is not None and after.rollback[0] == number:
        after = replace(after, rollback=None)
    return _put(after, number, at=At.GAVE_UP)


def _without(table: Table, number: int) -> Table:
    """A write rolled back: its files by its instant's markers, its index entry, its instant."""
    writer = table.writers[number]
    return replace(
        table,
        files=table.files - {(writer.key, writer.instant)},
        index=table.index - {(writer.key, writer.instant)},
        requested=table.requested - {(writer.instant, number)},
    )


def _publish(
    table: Table, number: int, writer: Writer, rules: Rules
) -> Iterator[tuple[str, Table]]:
    """The commit point: the completed file is put."""
    if rules.atomic_put and writer.instant in {time for time, _ in table.completed}:
        yield "is refused: the instant is completed", _gave_up(table, number, rules)
        return
    after = _published(table, number, writer, rules)
    if table.owner == number or not (rules.fenced and rules.atomic_put):
        yield "completes", _report(after, number)
    else:
        yield "completes without the lock", _put(after, number, at=At.UNSURE)


def _published(table: Table, number: int, writer: Writer, rules: Rules) -> Table:
    """The completed file is there; whether it is seen is another matter."""
    done = frozenset(p for p in table.completed if p[0] != writer.instant)
    after = _put(replace(table, completed=done | {(writer.instant, number)}), number, sent=False)
    if writer.instant not in done_times(after, rules):
        return after
    passed = rules.completion_times and writer.end <= table.seen
    return replace(
        after,
        seen=max(table.seen, writer.end),
        passed=table.passed | ({writer.instant} if passed else frozenset()),
        acknowledged=table.acknowledged | {(writer.key, writer.instant, number)},
        overwritten=table.overwritten | ({writer.began} if writer.began else frozenset()),
    )


def _report(table: Table, number: int) -> Table:
    writer = table.writers[number]
    reported = table.reported | {(writer.key, writer.instant, number)}
    after = replace(table, reported=reported)
    return _put(_freed(after, number), number, at=At.DONE)


def _look(table: Table, number: int, writer: Writer, rules: Rules) -> Iterator[tuple[str, Table]]:
    """Take the lock again and look whether the commit stands."""
    stands = writer.instant in done_times(table, rules) and writer.instant not in table.undone
    if stands:
        yield "sees that its commit stands", _report(table, number)
    else:
        yield "sees that it was rolled back", _gave_up(table, number, rules)


def _rollback_steps(table: Table, rules: Rules) -> Iterator[tuple[str, Table]]:
    """A rollback takes the lock, and one step at a time; who takes the lock after a crash goes on
    where it was left."""
    if table.rollback is None:
        if table.owner == NO_WRITER:
            for number in _failed(table, rules):
                begun = replace(table, owner=SERVICE, rollback=(number, 0))
                yield f"a rollback of writer {number} takes the lock", begun
        return
    number, step = table.rollback
    if table.owner == NO_WRITER:
        yield f"the rollback of writer {number} is resumed", replace(table, owner=SERVICE)
    if table.owner != SERVICE:
        return
    if table.crashes < rules.crashes:
        crashed = replace(table, owner=NO_WRITER, crashes=table.crashes + 1)
        if step == 0:  # nothing on the store tells of it
            crashed = replace(crashed, rollback=None)
        yield f"the rollback of writer {number} crashes", crashed
    yield _rollback_step(table, number, step)


def _rollback_step(table: Table, number: int, step: int) -> tuple[str, Table]:
    writer = table.writers[number]
    time, entry = writer.instant, (writer.key, writer.instant)
    on = replace(table, rollback=(number, step + 1))
    match step:
        case 0:
            return f"instant {time} is named", replace(on, undone=table.undone | {time})
        case 1:
            retained = frozenset(a for a in table.acknowledged if a[1] != time)
            completed = table.completed - {(time, number)}
            return f"instant {time} is unpublished", replace(
                on, completed=completed, acknowledged=retained, fenced=table.fenced | {time}
            )
        case 2:
            return f"the index entry of {time} goes", replace(on, index=table.index - {entry})
        case 3:
            return f"the file of {time} goes", replace(on, files=table.files - {entry})
        case _:
            requested = table.requested - {(time, number)}
            return f"the rollback of {time} ends", replace(
                table, requested=requested, rollback=None, owner=NO_WRITER
            )


def _clean_steps(table: Table, rules: Rules) -> Iterator[tuple[str, Table]]:
    """Planned under the lock, carried out beside writers; one that crashes is carried out later,
    or never."""
    if table.going:
        file = min(table.going)
        yield (
            f"a clean deletes {file}",
            replace(table, files=table.files - {file}, going=table.going - {file}),
        )
        return
    if table.services == rules.services or table.owner != NO_WRITER or table.rollback is not None:
        return
    done = done_times(table, rules)
    for key in KEYS:
        times = sorted(t for k, t in table.files if k == key and t in done)
        if len(times) > 1 and not _failed(table, rules):  # the newest slice stays
            old = frozenset((key, time) for time in times[:-1])
            yield (
                f"a clean of key {key} is planned",
                replace(table, going=old, services=table.services + 1),
            )


def faults(table: Table, rules: Rules) -> Iterator[str]:
    """What must not be, whoever looks at the table now."""
    done = done_times(table, rules)
    seen: dict[int, list[int]] = {}
    for key, time in table.files:
        if time in done:
            seen.setdefault(key, []).append(time)
    for key, time, _ in table.reported:
        if time not in done:
            yield f"the reported write of key {key} at {time} is not completed"
    for time in table.passed:
        yield f"instant {time} became visible with a completion time that readers had passed"
    for number, writer in enumerate(table.writers):
        stands = (writer.instant, number) in table.completed and writer.instant in done
        if writer.at is At.GAVE_UP and stands:
            yield f"writer {number} reported a failure, but its commit stands"
    for key, time, _ in table.acknowledged:
        if time not in done:
            continue
        if (key, time) not in table.files and time == max(seen.get(key, [time])):
            yield f"the acknowledged row of key {key} at {time} is gone"
        elif not seen.get(key):
            yield f"key {key} has no row, though one was acknowledged"
        elif time not in table.overwritten and time != max(seen[key]):
            yield f"the write of key {key} at {time} is lost under one that did not know of it"
        if (key, time) not in table.index and time == newest(table, key, rules):
            yield f"the index does not know key {key} at {time}"
    for key, times in seen.items():
        owners = {w for k, t, w in table.acknowledged if k == key and t in times}
        completed_by = {w for t, w in table.completed if t in times}
        if not completed_by & owners and owners:
            yield f"key {key} shows rows of a write that another completed"
        for time in times:
            if not any(k == key and t == time for k, t, _ in table.acknowledged):
                yield f"key {key} shows a row at {time} that nobody completed for it"
