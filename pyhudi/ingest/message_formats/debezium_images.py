"""Changes of Debezium as rows: the image of the row, and columns of the change.

Names and values of the columns are those of Apache Hudi's PostgresDebeziumSource and
MysqlDebeziumSource.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.ingest.message_formats.envelopes import nested_values, texts_of
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure
from pyhudi.ingest.row_fit import unified
from pyhudi.ingest.source import failing_places


@dataclass(frozen=True, slots=True)
class _Copied:
    """A column of the change.  path: of its value in the envelope."""

    name: str
    path: tuple[str, ...]
    kind: pa.DataType


_COMMON: Final = (
    _Copied("_change_operation_type", ("op",), pa.string()),
    _Copied("_upstream_event_processed_ts_ms", ("ts_ms",), pa.int64()),
    _Copied("db_shard_source_partition", ("source", "name"), pa.string()),
    _Copied("_event_origin_ts_ms", ("source", "ts_ms"), pa.int64()),
)
_POSTGRESQL: Final = (
    *_COMMON,
    _Copied("_event_tx_id", ("source", "txId"), pa.int64()),
    _Copied("_event_lsn", ("source", "lsn"), pa.int64()),
    _Copied("_event_xmin", ("source", "xmin"), pa.int64()),
)
_MYSQL: Final = (
    *_COMMON,
    _Copied("_event_bin_file", ("source", "file"), pa.string()),
    _Copied("_event_pos", ("source", "pos"), pa.int64()),
    _Copied("_event_row", ("source", "row"), pa.int32()),
)
_SEQUENCE: Final = "_event_seq"
_COLUMNS: Final[Mapping[str, tuple[_Copied, ...]]] = {
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}
"""By `source.connector`."""
CHANGE_COLUMNS: Final = frozenset(
    {_SEQUENCE, *(column.name for columns in _COLUMNS.values() for column in columns)}
)
_NONE: Final = np.empty(0, np.int64)
_IMAGES: Final[Mapping[str, str]] = {"c": "after", "r": "after", "u": "after", "d": "before"}
"""By `op`: the image that is the row."""


def envelope_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of envelopes.  schema: of the table, whose columns type the images."""
    image = pa.struct([field for field in schema if field.name not in CHANGE_COLUMNS])
    copied = {c.path: c.kind for columns in _COLUMNS.values() for c in columns}
    source = [(path[1], kind) for path, kind in copied.items() if len(path) == 2]
    return pa.schema(
        [
            ("before", image),
            ("after", image),
            ("source", pa.struct([("connector", pa.string()), *source])),
            *((path[0], kind) for path, kind in copied.items() if len(path) == 1),
        ]
    )


def rows_of_changes(envelopes: pa.Table, places: np.ndarray) -> DecodedMessages:
    """Changes as rows, in their order; changes without a row are failures.

    envelopes: columns `op`, `before`, `after`, `source`, `ts_ms`; absent ones count as null.
    Images whose columns have no type in common with those before are failures too.
    """
    ops = texts_of(nested_values(envelopes, ("op",)))
    connectors = texts_of(nested_values(envelopes, ("source", "connector")))
    reasons: dict[int, str] = {}
    tables, found = [], []
    for op, connector in _pairs(ops, connectors):
        chosen = np.flatnonzero(_equal(ops, op) & _equal(connectors, connector))
        if op not in _IMAGES or connector not in _COLUMNS:
            reasons.update(dict.fromkeys(chosen.tolist(), _unknown(op, connector)))
            continue
        image = nested_values(envelopes, (_IMAGES[op],)).take(pa.array(chosen))
        is_row = _is_row(image)
        reasons.update(dict.fromkeys(chosen[~is_row].tolist(), _imageless(op)))
        if is_row.any():
            chosen, image = chosen[is_row], image.filter(pa.array(is_row))
            changes = envelopes.take(pa.array(chosen))
            faults = _faults(changes, _COLUMNS[connector])
            reasons.update({int(chosen[place]): text for place, text in faults.items()})
            retained = np.delete(np.arange(len(chosen)), sorted(faults))
            changes, image = changes.take(pa.array(retained)), image.take(pa.array(retained))
            tables.append(_rows(changes, image, _COLUMNS[connector]))
            found.append(chosen[retained])
    parts = list(zip(tables, found, strict=True))
    rows, retained, faults = unified(parts, pa.schema([])) if parts else (pa.table({}), _NONE, {})
    reasons.update(faults)
    failures = [MessageFailure(int(places[n]), reasons[n]) for n in sorted(reasons)]
    return DecodedMessages(rows, places[retained], failures)


def _faults(envelopes: pa.Table, columns: tuple[_Copied, ...]) -> dict[int, str]:
    """Changes whose columns of the change have values of other types."""
    faults: dict[int, str] = {}
    for column in columns:
        values = nested_values(envelopes, column.path)
        for place in failing_places(values, partial(pc.cast, target_type=column.kind)):
            name = ".".join(column.path)
            faults.setdefault(place, f"field {name}: not a value of type {column.kind}")
    return faults


def _rows(envelopes: pa.Table, image: pa.StructArray, columns: tuple[_Copied, ...]) -> pa.Table:
    values = {
        column.name: nested_values(envelopes, column.path).cast(column.kind) for column in columns
    }
    if columns is _MYSQL:
        number = pc.replace_substring_regex(values["_event_bin_file"], r"^.*\.", "")
        position = values["_event_pos"].cast(pa.string())
        values[_SEQUENCE] = pc.binary_join_element_wise(number, position, ".")
    rows = pa.Table.from_struct_array(image)
    values = {name: array for name, array in values.items() if name not in rows.schema.names}
    return pa.table([*values.values(), *rows.columns], [*values, *rows.schema.names])


def _pairs(ops: pa.Array, connectors: pa.Array) -> list[tuple[str, str]]:
    both = pa.table({"op": ops, "connector": connectors})
    distinct = both.group_by(["op", "connector"]).aggregate([])
    return list(zip(distinct["op"].to_pylist(), distinct["connector"].to_pylist(), strict=True))


def _equal(values: pa.Array, value: str) -> np.ndarray:
    return np.asarray(pc.equal(values, value))


def _is_row(image: pa.Array) -> np.ndarray:
    return np.asarray(
        image.is_valid() if pt.is_struct(image.type) else pa.repeat(False, len(image))
    )


def _unknown(op: str, connector: str) -> str:
    if op not in _IMAGES:
        return f"not a change of a row: op is {op!r}, not one of " + ", ".join(_IMAGES)
    return f"source.connector is {connector!r}, not one of " + ", ".join(_COLUMNS)


def _imageless(op: str) -> str:
    reason = f"the change has no {_IMAGES[op]} image"
    return reason + (": set REPLICA IDENTITY of the table" if op == "d" else "")
