"""From messages of logical replication to rows of a table.

Each message is applied as a whole or is a bad row.  A batch has the last change of each record key
that is not bad.  A large value that an update did not change is not in its message; it is taken
from, in this order: the old row of the message, the change of the same row before it in the batch,
the present row of the database, the stored row of the table.  A row whose value is in none of them
is a bad row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Mask
from pyhudi.errors import UserError
from pyhudi.ingest.databases.pgoutput import ChangedRows, MessageLog, Positions, Relation
from pyhudi.ingest.databases.postgres_types import (
    NAMES,
    CatalogType,
    PostgresType,
    common_type,
    resolved,
    typed_column,
)
from pyhudi.ingest.source import IngestedTable, rejected_batch
from pyhudi.records import IS_DELETED

_TEXT_MAX: Final = 1 << 30
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class PresentRows:
    """Rows that the database has now.  types: of their columns.

    find: the text columns with these names of the rows with these keys, and the column `n`: the
    number of the key, from 0.
    """

    types: Mapping[str, PostgresType]
    find: Callable[[pa.RecordBatch, Sequence[str]], pa.Table]


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads the changes of one table.

    name: of the table with its schema.  ids: of its relation and its partitions.  catalog: types
    that are not built in.  known: the columns of the table that is written.  target: what else is
    known of it; None: its record key is not one of the source's columns.
    """

    name: str
    ids: Collection[int]
    known: pa.Schema
    present: PresentRows
    catalog: Callable[[Collection[int]], Mapping[int, CatalogType]]
    target: IngestedTable | None = None
    ignores_truncate: bool = False

    def relations(self, log: MessageLog) -> list[tuple[int, Relation]]:
        """The relations of the table, also of one with its name that was dropped since."""
        found = log.relations()
        return [pair for pair in found if pair[1].id in self.ids or pair[1].name == self.name]

    def has_changes(self, log: MessageLog, begin: int) -> bool:
        """Whether messages from `begin` are about the table."""
        ids = {relation.id for _, relation in self.relations(log)}
        if any(index >= begin for index in log.truncated(ids)):
            return True
        return any(log.has_rows(id, begin) for id in ids)

    def no_rows(self) -> pa.Table:
        """The rows of messages about other tables."""
        return empty_rows(self.known, self.present.types, completes=self.target is not None)

    def rows(self, log: MessageLog, begin: int) -> tuple[pa.Table, pa.RecordBatch]:
        """The rows of the messages from `begin`, and the bad ones.

        Raises UserError for a table that was truncated, or dropped and created again.
        """
        relations = self.relations(log)
        self._check_contents(log, begin, relations)
        segments = []
        for place, (index, relation) in enumerate(relations):
            later = (other for other, each in relations[place + 1 :] if each.id == relation.id)
            end = next(later, len(log.starts))
            part = log.changes(relation, max(index, begin), end)
            if len(part.index):
                segments.append(part)
        kinds = self._kinds(log, [segment.relation for segment in segments])
        changes = _Changes.of(self, segments, kinds)
        return changes.last_changes(log)

    def _check_contents(
        self, log: MessageLog, begin: int, relations: Sequence[tuple[int, Relation]]
    ) -> None:
        ids = {relation.id for _, relation in relations}
        if self.ignores_truncate:
            return
        if any(index >= begin for index in log.truncated(ids)):
            raise UserError(
                "the table of the database was truncated, which no row can state",
                table=self.name,
                hint="delete the rows of the table, and use truncate='ignore'",
            )
        if any(log.has_rows(id, begin) for id in ids - set(self.ids)):
            raise UserError(
                "the table of the database was dropped and created again, which no row can state",
                table=self.name,
                hint="delete the rows of the table, and use truncate='ignore'",
            )

    def _kinds(
        self, log: MessageLog, relations: Sequence[Relation]
    ) -> dict[tuple[int, int], PostgresType]:
        """The type of each column, by its id and modifier."""
        found = {(column.kind, column.modifier) for each in relations for column in each.columns}
        catalog = dict(self.catalog([kind for kind, _ in found]))
        for kind, base in log.base_types().items():
            if kind not in catalog and base in NAMES:
                catalog[kind] = CatalogType(base=NAMES[base])
        return {each: resolved(*each, catalog) for each in found}


