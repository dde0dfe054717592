"""Instants: requested, inflight and completed actions, and the names of their files.

```
layout 1 (table version 6), in .hoodie/        layout 2 (versions 8, 9), in .hoodie/timeline/
T.commit.requested  T.inflight  T.commit       T.commit.requested  T.inflight  T_C.commit
T.<action>.requested  T.<action>.inflight      (C = completion time)
T.<action>
compaction completes as commit, logcompaction as deltacommit, clustering as replacecommit
```

A state change adds a file; the highest state is the current one.  Source: table_format 2.2, 11.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Final

from pyhudi.records import InstantTime, Position


class Action(Enum):
    """The action of an instant; the value is the word in its file names."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"

    __hash__ = object.__hash__  # members are few and compared by identity; Enum's is slow


class State(IntEnum):
    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


COMPLETES_AS: Final = {
    **{action: action for action in Action},
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}
"""Pending action -> the action it completes as."""

COMMITS: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""Actions whose completion changes the rows or files that readers see."""

REPLACEMENTS: Final = frozenset({Action.REPLACE_COMMIT, Action.CLUSTERING})
"""Pending and completed actions of a clustering, among them other replacements."""

PLANS: Final = REPLACEMENTS | {Action.COMPACTION, Action.LOG_COMPACTION}
"""Actions whose instants state what is to be rewritten."""
WRITES: Final = COMMITS | {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING}

_LAYOUT_1 = re.compile(r"([0-9]+)\.([a-z]+)(?:\.(requested|inflight))?")
_LAYOUT_2 = re.compile(r"([0-9]+)_([0-9]+)\.([a-z]+)")
_ACTIONS: Final = {action.value: action for action in Action}


@dataclass(frozen=True, slots=True)
class Instant:
    """One action at one time in one state.

    `completed_at` is set only if the store records it (layout 2).  Order: by time; of one time by
    the word of the action, the state and the completion time.
    """

    time: InstantTime
    action: Action
    state: State
    completed_at: InstantTime | None = None

    def __lt__(self, other: Instant) -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[str, str, State, str]:
        return self.time, self.action.value, self.state, self.completed_at or ""

    @property
    def is_completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def completion(self) -> InstantTime:
        """When it completed; its time where completion times are not recorded."""
        return self.completed_at or self.time

    @property
    def position(self) -> Position:
        """The position after this completed instant."""
        assert self.is_completed
        return Position(self.completion)

    def __str__(self) -> str:
        return file_name(self)


def file_name(instant: Instant) -> str:
    """The name of the instant's file inside the timeline folder."""
    time, action = instant.time, instant.action
    match instant.state:
        case State.REQUESTED:
            return f"{time}.{action.value}.requested"
        case State.INFLIGHT:
            if action is Action.COMMIT:  # the only exception, for historical reasons
                return f"{time}.inflight"
            return f"{time}.{action.value}.inflight"
        case State.COMPLETED:
            at = f"_{instant.completed_at}" if instant.completed_at else ""
            return f"{time}{at}.{COMPLETES_AS[action].value}"


@lru_cache(maxsize=1 << 15)
def parse_instant_name(name: str) -> Instant | None:
    """The instant that a file of the timeline folder represents; None for any other file.

    The inverse of `file_name`: names that it does not produce (`T.compaction`,
    `T.commit.inflight`) are not instants.
    """
    instant = _parsed(name)
    return instant if instant is not None and file_name(instant) == name else None


def _parsed(name: str) -> Instant | None:
    if match := _LAYOUT_2.fullmatch(name):
        time, completed_at, word, state = match[1], InstantTime(match[2]), match[3], "completed"
    elif match := _LAYOUT_1.fullmatch(name):
        time, completed_at, word, state = match[1], None, match[2], match[3] or "completed"
    else:
        return None
    if word == "inflight":
        return Instant(InstantTime(time), Action.COMMIT, State.INFLIGHT)
    action = _ACTIONS.get(word)
    if action is None:
        return None
    return Instant(InstantTime(time), action, State[state.upper()], completed_at)
