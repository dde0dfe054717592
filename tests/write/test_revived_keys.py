"""A row of a key that was deleted before is a new record, whatever its ordering value: in both
table types, by every index, whether the logs that hold the delete have been compacted or not."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.support.keyed import ORDERS, Keyed

INDEXES = ("record", "bloom", "simple", "global_bloom", "global_simple", "bucket")


@pytest.mark.parametrize(("kind", "index"), list(product(("cow", "mor"), INDEXES)))
@pytest.mark.parametrize("way", ["mark", "key"])
def test_a_row_after_a_delete_is_a_new_record(
    kind: str, index: str, way: str, tmp_path: Path
) -> None:
    keyed = Keyed(tmp_path, kind, index)
    keys = list(ORDERS)
    keyed.put(*((key, 8, 1) for key in keys), ("other", 8, 1))
    keyed.put(("other", 9, 2))
    if way == "mark":
        keyed.put(*((key, 10, 0) for key in keys), deleted=True)
    else:
        keyed.table.delete(keys=keys)
    assert keyed.live() == {"other": (9, 2)}
    expected = {"other": (9, 2)}
    for key, ts in ORDERS.items():
        report = keyed.put((key, ts, 3))
        expected[key] = (ts, 3)
        assert report.inserted + report.updated == 1
        assert keyed.live() == expected
    keyed.put(("older", 6, 4), ("newer", 6, 4), ("other", 1, 4))  # compared with what came last
    expected["older"] = (6, 4)
    assert keyed.live() == expected
    if kind == "mor":
        keyed.table.compact()
        assert keyed.live() == expected


@pytest.mark.parametrize("index", ["record", "bloom", "bucket"])
@pytest.mark.parametrize("in_logs", ["true", "false"])
def test_a_key_that_only_logs_hold_comes_back_too(index: str, in_logs: str, tmp_path: Path) -> None:
    keyed = Keyed(tmp_path, "mor", index, {"pyhudi.record.index.inserts.to.logs": in_logs})
    keyed.put(("a", 8, 1), ("b", 8, 1))
    keyed.put(("a", 9, 2))
    keyed.put(("a", 10, 0), deleted=True)
    keyed.put(("a", 7, 3))
    keyed.put(("a", 11, 0), deleted=True)
    keyed.put(("a", 6, 4))
    assert keyed.live() == {"a": (6, 4), "b": (8, 1)}


def test_a_group_in_a_pending_compaction_takes_the_row(tmp_path: Path) -> None:
    keyed = Keyed(tmp_path, "mor", "bloom")
    keyed.put(("a", 8, 1), ("b", 8, 1))
    keyed.put(("a", 10, 0), deleted=True)
    keyed.table.schedule_compaction()
    keyed.put(("b", 9, 2))
    keyed.put(("a", 5, 3))
    keyed.put(("b", 12, 4))
    expected = {"a": (5, 3), "b": (12, 4)}
    assert keyed.live() == expected
    keyed.table.compact()
    assert keyed.live() == expected
    keyed.put(("a", 6, 5))
    assert keyed.live() == {"a": (6, 5), "b": (12, 4)}
