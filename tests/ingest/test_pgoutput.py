"""Messages of PostgreSQL's logical replication, as a real server sent them, become rows.

recorded/pgoutput.txt: by recorded/record_pgoutput.py, which has the statements.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import CorruptFileError
from pyhudi.ingest.databases.pgoutput import MessageLog, Relation
from pyhudi.ingest.databases.postgres_types import resolved, typed_column

RECORDED = Path(__file__).parent / "recorded" / "pgoutput.txt"
FIRST = {
    "id": "a", "n": 1, "small": 2, "number": 3, "price": Decimal("4.50"), "free": "1.23456",
    "flag": True, "day": date(2026, 1, 2), "at": datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC),
    "local": datetime(2026, 1, 2, 3, 4, 5), "raw": b"\0\xff", "half": 0.5, "whole": 1e300,
}  # fmt: skip
SECOND = {
    "id": "ü", "n": -(1 << 63), "small": -1, "number": -2, "price": Decimal("-0.01"), "free": "NaN",
    "flag": False, "day": date(1, 1, 1), "at": datetime(1969, 12, 31, 23, 59, 59, 0, UTC),
    "local": None, "raw": b"", "half": None, "whole": None,
}  # fmt: skip


def recorded() -> list[bytes]:
    lines = RECORDED.read_text().splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


@pytest.fixture(scope="module")
def log() -> MessageLog:
    return MessageLog(pa.array(recorded(), pa.binary()))


def changes(log: MessageLog, table: str) -> list[tuple[bool, dict[str, Any]]]:
    """Whether each row is a deleted one, and its values."""
    relations = [pair for pair in log.relations() if pair[1].name == table]
    ends = [index for index, _ in relations[1:]] + [len(log.starts)]
    found = []
    for (index, relation), end in zip(relations, ends, strict=True):
        part = log.changes(relation, index, end)
        assert part.index.tolist() == sorted(part.index.tolist())
        columns = {}
        for column in relation.columns:
            kind = resolved(column.kind, column.modifier, {})
            values, bad = typed_column(part.rows.column(column.name), kind, kind.natural)
            assert not bad.any()
            columns[column.name] = values
        rows = pa.table(columns).to_pylist()
        found += list(zip(part.deleted.tolist(), rows, strict=True))
    return found


def schema(relation: Relation) -> pa.Schema:
    """The columns of a new table."""
    kinds = {c.name: resolved(c.kind, c.modifier, {}) for c in relation.columns}
    return pa.schema({name: kind.natural for name, kind in kinds.items()})


def test_relations_have_the_types_of_their_columns(log: MessageLog) -> None:
    relations = [relation for _, relation in log.relations()]
    assert [relation.name for relation in relations] == [
        "public.recorded", "public.recorded", "public.recorded", "public.other", "public.recorded"
    ]  # fmt: skip
    first, full, wider = relations[:3]
    assert schema(first) == pa.schema({
        "id": pa.string(), "n": pa.int64(), "small": pa.int16(), "number": pa.int32(),
        "price": pa.decimal128(10, 2), "free": pa.string(), "flag": pa.bool_(), "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"), "raw": pa.binary(),
        "half": pa.float32(), "whole": pa.float64(),
    })  # fmt: skip
    assert first.keys == ("id",)
    assert full.keys == tuple(c.name for c in first.columns)  # REPLICA IDENTITY FULL
    assert schema(wider).names == [*schema(first).names, "large"]


def test_transactions_end_at_their_positions(log: MessageLog) -> None:
    commits = log.commits()
    assert len(commits) == 9
    assert [lsn for _, lsn in commits] == sorted(lsn for _, lsn in commits)
    assert commits[0][1] == 0x1531448


def test_inserts_updates_and_deletes_are_rows(log: MessageLog) -> None:
    found = changes(log, "public.recorded")
    empty = dict.fromkeys(FIRST)
    seven = {**FIRST, "n": 7}
    assert found[:6] == [
        (False, FIRST), (False, SECOND), (False, seven),
        (True, {**empty, "id": "a"}), (False, {**seven, "id": "b"}), (True, {**empty, "id": "ü"}),
    ]  # fmt: skip
    assert found[6:8] == [(True, {**seven, "id": "b"}), (False, {**seven, "id": "b", "n": 8})]
    large = {**empty, "id": "c", "large": "x" * 3000}
    assert found[8] == (False, large)
    assert found[9] == (False, {**large, "n": 9, "large": None})
    assert changes(log, "public.other") == [(False, {"id": 1})]


def test_a_large_value_that_did_not_change_is_marked(log: MessageLog) -> None:
    index, relation = log.relations()[2]
    part = log.changes(relation, index, len(log.starts))
    assert part.unchanged["large"].tolist() == [False, True]
    assert not part.unchanged["n"].any()


def test_a_truncated_table_is_found(log: MessageLog) -> None:
    relations = {relation.name: relation.id for _, relation in log.relations()}
    assert len(log.truncated([relations["public.recorded"]])) == 1
    assert log.truncated([relations["public.other"]]) == []


def test_a_change_of_another_width_than_its_relation_is_an_error() -> None:
    messages = recorded()
    changed = [m.replace(b"N\0\x0d", b"N\0\x0c", 1) if m[:1] == b"I" else m for m in messages]
    log = MessageLog(pa.array(changed, pa.binary()))
    with pytest.raises(CorruptFileError, match="another number of columns"):
        changes(log, "public.recorded")
