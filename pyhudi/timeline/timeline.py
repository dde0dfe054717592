"""The timeline as a value: instants in time order, and queries over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyhudi.markup import card_html, count_text, moment_text, plural, rows_html
from pyhudi.records import InstantTime
from pyhudi.timeline.instant import COMMITS, COMPLETES_AS, Action, Instant, State

_SHOWN: Final = 20
"""Instants in the output of a notebook."""
_WORDS: Final = {action: completed.value for action, completed in COMPLETES_AS.items()}


@dataclass(frozen=True)
class Timeline:
    """Instants in time order, each in its highest state.  Immutable.

    rolled_back: times of writes that were once rolled back, also if archival has removed their
    rollback; remains of these writes are ignored.
    Invariant: at most one instant per (time, action it completes as).
    """

    instants: tuple[Instant, ...] = ()
    rolled_back: frozenset[InstantTime] = frozenset()

    @classmethod
    def of(cls, found: Iterable[Instant]) -> Timeline:
        """A timeline from all state files: per action, the highest state is used."""
        highest: dict[tuple[str, str], Instant] = {}
        for instant in found:
            key = (instant.time, _WORDS[instant.action])
            seen = highest.setdefault(key, instant)
            if seen is not instant and instant.state > seen.state:
                highest[key] = instant
        return cls(tuple([highest[key] for key in sorted(highest)]))

    def having(self, *instants: Instant) -> Timeline:
        """This timeline with these instants added, or advanced to a higher state.  No I/O."""
        return self.holding(Timeline.of((*self.instants, *instants)))

    def holding(self, instants: Iterable[Instant]) -> Timeline:
        """The same table's timeline with only these instants, in time order."""
        return Timeline(tuple(instants), self.rolled_back)

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def as_when_pending(self, pending: Iterable[Instant]) -> Timeline:
        """This timeline with these instants pending again, also those that have left it since."""
        before = {(i.time, _WORDS[i.action]): i for i in pending}
        now = {(i.time, _WORDS[i.action]): i for i in self} | before
        return self.holding(now[key] for key in sorted(now))

    def where(self, actions: Iterable[Action] | None, *states: State) -> Timeline:
        """Instants of these actions (None: any) in these states (none given: any)."""
        found = self.instants
        if states:
            found = tuple([i for i in found if i.state in states])
        if actions is not None:
            selected = frozenset(actions)
            found = tuple([i for i in found if i.action in selected])
        return Timeline(found, self.rolled_back)

    def up_to(self, time: InstantTime) -> Timeline:
        """Instants at or before `time`."""
        return self.holding(i for i in self.instants if i.time <= time)

    def after(self, time: InstantTime) -> Timeline:
        return self.holding(i for i in self.instants if i.time > time)

    @cached_property
    def times(self) -> frozenset[InstantTime]:
        return frozenset(i.time for i in self.instants)

    @property
    def first(self) -> Instant | None:
        return self.instants[0] if self.instants else None

    @property
    def last(self) -> Instant | None:
        return self.instants[-1] if self.instants else None

    @cached_property
    def newest_time(self) -> InstantTime | None:
        """The greatest instant or completion time; None if there is none."""
        times = [time for i in self.instants for time in (i.time, i.completed_at) if time]
        return max(times, default=None)

    def completed(self, instant: Instant) -> Instant | None:
        """The completed instant with the time and action of this one, which may be pending."""
        ends = COMPLETES_AS[instant.action]
        found = self.where({ends}, State.COMPLETED)
        return next((i for i in found if i.time == instant.time), None)

    @cached_property
    def commits(self) -> Timeline:
        """Completed commits, delta commits and replace commits."""
        return self.where(COMMITS, State.COMPLETED)

    @cached_property
    def pending(self) -> Timeline:
        return self.where(None, State.REQUESTED, State.INFLIGHT)

    def _repr_html_(self) -> str:
        shown = self.instants[-_SHOWN:]
        rows = ((i.time, moment_text(i.time), i.action.value, i.state.name.lower()) for i in shown)
        count = plural(len(self), "instant")
        title = f"Timeline: {count}, {count_text(len(self.pending))} pending"
        note = f"The newest {len(shown)} of {count}." if len(self) > len(shown) else ""
        return card_html(title, rows_html(("instant", "time", "action", "state"), rows), note=note)
