"""Random histories of a table of PostgreSQL, encoded as messages, reach a table as they were."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import BadRowsError, CorruptFileError, UserError
from pyhudi.ingest import RejectedRows, SourceBatch, SourceLimits, Stream
from pyhudi.ingest.databases.change_rows import ChangeReader, PresentRows
from pyhudi.ingest.databases.pgoutput import MessageLog
from pyhudi.ingest.databases.postgres_types import PostgresType, resolved
from pyhudi.ingest.source import IngestedTable
from tests.ingest import pgoutput_messages as messages
from tests.ingest.pgoutput_messages import INT, NUMERIC, TEXT, UNCHANGED, History

HISTORIES = int(os.environ.get("PYHUDI_PGOUTPUT_HISTORIES", "120"))
KNOWN = pa.schema({
    "id": pa.string(), "part": pa.int32(), "v": pa.int32(), "big": pa.string(),
    "n": pa.decimal128(10, 2), "at": pa.timestamp("us", "UTC"),
    "list": pa.list_(pa.field("element", pa.int32())), "u": pa.string(), "flag": pa.bool_(),
    "raw": pa.binary(), "dom": pa.int32(),
})  # fmt: skip
Find = Callable[[pa.RecordBatch, Sequence[str]], pa.Table]


def nothing(keys: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
    """The database no longer has the rows."""
    found = pa.table({name: pa.array([], pa.string()) for name in names})
    return found.append_column("n", pa.array([], pa.int64()))


def of_source(history: History) -> Find:
    """The rows that the database has at the end of the history so far."""

    def find(keys: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
        kinds = {column.name: column.kind for column in history.columns}
        present = {
            tuple(messages.text(value, kinds[name]) for name, value in zip(history.key, key)):  # noqa: B905
            row for key, row in history.source.items()
        }  # fmt: skip
        found = []
        for n, row in enumerate(keys.to_pylist()):
            have = present.get(tuple(row[name].decode() for name in history.key))
            if have is not None:
                texts = {name: messages.text(have[name], kinds[name]) for name in names}
                found.append({**texts, "n": n})
        fields = [*((name, pa.string()) for name in names), ("n", pa.int64())]
        return pa.Table.from_pylist(found, pa.schema(fields))

    return find


def reader_of(
    history: History, find: Find, known: pa.Schema, table: IngestedTable | None,
    ignores_truncate: bool = False,
) -> ChangeReader:  # fmt: skip
    types = {c.name: resolved(c.kind, c.modifier, {}) for c in history.columns}
    return ChangeReader(
        "public.t", history.parts, known, PresentRows(types, find), lambda kinds: {}, table,
        ignores_truncate,
    )  # fmt: skip


class Stored:
    """The rows of a table as a dictionary."""

    def __init__(self, key: Sequence[str]) -> None:
        self.key, self.rows = tuple(key), dict[tuple[Any, ...], dict[str, Any]]()
        self.schema = KNOWN

    def columns(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = [{name: row.get(name) for name in names} for row in self.rows.values()]
        yield pa.RecordBatch.from_pylist(
            rows, pa.schema([self.schema.field(name) for name in names])
        )

    def put(self, rows: pa.Table) -> None:
        fields = {field.name: field for field in self.schema}
        fields |= {f.name: f for f in rows.schema if f.name != "_hoodie_is_deleted"}
        self.schema = pa.schema(list(fields.values()))
        keys = set()
        for row in rows.to_pylist():
            key = tuple(row[name] for name in self.key)
            assert key not in keys, "a batch has one row of a key"
            keys.add(key)
            if row.pop("_hoodie_is_deleted"):
                self.rows.pop(key, None)
            else:
                self.rows[key] = row


def expected(history: History, names: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {key: {n: row.get(n) for n in names} for key, row in history.rows.items()}


def random_history(seed: int) -> History:
    chosen = random.Random(seed)
    return History(
        chosen,
        key=chosen.choice([("id",), ("id", "part")]),
        identity=chosen.choice("ddffn"),
        parts=chosen.choice([(101,), (101, 102, 103)]),
        large_values=seed % 2 == 0,
        bad_share=0.0 if seed % 2 == 0 else 0.1,
    )


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history_is_read_as_it_was(seed: int) -> None:
    history = random_history(seed)
    stored = Stored(history.key)
    table = IngestedTable(history.key, history.key, stored.columns)
    rejected: list[str] = []
    find = of_source(history) if seed % 4 == 0 else nothing
    for _ in range(4):
        log = MessageLog(pa.array(history.batch(), pa.binary()))
        reader = reader_of(history, find, stored.schema, table)
        if reader.has_changes(log, 0):
            rows, bad = reader.rows(log, 0)
            stored.put(rows)
            rejected += bad["position"].to_pylist()
        names = stored.schema.names
        found = {key: {n: row.get(n) for n in names} for key, row in stored.rows.items()}
        assert found == expected(history, names)
    assert sorted(rejected) == sorted(history.bad)


class Replayed:
    """A source of histories: a batch each."""

    def __init__(self, history: History, find: Find = nothing) -> None:
        self.history, self.find, self.batches = history, find, list[list[bytes]]()

    def read(self, *how: Any) -> SourceBatch | None:
        return self.read_changes(*how, table=None)

    def read_changes(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema,
        table: IngestedTable | None,
    ) -> SourceBatch | None:  # fmt: skip
        number = int(checkpoint or 0)
        if number == len(self.batches):
            return None
        log = MessageLog(pa.array(self.batches[number], pa.binary()))
        rows, bad = reader_of(self.history, self.find, schema, table).rows(log, 0)
        rejected = RejectedRows()
        rejected.add(bad)
        return SourceBatch(rows.to_reader(), str(number + 1), rejected)


@pytest.mark.parametrize("seed", range(HISTORIES // 20))
def test_a_history_reaches_a_table(tmp_path: Path, seed: int) -> None:
    history = random_history(seed)
    kind = "mor" if seed % 3 else "cow"
    table = pyhudi.create_table(tmp_path / "t", KNOWN, record_key=history.key, table_type=kind)
    source = Replayed(history)
    for _ in range(3):
        source.batches.append(history.batch())
        Stream(source, pyhudi.open_table(table.path), bad_rows="skip").run()
        found = pyhudi.open_table(table.path).scan(with_meta=False).to_arrow()
        names = [name for name in found.column_names if name != "_hoodie_is_deleted"]
        rows = {tuple(r[n] for n in history.key): r for r in found.select(names).to_pylist()}
        assert rows == expected(history, names) and len(rows) == found.num_rows


TABLE = [("id", TEXT, -1, True), ("v", INT, -1, False)]


def transaction(*changes: bytes) -> list[bytes]:
    return [messages.begin(1000), *changes, messages.commit(1000)]


def read(
    changes: Sequence[bytes], identity: Sequence[str] = ("id",), **how: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    history = History(random.Random(0))
    known = pa.schema({"id": pa.string(), "v": pa.int32(), "big": pa.string()})
    stored = Stored(["id"])
    stored.schema = known
    reader = reader_of(
        history, how.pop("find", nothing), known,
        IngestedTable(("id",), tuple(identity), stored.columns), **how,
    )  # fmt: skip
    rows, bad = reader.rows(MessageLog(pa.array(transaction(*changes), pa.binary())), 0)
    return rows.to_pylist(), bad["reason"].to_pylist()


def test_a_table_without_identity_has_all_its_inserts() -> None:
    described = messages.relation(101, "public.t", [(n, k, m, False) for n, k, m, _ in TABLE], "n")
    inserts = [messages.insert(101, [f"k{n}", str(n)]) for n in range(20)]
    rows, bad = read([described, *inserts])
    assert [row["id"] for row in rows] == [f"k{n}" for n in range(20)] and not bad


def test_a_key_that_changes_in_a_batch_keeps_all_rows() -> None:
    other = [("id", TEXT, -1, False), ("v", INT, -1, True)]
    rows, _ = read([
        messages.relation(101, "public.t", TABLE), messages.insert(101, ["a", "1"]),
        messages.insert(101, ["b", None]),
        messages.relation(101, "public.t", other), messages.insert(101, ["c", "1"]),
        messages.insert(101, ["d", "1"]),
    ])  # fmt: skip
    assert [row["id"] for row in rows] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("identity", [("id",), ("id", "v")])
def test_updates_without_the_identity_of_the_table_are_bad_rows(identity: Sequence[str]) -> None:
    keyed_by_v = [("id", TEXT, -1, False), ("v", INT, -1, identity != ("id",))]
    rows, bad = read([
        messages.relation(101, "public.t", keyed_by_v, "i"), messages.insert(101, ["a", "1"]),
        messages.update(101, ["b", "1"]), messages.delete(101, [None, "1"]),
        messages.update(101, ["c", "2"], [None, "1"]),
    ], identity)  # fmt: skip
    assert [row["id"] for row in rows] == ["a"]
    assert len(bad) == 3 and all("REPLICA IDENTITY FULL" in reason for reason in bad)


def test_a_large_value_that_is_nowhere_is_a_bad_row() -> None:
    described = messages.relation(101, "public.t", [*TABLE, ("big", TEXT, -1, False)])
    rows, bad = read([described, messages.update(101, ["a", "1", UNCHANGED])])
    assert not rows and "large value" in bad[0]


def test_a_row_that_is_deleted_later_needs_no_large_value() -> None:
    described = messages.relation(101, "public.t", [*TABLE, ("big", TEXT, -1, False)])
    gone = messages.delete(101, ["a", None, None])
    rows, bad = read([described, messages.update(101, ["a", "1", UNCHANGED]), gone])
    assert [row["_hoodie_is_deleted"] for row in rows] == [True] and not bad


def test_a_table_that_was_truncated_or_created_again_is_reported() -> None:
    described = messages.relation(101, "public.t", TABLE)
    one = messages.insert(101, ["a", "1"])
    again = [messages.relation(102, "public.t", TABLE), messages.insert(102, ["b", "1"])]
    for changes in ([described, one, messages.truncate(101)], [described, one, *again]):
        with pytest.raises(UserError, match="which no row can state"):
            read(changes)
        rows, _ = read(changes, ignores_truncate=True)
        assert rows[0]["id"] == "a"
    rows, _ = read([described, one, messages.truncate(900)])
    assert len(rows) == 1


def test_cut_unknown_and_longer_messages_are_errors() -> None:
    described = messages.relation(101, "public.t", TABLE)
    whole = transaction(
        messages.base_type(messages.DOMAIN, "int4"), described, messages.insert(101, ["a", "1"]),
        messages.update(101, ["b", "2"], ["a", None]), messages.delete(101, ["b", None]),
        messages.truncate(900),
    )  # fmt: skip

    def rows(changed: Sequence[bytes]) -> None:
        reader = reader_of(History(random.Random(0)), nothing, KNOWN, None)
        reader.rows(MessageLog(pa.array(changed, pa.binary())), 0)

    rows(whole)
    cuts = 0
    for place, message in enumerate(whole):
        for end in range(len(message)):
            cuts += 1
            with pytest.raises(CorruptFileError):
                rows([*whole[:place], message[:end], *whole[place + 1 :]])
        with pytest.raises(CorruptFileError):
            rows([*whole[:place], message + b"\0", *whole[place + 1 :]])
    assert cuts > 150
    for kind in b"SEcAabPKrpZ\0":
        with pytest.raises(CorruptFileError, match="unknown kind"):
            rows([whole[0], bytes([kind]) + bytes(30), *whole[1:]])
    for changed in (whole[:-1], whole[1:], [*whole, *whole[1:]], [*whole[:1], *whole]):
        with pytest.raises(CorruptFileError, match="whole transactions"):
            rows(changed)
    with pytest.raises(CorruptFileError, match="no message described"):
        rows([m for m in whole if m is not described])


def test_values_of_binary_form_are_refused() -> None:
    described = messages.relation(101, "public.t", TABLE)
    binary = messages.insert(101, ["a", "1"]).replace(b"t\0\0\0\1" + b"1", b"b\0\0\0\1" + b"1")
    with pytest.raises(CorruptFileError, match="unknown kind"):
        read([described, binary])


def test_bad_rows_have_a_position_that_does_not_depend_on_the_read(tmp_path: Path) -> None:
    described = messages.relation(
        101, "public.t", [("id", TEXT, -1, True), ("v", NUMERIC, -1, False)]
    )
    history = History(random.Random(0))
    source = Replayed(history)
    wrong = messages.insert(101, ["a", "NaN"])
    source.batches = [transaction(described, wrong), transaction(described, described, wrong)]
    known: Mapping[str, pa.DataType] = {"id": pa.string(), "v": pa.decimal128(10, 2)}
    table = pyhudi.create_table(tmp_path / "t", pa.schema(known), record_key="id")
    with pytest.raises(BadRowsError, match="'NaN' is not a value of type") as caught:
        Stream(source, table).run()
    assert caught.value.facts["positions"] == "0/3E8:0"
    source.batches = source.batches[1:]
    with pytest.raises(BadRowsError) as again:
        Stream(source, table).run()
    assert again.value.facts["positions"] == "0/3E8:0"
    assert PostgresType(NUMERIC).natural == pa.string()
