"""Merge rules as a plain model: one dict, one record at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]
TOAST = "__debezium_unavailable_value"
COLUMNS = [
    ("id", pa.string()),
    ("ts", pa.int64()),
    ("lsn", pa.int64()),
    ("_event_lsn", pa.int64()),
    ("_event_seq", pa.string()),
    ("_change_operation_type", pa.string()),
    ("Op", pa.string()),
    ("name", pa.string()),
    ("price", pa.float64()),
    ("tags", pa.list_(pa.field("element", pa.string()))),
    ("addr", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
    ("_hoodie_is_deleted", pa.bool_()),
]
SCHEMA = pa.schema(COLUMNS)
USER = ("name", "price", "tags", "addr")


@dataclass(frozen=True)
class Rule:
    """A rule, and the model of it.

    order: what is compared of a row; None: the later row is the greater.  deletes_compare: a lesser
    delete loses also where a lesser row still gives its values.  ties_to_old: of equals
    the older stays.  gives_way: whether a value lets the other row's stand.  beneath: an older
    row still gives its values.  delete: marks beside `_hoodie_is_deleted`.  batch: what decides
    within a batch, where that is another thing.  folds_batch: rows of a batch are merged, not one
    of them taken.
    """

    payload: str | None
    ordering: tuple[str, ...] = ("ts",)
    order: Callable[[Row], Any] | None = None
    ties_to_old: bool = False
    gives_way: Callable[[Any], bool] = lambda value: False
    beneath: bool = False
    deletes_compare: bool = False
    delete: Callable[[Row], bool] = lambda row: False
    batch: Callable[[Row], Any] | None = None
    folds_batch: bool = False
    options: tuple[tuple[str, str], ...] = ()
    function: Callable[[pa.RecordBatch, pa.RecordBatch], pa.RecordBatch] | None = None

    @property
    def table_options(self) -> dict[str, str]:
        """The `hoodie.*` options of a table with the rule."""
        payload = {"hoodie.datasource.write.payload.class": self.payload} if self.payload else {}
        return {**payload, **dict(self.options)}


def summed(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    """Prices add up; all else is the newer row's."""
    price = pc.add(pc.fill_null(old["price"], 0.0), pc.fill_null(new["price"], 0.0))
    at = new.schema.get_field_index("price")
    return new.set_column(at, new.schema.field(at), price)


def by_ts(row: Row) -> Any:
    return row["ts"]


def debezium(row: Row) -> bool:
    return str(row["_change_operation_type"]).lower() == "d"


RULES = {
    "later wins": Rule("OverwriteWithLatestAvroPayload"),
    "event time": Rule("DefaultHoodieRecordPayload", order=by_ts),
    "event time by default": Rule(None, order=by_ts),
    "commit time by default": Rule(None, ()),
    "event time of several columns": Rule(
        None, ("lsn", "ts"), order=lambda row: (row["lsn"], row["ts"])
    ),
    "event time class": Rule("EventTimeAvroPayload", order=by_ts),
    "delete field": Rule(
        "DefaultHoodieRecordPayload",
        order=by_ts,
        delete=lambda row: row["name"] == "gone",
        options=(
            ("hoodie.payload.delete.field", "name"),
            ("hoodie.payload.delete.marker", "gone"),
        ),
    ),
    "first value": Rule("FirstValueAvroPayload", order=by_ts, ties_to_old=True),
    "partial update": Rule(
        "PartialUpdateAvroPayload",
        order=by_ts,
        gives_way=lambda value: value is None,
        beneath=True,
    ),
    "non-defaults": Rule(
        "OverwriteNonDefaultsWithLatestAvroPayload",
        gives_way=lambda value: value is None,
        batch=by_ts,
    ),
    "aws dms": Rule(
        "AWSDmsAvroPayload", delete=lambda row: str(row["Op"]).lower() == "d", batch=by_ts
    ),
    "debezium mysql": Rule(
        "MySqlDebeziumAvroPayload",
        ("_event_seq",),
        order=lambda row: tuple(map(int, row["_event_seq"].split("."))),
        delete=debezium,
    ),
    "debezium postgres": Rule(
        "PostgresDebeziumAvroPayload",
        ("_event_lsn",),
        order=lambda row: row["_event_lsn"],
        gives_way=lambda value: value == TOAST,
        delete=debezium,
    ),
    "python function": Rule(None, (), function=summed),
}


VERSION_9 = {
    "partial update": replace(RULES["partial update"], deletes_compare=True),
    "non-defaults": replace(RULES["non-defaults"], batch=None, folds_batch=True),
    "aws dms": replace(RULES["aws dms"], batch=None, delete=lambda row: row["Op"] == "D"),
    "debezium postgres": replace(
        RULES["debezium postgres"],
        beneath=True,
        deletes_compare=True,
        delete=lambda row: row["_change_operation_type"] == "d",
    ),
}
"""The rules that modes and properties replace from version 9 on, where they differ."""


class Model:
    """Records by key, merged one at a time."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.rows: dict[str, Row] = {}

    def is_delete(self, row: Row) -> bool:
        return bool(row["_hoodie_is_deleted"]) or self.rule.delete(row)

    def behind(self, old: Row, new: Row) -> bool:
        rule = self.rule
        if rule.order is None:
            return False
        mine, theirs = rule.order(old), rule.order(new)
        return bool(mine >= theirs if rule.ties_to_old else mine > theirs)

    def merged(self, old: Row | None, new: Row) -> Row | None:
        """What two records of a key come to; None: no record."""
        rule = self.rule
        if old is None:
            return None if self.is_delete(new) else new
        behind = self.behind(old, new)
        if self.is_delete(new):
            loses = behind and (rule.deletes_compare or not rule.beneath)
            return old if loses else None
        if rule.function is not None:
            return {**new, "price": (old["price"] or 0.0) + (new["price"] or 0.0)}
        if behind and not rule.beneath:
            return old
        high, low = (old, new) if behind else (new, old)
        return {k: low[k] if rule.gives_way(v) else v for k, v in high.items()}

    def combined(self, batch: list[Row]) -> list[Row]:
        """One row a key, as the batch has it."""
        rule, out = self.rule, {}
        if rule.payload == "PostgresDebeziumAvroPayload" and not rule.beneath:
            assert rule.order is not None
            batch = sorted(batch, key=rule.order)
        for row in batch:
            key = row["id"]
            if key not in out:
                out[key] = row
            elif rule.batch is not None or (rule.order is not None and not self.folds):
                order = rule.batch or rule.order
                assert order is not None
                old, new = order(out[key]), order(row)
                out[key] = row if new > old or (new == old and not rule.ties_to_old) else out[key]
            elif not self.folds:
                out[key] = row
            elif self.is_delete(out[key]):
                compares = rule.deletes_compare or not rule.beneath
                out[key] = out[key] if compares and self.behind(out[key], row) else row
            elif self.is_delete(row):
                out[key] = out[key] if self.behind(out[key], row) else row
            else:
                out[key] = self.merged(out[key], row) or row
        return list(out.values())

    @property
    def folds(self) -> bool:
        rule = self.rule
        probe = rule.function is not None or rule.beneath or rule.folds_batch
        return probe or self.rule.payload == "PostgresDebeziumAvroPayload"

    def upsert(self, batch: list[Row]) -> None:
        for row in self.combined(batch):
            after = self.merged(self.rows.get(row["id"]), row)
            if after is None:
                self.rows.pop(row["id"], None)
            else:
                self.rows[row["id"]] = after
