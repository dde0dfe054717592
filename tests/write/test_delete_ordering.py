"""Deletes in logs by every type of ordering column: what is written reads back, whichever way the
delete was asked for and however its ordering value compares."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from tests.support.orderings import ORDERINGS, OrderedTable, Ordering

FORMATS = pytest.mark.parametrize("log", ["avro", "parquet"])
ORDERED = pytest.mark.parametrize("name", sorted(ORDERINGS))


@pytest.mark.covering(1, most=10)
@FORMATS
@ORDERED
def test_a_delete_by_key_takes_any_record_and_lets_any_later_one_in(
    name: str, log: str, tmp_path: Path
) -> None:
    table = OrderedTable(tmp_path / "t", ORDERINGS[name], log)
    table.put(("a", 2), ("b", 2), ("c", 2), v=1)
    table.put(("b", 2), v=2)  # logged, and deleted from there
    assert table.table.delete(keys=["a", "b"]).deleted == 2
    assert table.live() == {"c": 1}
    table.put(("a", 0), v=3)
    assert table.live() == {"a": 3, "c": 1}
    table.table.compact()
    assert table.live() == {"a": 3, "c": 1}


@pytest.mark.covering(1, most=10)
@FORMATS
@ORDERED
def test_a_marked_delete_is_compared_by_its_ordering_value(
    name: str, log: str, tmp_path: Path
) -> None:
    table = OrderedTable(tmp_path / "t", ORDERINGS[name], log)
    table.put(*((key, 1) for key in "abcdef"), v=1)
    table.put(("a", 0), ("b", 1), ("c", 2), deleted=True)
    assert table.live() == {"a": 1, "d": 1, "e": 1, "f": 1}
    table.put(("d", 2), v=2)
    table.put(("d", 1), ("e", 0), ("f", 2), deleted=True)
    expected = {"a": 1, "d": 2, "e": 1}
    assert table.live() == expected
    table.table.compact()
    assert table.live() == expected


@pytest.mark.covering(1, most=8)
@FORMATS
@ORDERED
def test_log_compaction_leaves_deletes_as_they_count(name: str, log: str, tmp_path: Path) -> None:
    table = OrderedTable(tmp_path / "t", ORDERINGS[name], log)
    table.put(*((key, 1) for key in "abc"), v=1)
    table.put(("a", 2), deleted=True)
    table.table.delete(keys=["b"])
    table.put(("c", 2), v=2)
    table.table.compact_logs()
    assert table.live() == {"c": 2}
    table.table.compact()
    assert table.live() == {"c": 2}


def test_an_integer_zero_of_a_marked_delete_is_its_ordering_value(tmp_path: Path) -> None:
    """A delete block has no form for it: there, 0 stands for a delete without a value."""
    table = OrderedTable(tmp_path / "t", Ordering((pa.int32(),), ((-5,), (0,), (5,))), "parquet")
    table.put(("a", 0), ("b", 2), v=1)
    table.put(("a", 1), ("b", 1), deleted=True)
    assert table.live() == {"b": 1}
    table.put(("a", 0), v=2)  # after the delete: a new record, whatever its ordering value
    assert table.live() == {"a": 2, "b": 1}
    table.table.compact()
    assert table.live() == {"a": 2, "b": 1}


def test_an_ordering_column_that_cannot_be_compared_is_refused_at_creation(tmp_path: Path) -> None:
    for kind in (pa.list_(pa.int64()), pa.struct([("a", pa.int64())])):
        with pytest.raises(pyhudi.SchemaError, match="order"):
            OrderedTable(tmp_path / "t", Ordering((kind,), ((None,),)), "parquet")
        assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


@FORMATS
def test_deletes_are_ordered_by_a_boolean(log: str, tmp_path: Path) -> None:
    table = OrderedTable(tmp_path / "t", Ordering((pa.bool_(),), ((False,), (True,))), log)
    table.put(("a", 0), ("b", 1), ("c", 1), ("d", 0), v=1)
    table.put(("a", 1), ("b", 0), ("c", 1), deleted=True)
    table.table.delete(keys=["d"])
    assert table.live() == {"b": 1}
    table.table.compact()
    assert table.live() == {"b": 1}
