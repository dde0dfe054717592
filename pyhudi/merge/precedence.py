"""Precedence of two records of a key; the only module that compares their ordering values.

```
                              commit time     event time                    first of equals
stored   incoming
  5        7                  incoming        incoming                      incoming
  5        5                  incoming        incoming                      stored
  7        5                  incoming        stored                        stored
 null or null                 incoming        incoming                      incoming
```

The table shows which record wins.  A delete by key, and a record that moves to another partition,
always win.  `_native/keys/keyfold.pyx` implements commit time and event time, without `first of
equals`; tests/merge/truth_table.py tests every implementation.  Source: table_format 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyhudi.arrays import Longs, Mask
from pyhudi.merge.merge_rules import MergeRules


@dataclass(frozen=True, slots=True)
class Ranked:
    """Ordering values as integers; `ok` is False where a value is not comparable."""

    rank: Longs
    ok: Mask

    @classmethod
    def none(cls, count: int) -> Ranked:
        return cls(np.zeros(count, np.int64), np.zeros(count, np.bool_))

    def take(self, at: npt.NDArray[np.int64]) -> Ranked:
        return Ranked(self.rank[at], self.ok[at])


def precedes(mine: Ranked, theirs: Ranked, rules: MergeRules) -> Mask:
    """Whether each of mine, the newer record of a key, precedes theirs in event time, so that the
    older record wins.  False where either has no ordering value."""
    if not rules.is_event_time:
        return np.zeros(len(mine.rank), np.bool_)
    before = mine.rank <= theirs.rank if rules.first_of_equals else mine.rank < theirs.rank
    return np.asarray(mine.ok & theirs.ok & before, np.bool_)