def empty_rows(
    known: pa.Schema, columns: Mapping[str, PostgresType], *, completes: bool = True
) -> pa.Table:
    """A table without rows: the columns of the source and, if it completes them, those of the
    table that is written."""
    fields = []
    for name, kind in columns.items():
        stated = known.field(name).type if name in known.names else None
        fields.append(pa.field(name, common_type([kind], stated)))
    if completes:
        fields += [field.with_nullable(True) for field in known if _is_absent(field, columns)]
    return pa.schema([*fields, pa.field(IS_DELETED, pa.bool_())]).empty_table()


def _is_absent(field: pa.Field, columns: Collection[str]) -> bool:
    return field.name not in columns and field.name != IS_DELETED


@dataclass
class _Changes:
    """The changes of a batch in the order of the log; each array has an entry for each row.

    index: as in ChangedRows.  lacking: for each column, rows without a value that an update did
    not change.  reasons: of bad rows.
    """

    reader: ChangeReader
    segments: Sequence[ChangedRows]
    index: Positions
    deleted: Mask
    segment: Positions
    place: Positions  # in its segment
    columns: dict[str, pa.Array]
    lacking: dict[str, Mask]
    bad: dict[str, Mask]
    reasons: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        reader: ChangeReader,
        segments: Sequence[ChangedRows],
        kinds: Mapping[tuple[int, int], PostgresType],
    ) -> _Changes:
        index = np.concatenate([np.empty(0, np.int64), *(s.index for s in segments)])
        order = np.argsort(index, kind="stable")
        sizes = [len(s.index) for s in segments]
        segment = np.repeat(np.arange(len(segments)), sizes)[order]
        place = np.concatenate([np.empty(0, np.int64), *(np.arange(n) for n in sizes)])[order]
        deleted = np.concatenate([np.empty(0, np.bool_), *(s.deleted for s in segments)])[order]
        changes = cls(reader, segments, index[order], deleted, segment, place, {}, {}, {})
        names = dict.fromkeys(c.name for s in segments for c in s.relation.columns)
        for name in names:
            changes._add(name, order, kinds)
        return changes

    def _add(
        self, name: str, order: Positions, kinds: Mapping[tuple[int, int], PostgresType]
    ) -> None:
        """One column, with its type."""
        types = []
        for part in self.segments:
            found = [c for c in part.relation.columns if c.name == name]
            types.append(kinds[found[0].kind, found[0].modifier] if found else None)
        known = self.reader.known
        stated = known.field(name).type if name in known.names else None
        target = common_type([t for t in types if t is not None], stated)
        parts = [part for part, kind in zip(self.segments, types, strict=True) if kind is not None]
        size = sum(part.rows.column(name).nbytes for part in parts)
        if pa.types.is_string(target) and size > _TEXT_MAX:
            target = pa.large_string()
        values, bad, lacking = [], [], []
        for part, kind in zip(self.segments, types, strict=True):
            if kind is None:
                none = np.zeros(len(part.index), np.bool_)
                found, wrong, missing = pa.nulls(len(part.index), target), none, none
            else:
                found, wrong = typed_column(part.rows.column(name), kind, target)
                missing = part.unchanged[name]
            values.append(found)
            bad.append(wrong)
            lacking.append(missing)
        self.columns[name] = pa.concat_arrays(values).take(pa.array(order))
        self.bad[name] = np.concatenate(bad)[order]
        self.lacking[name] = np.concatenate(lacking)[order] & ~self.deleted

    def last_changes(self, log: MessageLog) -> tuple[pa.Table, pa.RecordBatch]:
        """The last good change of each key, and the bad rows."""
        if not len(self.index):
            return self.reader.no_rows(), rejected_batch((), (), ())
        self._carry()
        self._mark_bad()
        self._mark_unidentified()
        groups = self._groups(self._key())
        while True:
            rows = self._last(groups)
            needed = {n: rows[self.lacking[n][rows]] for n in self.columns}
            needed = {name: found for name, found in needed.items() if len(found)}
            if not needed:
                break
            self._complete(needed, groups)
        return self._table(rows), self._rejected(log)

    def _key(self) -> list[str]:
        """The columns of which a batch has one row each; none: all rows."""
        target, names = self.reader.target, self.columns.keys()
        if target is not None and target.record_key and set(target.identity) <= names:
            return list(target.identity)
        identities = {part.relation.keys for part in self.segments}
        is_full = any(part.relation.is_full for part in self.segments)
        return list(identities.pop()) if len(identities) == 1 and not is_full else []

    def _groups(self, key: Sequence[str]) -> Positions:
        """A number for each key; rows without a key have one each."""
        count = len(self.index)
        if not key:
            return np.arange(count)
        groups, has_key = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        for name in key:
            codes = pc.dictionary_encode(self.columns[name], null_encoding="encode").indices
            numbers = np.asarray(codes).astype(np.int64)
            _, groups = np.unique(groups * (numbers.max() + 1) + numbers, return_inverse=True)
            has_key |= np.asarray(pc.is_valid(self.columns[name]))
        groups[~has_key] = groups.max() + 1 + np.arange((~has_key).sum())
        return groups

    def _carry(self) -> None:
        """Values of large columns from the changes of the same row before."""
        if not any(mask.any() for mask in self.lacking.values()):
            return
        groups = self._groups(self._identity())
        old = self._old_rows()
        for name, lacking in self.lacking.items():
            if not lacking.any():
                continue
            has = ~lacking & ~self.deleted
            source = np.where(has, np.arange(len(has)), -1)
            while True:
                before = _last_before(groups, source, self.deleted)
                before = np.where(old >= 0, before[old], before)
                found = np.where(lacking & (source < 0), before, source)
                if (found == source).all():
                    break
                source = found
            taken = lacking & (source >= 0)
            self.columns[name] = self.columns[name].take(
                pa.array(np.where(taken, source, np.arange(len(has))))
            )
            self.bad[name] = np.where(taken, self.bad[name][source], self.bad[name])
            self.lacking[name] = lacking & ~taken

    def _identity(self) -> list[str]:
        """The columns that identify a row of the database in all messages, else of the table."""
        identities = {part.relation.keys for part in self.segments}
        return list(identities.pop()) if len(identities) == 1 else self._key()

    def _old_rows(self) -> Positions:
        """For each row of an update with an old row, the number of that; else -1."""
        old = np.full(len(self.index), -1, np.int64)
        pairs = np.flatnonzero(self.index[1:] == self.index[:-1] + 1) + 1
        pairs = pairs[self.index[pairs] % 2 == 1]
        old[pairs] = pairs - 1
        return old

    def _mark_bad(self) -> None:
        """Rows with a text that is not a value.  Of deleted rows only the key is used."""
        key = set(self._key())
        for name, bad in self.bad.items():
            for row in np.flatnonzero(bad if name in key else bad & ~self.deleted):
                text = self._text(int(row), name)
                what = f"{text[:_SHOWN]!r} is not a value of type {self.columns[name].type}"
                self._reject(int(row), f"column {name}: {what}")

    def _mark_unidentified(self) -> None:
        """Rows without a key, and updates and deletes that may not say which row they change."""
        target = self.reader.target
        if target is None or not self._key():
            return
        for number, part in enumerate(self.segments):
            missing = set(target.identity) - set(part.relation.keys)
            if part.relation.is_full or not missing:
                continue
            inserted = part.inserted[self.place[self.segment == number]]
            for row in np.flatnonzero(self.segment == number)[~inserted]:
                self._reject(
                    int(row),
                    f"the replica identity of the database's table lacks {', '.join(missing)}: "
                    f"ALTER TABLE {part.relation.name} REPLICA IDENTITY FULL",
                )
        key = list(target.record_key)
        blank = np.logical_and.reduce([_is_blank(self.columns[name]) for name in key])
        for row in np.flatnonzero(blank):
            self._reject(int(row), f"column {', '.join(key)}: the record key is null or empty")

    def _reject(self, row: int, reason: str) -> None:
        """Reject a whole message: an update of a key with its old row."""
        message = self.index // 2
        near = [n for n in (row - 1, row, row + 1) if 0 <= n < len(message)]
        same = [n for n in near if message[n] == message[row]]
        for number in same:
            self.reasons.setdefault(number, reason if number == max(same) else "")

    def _last(self, groups: Positions) -> Positions:
        """The last row of each key that is not bad, in order."""
        good = np.ones(len(groups), np.bool_)
        good[list(self.reasons)] = False
        rows = np.flatnonzero(good)
        _, at = np.unique(groups[rows][::-1], return_index=True)
        return np.sort(rows[len(rows) - 1 - at])

    def _complete(self, needed: Mapping[str, Positions], groups: Positions) -> None:
        """Values that the log does not have; rows without one are bad."""
        self._from_database(needed)
        self._from_table({n: rows[self.lacking[n][rows]] for n, rows in needed.items()}, groups)
        for name, rows in needed.items():
            for row in rows[self.lacking[name][rows]]:
                self._reject(
                    int(row),
                    f"column {name}: a large value that did not change is neither in the log nor "
                    "in the present row nor in the table",
                )
            for row in rows[self.bad[name][rows]]:
                self._reject(int(row), f"column {name}: the present value is not of its type")

    def _from_database(self, needed: Mapping[str, Positions]) -> None:
        present = self.reader.present
        names = [name for name in needed if name in present.types]
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *(needed[n] for n in names)]))
        for number in np.unique(self.segment[rows]):
            part = self.segments[number]
            keys = part.relation.keys
            if not keys or not set(keys) <= present.types.keys():
                continue
            mine = rows[self.segment[rows] == number]
            found = present.find(part.rows.take(pa.array(self.place[mine])).select(keys), names)
            at = mine[np.asarray(found["n"], np.int64)]
            for name in names:
                column, kind = self.columns[name], present.types[name]
                values, bad = typed_column(found[name].combine_chunks(), kind, column.type)
                self._put(name, at, values, bad)

    def _from_table(self, needed: Mapping[str, Positions], groups: Positions) -> None:
        target = self.reader.target
        names = [n for n, rows in needed.items() if len(rows) and n in self.reader.known.names]
        if target is None or not names or not set(target.record_key) <= self.columns.keys():
            return
        rows = np.unique(np.concatenate([needed[name] for name in names]))
        first = self._first_rows(rows, groups)
        key = list(target.record_key)
        keys = pa.table({name: self.columns[name].take(pa.array(first)) for name in key})
        places = _key_places(keys)
        for batch in target.stored([*key, *names]):
            batch = batch.cast(pa.schema([(n, self.columns[n].type) for n in batch.schema.names]))
            found = places(batch.select(key))
            stored = np.flatnonzero(found >= 0)
            for name in names:
                values = batch.column(name).take(pa.array(stored))
                self._put(name, rows[found[stored]], values, np.zeros(len(stored), np.bool_))

    def _first_rows(self, rows: Positions, groups: Positions) -> Positions:
        """For each row, the first change of the same row in the batch, whose key is stored."""
        order = np.argsort(groups, kind="stable")
        before = np.full(len(groups), -1, np.int64)
        same = groups[order][1:] == groups[order][:-1]
        before[order[1:][same]] = order[:-1][same]
        old, found = self._old_rows(), []
        for row in rows:
            at = int(row)
            while (older := int(old[at]) if old[at] >= 0 else int(before[at])) >= 0:
                if old[at] < 0 and self.deleted[older]:
                    break
                at = older
            found.append(at)
        return np.array(found, np.int64)

    def _put(self, name: str, rows: Positions, values: pa.Array, bad: Mask) -> None:
        """Values of rows that lack one; those of other rows stay."""
        keep = self.lacking[name][rows]
        rows, bad = rows[keep], bad[keep]
        values = values.filter(pa.array(keep))
        place = np.arange(len(self.index))
        place[rows] = len(self.index) + np.arange(len(rows))
        both = pa.concat_arrays([self.columns[name], values.cast(self.columns[name].type)])
        self.columns[name] = both.take(pa.array(place))
        self.lacking[name][rows] = False
        self.bad[name][rows] = bad

    def _table(self, rows: Positions) -> pa.Table:
        taken = pa.array(rows)
        columns = {name: column.take(taken) for name, column in self.columns.items()}
        if self.reader.target is not None:
            for absent in self.reader.known:
                if _is_absent(absent, columns):
                    columns[absent.name] = pa.nulls(len(rows), absent.type)
        columns[IS_DELETED] = pa.array(self.deleted[rows])
        return pa.table(columns)

    def _text(self, row: int, name: str) -> str:
        value = self.segments[self.segment[row]].rows.column(name)[int(self.place[row])].as_py()
        return "" if value is None else value.decode("utf-8", "replace")

    def _rejected(self, log: MessageLog) -> pa.RecordBatch:
        """Bad messages, each once: as JSON, and the position of their transaction."""
        rows = sorted(row for row, reason in self.reasons.items() if reason)
        raws, positions = [], []
        for row in rows:
            part = self.segments[self.segment[row]].rows
            value = part.slice(int(self.place[row]), 1).to_pylist()[0]
            raws.append(json_row(value))
            positions.append(log.position(int(self.index[row]) // 2))
        return rejected_batch(raws, [self.reasons[row] for row in rows], positions)


def _is_blank(column: pa.Array) -> Mask:
    blank = pc.is_null(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        blank = pc.or_(blank, pc.fill_null(pc.equal(column, ""), False))
    mask: Mask = blank.to_numpy(zero_copy_only=False)
    return mask


def json_row(row: Mapping[str, Any]) -> bytes:
    """Texts of a row of the database."""
    texts = {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in row.items()
    }
    return json.dumps(texts, ensure_ascii=False, default=str).encode("utf-8", "replace")


def _last_before(groups: Positions, source: Positions, ended: Mask) -> Positions:
    """For each row, the source of the last row of its group before it that has one; -1 if there is
    none, or the row of the group ended since."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    is_event = (source >= 0) | ended
    places = np.where(is_event[order], np.arange(len(order)), -1)
    last = np.concatenate([[-1], np.maximum.accumulate(places)[:-1]])
    is_same = (last >= 0) & (ordered[last] == ordered)
    found = np.empty(len(order), np.int64)
    found[order] = np.where(is_same, np.where(ended, -1, source)[order][last], -1)
    return found


def _key_places(keys: pa.Table) -> Callable[[pa.RecordBatch], Positions]:
    """A function that gives the place of each key in `keys`, or -1."""
    names = keys.column_names
    numbers = {tuple(row.values()): n for n, row in enumerate(keys.to_pylist())}

    def places(batch: pa.RecordBatch) -> Positions:
        likely = np.asarray(pc.is_in(batch.column(0), keys[names[0]].combine_chunks()))
        found = np.full(batch.num_rows, -1, np.int64)
        for row in np.flatnonzero(likely):
            values = tuple(batch.column(name)[int(row)].as_py() for name in names)
            found[row] = numbers.get(values, -1)
        return found

    return places
