"""Late commits: published after another process had rolled them back.

The request that creates a completed file may be delayed, by a network or a stopped process,
until the next holder of the table's lock has rolled the instant back.  A rollback removes
the requested and inflight files; so a commit is late if it lacks one of them and is named by a
rollback or restore, or by the list of rolled-back instants.  Readers ignore it, and the next
writer removes it.  Of several completed files of one instant, all but one are late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from pyhudi.records import InstantTime
from pyhudi.timeline.instant import (
    COMMITS,
    COMPLETES_AS,
    Action,
    Instant,
    State,
    parse_instant_name,
)
from pyhudi.timeline.own_files import newest_list
from pyhudi.timeline.plans.restore import RestorePlan
from pyhudi.timeline.plans.rollback import target_of

UNDO_ACTIONS: Final = frozenset({Action.ROLLBACK, Action.RESTORE})
_WHOLE: Final = 3  # states of an instant from which no file was removed


@lru_cache(maxsize=16)
def suspects(names: tuple[str, ...]) -> tuple[Instant, ...]:
    """Completed commits that lack a requested or inflight file, if any instant was
    ever rolled back.  Archival briefly leaves such commits too.

    names: of the files in the timeline's folder.
    """
    if newest_list(names) is None and not any(
        ".rollback" in name or ".restore" in name for name in names
    ):
        return ()
    found = [instant for name in names if (instant := parse_instant_name(name)) is not None]
    states: dict[tuple[InstantTime, Action], set[State]] = {}
    for instant in found:
        key = (instant.time, COMPLETES_AS[instant.action])
        states.setdefault(key, set()).add(instant.state)
    return tuple(
        instant
        for instant in found
        if instant.is_completed
        and instant.action in COMMITS
        and len(states[instant.time, instant.action]) < _WHOLE
    )


@lru_cache(maxsize=16)
def repeated_completions(names: tuple[str, ...]) -> tuple[tuple[Instant, ...], ...]:
    """For each instant with several completed files, these files.

    Where names contain completion times, a delayed request does not fail because another one has
    completed the instant.  names: of the files in the timeline's folder.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name in names:
        time, has_completion, rest = name.partition("_")
        if has_completion:
            found.setdefault((time, rest.partition(".")[2]), []).append(name)
    several = (map(parse_instant_name, group) for group in found.values() if len(group) > 1)
    parsed = (tuple(each for each in group if each is not None) for group in several)
    return tuple(group for group in parsed if len(group) > 1)


def undone_instants(
    instant: Instant, read: Callable[[Instant, State], dict[str, Any]]
) -> Iterator[InstantTime]:
    """The instants that a rollback or restore undoes, or will undo.

    read: the record of the instant's file in a state.
    """
    if instant.is_completed:
        yield from _rolled_back(instant, read(instant, State.COMPLETED))
    else:
        record = read(instant, State.REQUESTED)
        target = target_of(record, path=str(instant))
        restored = RestorePlan.from_record(record, path=str(instant))
        for each in (target, *restored.undone):
            if each is not None:
                yield each.time


def _rolled_back(instant: Instant, record: dict[str, Any]) -> Iterator[InstantTime]:
    if instant.action is Action.ROLLBACK:
        yield from map(InstantTime, record.get("commitsRollback") or ())
        return
    per_instant: dict[str, list[dict[str, Any]]] = record.get("hoodieRestoreMetadata") or {}
    for rollbacks in per_instant.values():
        for rollback in rollbacks:
            yield from map(InstantTime, rollback.get("commitsRollback") or ())
