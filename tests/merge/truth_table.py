"""Which of two records of a key wins: one table, which every implementation has to give.

A case is an older and a newer record of one key, and what is left of them.  Ordering values are
numbers; NAN and -0.0 compare as in Java.  A record is (kind, ordering value, value); of a delete
the ordering value is None where it wins whatever is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.payload_classes import Keeps
from pyhudi.records import RECORD_KEY

NAN: Final = float("nan")
ROW, DELETE = "row", "delete"
COMMIT_TIME: Final = MergeRules(RECORD_KEY)
EVENT_TIME: Final = MergeRules(RECORD_KEY, ("ts",))
FIRST: Final = MergeRules(RECORD_KEY, ("ts",), first_of_equals=True, tombstones=False)
FILLED: Final = MergeRules(RECORD_KEY, ("ts",), keeps=Keeps.NULLS, beneath=True)
FILLED_BY_ARRIVAL: Final = MergeRules(RECORD_KEY, keeps=Keeps.NULLS)


@dataclass(frozen=True, slots=True)
class Record:
    """value None: a null, which some rules fill from the other record."""

    kind: str
    ts: float | None
    value: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} at {self.ts}" + (f" of {self.value}" if self.kind == ROW else "")


@dataclass(frozen=True, slots=True)
class Case:
    """left: the value that is left, of the record with this ordering value; None: no record."""

    rules: MergeRules
    older: Record
    newer: Record
    left: tuple[float | None, int | None] | None

    def __str__(self) -> str:
        rules = {COMMIT_TIME: "commit time", EVENT_TIME: "event time", FIRST: "first of equals"}
        name = rules.get(self.rules, "filled by " + ("time" if self.rules.ordering else "arrival"))
        return f"{name}: {self.older}, {self.newer}"


def _row(ts: float | None, value: int | None) -> Record:
    return Record(ROW, ts, value)


def _delete(ts: float | None) -> Record:
    return Record(DELETE, ts)


CASES: Final = (
    Case(COMMIT_TIME, _row(7, 1), _row(5, 2), (5, 2)),
    Case(COMMIT_TIME, _row(7, 1), _delete(None), None),
    Case(COMMIT_TIME, _delete(None), _row(5, 2), (5, 2)),
    Case(EVENT_TIME, _row(5, 1), _row(7, 2), (7, 2)),
    Case(EVENT_TIME, _row(5, 1), _row(5, 2), (5, 2)),
    Case(EVENT_TIME, _row(7, 1), _row(5, 2), (7, 1)),
    Case(EVENT_TIME, _row(None, 1), _row(5, 2), (5, 2)),
    Case(EVENT_TIME, _row(7, 1), _row(None, 2), (None, 2)),
    Case(EVENT_TIME, _row(-0.0, 1), _row(0.0, 2), (0.0, 2)),
    Case(EVENT_TIME, _row(0.0, 1), _row(-0.0, 2), (0.0, 1)),
    Case(EVENT_TIME, _row(NAN, 1), _row(7, 2), (NAN, 1)),
    Case(EVENT_TIME, _row(NAN, 1), _row(NAN, 2), (NAN, 2)),
    Case(EVENT_TIME, _row(5, 1), _delete(7), None),
    Case(EVENT_TIME, _row(5, 1), _delete(5), None),
    Case(EVENT_TIME, _row(7, 1), _delete(5), (7, 1)),
    Case(EVENT_TIME, _row(7, 1), _delete(None), None),
    Case(EVENT_TIME, _delete(7), _row(7, 2), (7, 2)),
    Case(EVENT_TIME, _delete(7), _row(5, 2), None),
    Case(EVENT_TIME, _delete(None), _row(5, 2), (5, 2)),
    Case(FIRST, _row(5, 1), _row(7, 2), (7, 2)),
    Case(FIRST, _row(5, 1), _row(5, 2), (5, 1)),
    Case(FIRST, _row(0.0, 1), _row(-0.0, 2), (0.0, 1)),
    Case(FIRST, _row(-0.0, 1), _row(0.0, 2), (0.0, 2)),
    Case(FIRST, _row(7, 1), _row(5, 2), (7, 1)),
    Case(FILLED, _row(5, 1), _row(7, None), (7, 1)),
    Case(FILLED, _row(7, 1), _row(5, None), (7, 1)),
    Case(FILLED, _row(7, None), _row(5, 2), (7, 2)),
    Case(FILLED, _row(5, 1), _delete(None), None),
    Case(FILLED_BY_ARRIVAL, _row(7, 1), _row(5, None), (5, 1)),
    Case(FILLED_BY_ARRIVAL, _row(7, 1), _row(5, 2), (5, 2)),
)
