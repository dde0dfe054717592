"""Values of JSON objects as columns: of the types of a table, or of types that the values have.

Apache Hudi's MercifulJsonConverter is the source of what a type accepts: numbers of times count the
unit of the column, dates are text or days, decimals text or numbers.  A value that its column
cannot hold exactly makes its row a bad one; numbers with a fraction become the nearest number of a
floating-point column, but never infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi._native import json_values as native
from pyhudi._native.json_values import JsonNode, JsonRows
from pyhudi.arrays import exact_cast
from pyhudi.errors import SchemaError
from pyhudi.ingest.source import failing_places

_EXACT: Final = 1 << 53
"""Integers up to this are numbers of float64."""
_EXACT_32: Final = 1 << 24
_NUMBERS: Final = (native.INTEGER, native.NUMBER)
_TEXTS: Final = (native.TEXT, native.ESCAPED)
_NOT_FINITE: Final = "^(NaN|-?Infinity)$"
"""As Jackson and Spark write them."""
_DAY_LENGTH: Final = len("2024-01-02")
_ZONE: Final = r"(Z|[+-]\d\d(:?\d\d)?)$"


def check_json_columns(schema: pa.Schema) -> None:
    """Raise SchemaError for columns that JSON cannot fill."""
    for field in schema:
        _check_type(field.type, field.name)


def _check_type(kind: pa.DataType, name: str) -> None:
    if pt.is_map(kind):
        raise SchemaError(
            "JSON messages cannot fill a map column",
            column=name,
            hint="use a struct column, or a format with a schema",
        )
    for number in range(kind.num_fields):
        _check_type(kind.field(number).type, name)


class JsonReader:
    """Objects as rows of one batch, in parts.

    schema: columns of the table, of a closed schema the only ones; a column of the type null, and
    new fields, get the type of their values.  The first value of a new field decides whether it is
    text, numbers, truth values, a list or an object; a field whose values are all null, `[]` or
    `{}` has no column yet.
    """

    def __init__(self, schema: pa.Schema, *, is_closed: bool = False) -> None:
        check_json_columns(schema)
        self._schema = pa.schema([field.with_type(_typed(field.type)) for field in schema])
        self._is_closed = is_closed
        self._learned = pa.struct([])

    @property
    def learned(self) -> pa.Schema:
        """The columns of the schema, and the new fields so far."""
        known = [field for field in self._schema if not pt.is_null(field.type)]
        types = {field.name: field.type for field in known}
        new = [field for field in self._learned if field.name not in types]
        fields = [f.with_type(_extended(f.type, self._learned_type(f.name))) for f in known]
        return pa.schema([*fields, *new])

    def learn(self, rows: JsonRows) -> None:
        """Find the types of new fields without reading values."""
        self._learned = _inferred_fields(rows.root, self._learned, self._untyped(rows.root))

    def read(self, rows: JsonRows) -> tuple[pa.Table, np.ndarray, dict[int, str]]:
        """Rows, the places of their texts, and why the other texts are no rows."""
        self.learn(rows)
        values = _Values(rows)
        table = pa.table(
            {
                f.name: values.column(rows.root.fields.get(f.name), f.type, rows.rows, f.name)
                for f in self.learned
            }
        )
        good = np.ones(len(rows.rows), np.bool_)
        if values.faults:
            good[np.searchsorted(rows.rows, [p for p in values.faults if p in values.places])] = 0
        if not table.num_columns:
            table = pa.Table.from_struct_array(pa.array([{}] * len(rows.rows), pa.struct([])))
        if not good.all():
            table = table.filter(pa.array(good))
        return table, rows.rows[good], values.faults

    def _learned_type(self, name: str) -> pa.DataType | None:
        return field_type(self._learned, name)

    def _untyped(self, root: JsonNode) -> Iterable[tuple[str, pa.DataType | None]]:
        """Fields whose type, or parts of it, the values have; and what is known of it."""
        for name in root.fields:
            known = field_type(self._schema, name)
            if known is None and self._is_closed:
                continue
            if known is None or pt.is_null(known) or (_is_open(known) and not self._is_closed):
                yield name, None if known is None or pt.is_null(known) else known


def field_type(struct: pa.DataType | pa.Schema | None, name: str) -> pa.DataType | None:
    if struct is None or struct.get_field_index(name) < 0:
        return None
    return struct.field(name).type


# ---- types of new fields -------------------------------------------------------------------------


def _typed(kind: pa.DataType) -> pa.DataType:
    """Without the fields of structs that have no type; null: the type itself is not known."""
    if pt.is_struct(kind):
        fields = [field.with_type(_typed(field.type)) for field in kind]
        return pa.struct([field for field in fields if not pt.is_null(field.type)])
    if _is_list(kind):
        return pa.null() if pt.is_null(_typed(kind.value_type)) else kind
    return kind


def _is_open(kind: pa.DataType) -> bool:
    """Whether values may have fields beyond the type's."""
    return pt.is_struct(kind) or (_is_list(kind) and _is_open(kind.value_type))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind))


def _inferred_fields(
    node: JsonNode, learned: pa.StructType, untyped: Iterable[tuple[str, pa.DataType | None]]
) -> pa.StructType:
    """`learned` with the types of further fields."""
    types = {field.name: field.type for field in learned}
    for name, known in untyped:
        found = _inferred(node.fields[name], types.get(name, known), known)
        if found is not None:
            types[name] = found
    return pa.struct(list(types.items()))


def _inferred(
    node: JsonNode, learned: pa.DataType | None, known: pa.DataType | None
) -> pa.DataType | None:
    """The type of a node's values; None: none of them has one yet.

    learned: of earlier values.  known: of the table, which fields of structs are added to.
    """
    if known is not None and not _is_open(known):
        return known
    if learned is not None:
        return _of_kind(node, _kind_of(learned), learned, known)
    kinds = node.kinds
    found, first = np.unique(kinds[kinds != native.NOTHING], return_index=True)
    of_values = (_of_kind(node, kind, None, known) for kind in found[np.argsort(first)].tolist())
    return next((kind for kind in of_values if kind is not None), None)


def _of_kind(
    node: JsonNode, kind: int, learned: pa.DataType | None, known: pa.DataType | None
) -> pa.DataType | None:
    """The type of values of one kind; None: they have none yet, such as empty lists."""
    if kind in _TEXTS:
        return pa.string()
    if kind in (native.TRUE, native.FALSE):
        return pa.bool_()
    if kind in _NUMBERS:
        has_fraction = bool((node.kinds == native.NUMBER).any())
        return pa.float64() if has_fraction or learned == pa.float64() else pa.int64()
    if kind == native.LIST:
        item = None if learned is None else learned.value_type
        known_item = None if known is None else known.value_type
        found = item if node.item is None else _inferred(node.item, item, known_item)
        return None if found is None else pa.list_(found)
    names = [(name, field_type(known, name)) for name in node.fields]
    fields = _inferred_fields(node, learned if learned is not None else pa.struct([]), names)
    return fields if fields.num_fields else None


def _kind_of(kind: pa.DataType) -> int:
    """What values of a learned type are in JSON."""
    if pt.is_struct(kind):
        return native.OBJECT
    if _is_list(kind):
        return native.LIST
    if pt.is_boolean(kind):
        return native.TRUE
    return native.TEXT if pt.is_string(kind) else native.INTEGER


def _extended(known: pa.DataType, learned: pa.DataType | None) -> pa.DataType:
    """The table's type with the fields that values have beyond it."""
    if learned is None or known.equals(learned):
        return known
    if pt.is_struct(known) and pt.is_struct(learned):
        own = [f.with_type(_extended(f.type, field_type(learned, f.name))) for f in known]
        names = {field.name for field in own}
        return pa.struct([*own, *(field for field in learned if field.name not in names)])
    if _is_list(known) and _is_list(learned):
        item = known.value_field.with_type(_extended(known.value_type, learned.value_type))
        return pa.list_(item) if pt.is_list(known) else pa.large_list(item)
    return known


# ---- values --------------------------------------------------------------------------------------


class _Values:
    """Columns of nodes.  faults: reasons by the place of a text; places: of all objects."""

    def __init__(self, rows: JsonRows) -> None:
        self._data = rows.data
        self.faults = dict(rows.faults)
        self.places = set(rows.rows.tolist()) if rows.faults else _Everything()

    def column(
        self, node: JsonNode | None, kind: pa.DataType, rows: np.ndarray, path: str
    ) -> pa.Array:
        """rows: of each object or item around the values, the place of its text."""
        if node is None or not len(rows):
            return pa.nulls(len(rows), kind)
        kinds, places = node.kinds, node.places
        slots = places[:, 0]
        chosen = np.isin(kinds, _accepted(kind))
        wrong = ~chosen & (kinds != native.NOTHING)
        self._fail(rows[slots[wrong]], path, kind)
        kinds, places, slots = kinds[chosen], places[chosen], slots[chosen]
        if pt.is_struct(kind):
            found = self._struct(node, kind, rows[slots], path)
        elif _is_list(kind):
            found = self._list(node, kind, rows[slots], places[:, 2], path)
        else:
            found = self._leaf(kinds, places, kind, rows[slots], path)
        return _spread(found, slots, len(rows))

    def _fail(self, rows: np.ndarray, path: str, kind: pa.DataType) -> None:
        for row in rows.tolist():
            self.faults.setdefault(row, f"column {path}: not a value of type {kind}")

    def _struct(self, node: JsonNode, kind: pa.DataType, rows: np.ndarray, path: str) -> pa.Array:
        if not kind.num_fields:
            return pa.array([{}] * len(rows), kind)
        # objects of other columns' kinds are not left out: all objects of a node have its fields
        parts = [
            self.column(node.fields.get(f.name), f.type, rows, f"{path}.{f.name}") for f in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind))

    def _list(
        self, node: JsonNode, kind: pa.DataType, rows: np.ndarray, counts: np.ndarray, path: str
    ) -> pa.Array:
        items = self.column(node.item, kind.value_type, np.repeat(rows, counts), f"{path}.element")
        offsets = np.concatenate([[0], np.cumsum(counts)])
        made = pa.ListArray if pt.is_list(kind) else pa.LargeListArray
        width = np.int32 if pt.is_list(kind) else np.int64
        return made.from_arrays(pa.array(offsets.astype(width)), items, type=kind)

    def _leaf(
        self, kinds: np.ndarray, places: np.ndarray, kind: pa.DataType, rows: np.ndarray, path: str
    ) -> pa.Array:
        if pt.is_boolean(kind):
            return pa.array(kinds == native.TRUE)
        starts, sizes = places[:, 1].copy(), places[:, 2].copy()
        escaped = (kinds == native.ESCAPED).astype(np.uint8)
        found = native.texts(self._data, starts, sizes, escaped)
        if pt.is_string(kind) or pt.is_large_string(kind):
            return found.cast(kind)
        numbers = np.isin(kinds, _NUMBERS)
        bad = np.zeros(len(found), np.bool_)
        parts, where = [], []
        for is_number, convert in ((True, _of_number(kind)), (False, of_text(kind))):
            chosen = np.flatnonzero(numbers == is_number)
            if not len(chosen):
                continue
            array, failing = converted(found.take(pa.array(chosen)), convert)
            bad[chosen[failing]] = True
            parts.append(array)
            where.append(chosen)
        self._fail(rows[bad], path, kind)
        if not parts:
            return pa.nulls(len(found), kind)
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate(where), kind="stable")
        return pa.concat_arrays(parts).take(pa.array(order))


class _Everything:
    def __contains__(self, place: object) -> bool:
        return True


def _accepted(kind: pa.DataType) -> list[int]:
    """Kinds of JSON values that may be values of a type."""
    if pt.is_struct(kind):
        return [native.OBJECT]
    if _is_list(kind):
        return [native.LIST]
    if pt.is_boolean(kind):
        return [native.TRUE, native.FALSE]
    if pt.is_integer(kind):
        return [native.INTEGER]
    if pt.is_floating(kind):
        return [*_NUMBERS, *_TEXTS]
    if pt.is_temporal(kind):
        return [native.INTEGER, *_TEXTS]
    if pt.is_decimal(kind):
        return [*_NUMBERS, *_TEXTS]
    return list(_TEXTS)


def _spread(values: pa.Array, slots: np.ndarray, count: int) -> pa.Array:
    """Values at their slots; the others null."""
    if len(values) == count:
        return values
    places = np.full(count, -1, np.int64)
    places[slots] = np.arange(len(values))
    return values.take(pa.array(places, mask=places < 0))


Convert = Callable[[pa.Array], pa.Array]


def converted(texts: pa.Array, convert: Convert) -> tuple[pa.Array, np.ndarray]:
    """The values of texts, and the places of those that are none, which are null."""
    bad = np.fromiter(failing_places(texts, convert), np.int64)
    if not len(bad):
        return convert(texts), bad
    mask = np.zeros(len(texts), np.bool_)
    mask[bad] = True
    return convert(pc.if_else(pa.array(mask), pa.scalar(None, texts.type), texts)), bad


def _of_number(kind: pa.DataType) -> Convert:
    """Raises ArrowInvalid for a number that the type does not have."""
    if pt.is_floating(kind):
        return lambda texts: floats(texts, kind)
    if pt.is_decimal(kind):
        return lambda texts: decimals(texts, kind)
    if pt.is_date(kind):
        return lambda texts: texts.cast(pa.int32()).cast(pa.date32()).cast(kind)
    if pt.is_time(kind):
        return lambda texts: times_of_day(texts, kind)
    return lambda texts: texts.cast(pa.int64()).cast(kind)


def of_text(kind: pa.DataType) -> Convert:
    """Raises ArrowInvalid for a text that is not a value of the type in JSON."""
    if pt.is_floating(kind):
        return lambda texts: _not_finite(texts, kind)
    if pt.is_timestamp(kind):
        return lambda texts: timestamps(texts, kind)
    if pt.is_time(kind):
        return lambda texts: clock_times(texts, kind)
    if pt.is_decimal(kind):
        return lambda texts: decimals(texts, kind)
    return lambda texts: texts.cast(pa.string()).cast(kind)


def decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The exact numbers, without a float in between."""
    return exact_cast(texts.cast(pa.string()), kind)


def floats(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The nearest numbers; integers exactly.  Raises ArrowInvalid, for infinity too."""
    found = texts.cast(pa.float64()).cast(kind)
    if pc.any(pc.is_inf(found)).as_py():
        raise pa.ArrowInvalid("the number is too large for the column")
    check_integers(texts, found)
    return found


def check_integers(texts: pa.Array, found: pa.Array) -> None:
    """Raises ArrowInvalid if the text of an integer has become another number."""
    numbers = found.cast(pa.float64()).to_numpy(zero_copy_only=False)
    size = np.abs(numbers)
    limit = _EXACT_32 if pt.is_float32(found.type) else _EXACT
    for place in np.flatnonzero((size >= limit) & (size < np.inf)).tolist():
        text = texts[place].as_py()
        if not any(mark in text for mark in ".eE") and int(text) != int(numbers[place]):
            raise pa.ArrowInvalid(f"the integer {text} is not a number of {found.type}")


def _not_finite(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The floating values that JSON has no numbers for.  Raises ArrowInvalid for other texts."""
    if not pc.all(pc.match_substring_regex(texts, _NOT_FINITE), min_count=0).as_py():
        raise pa.ArrowInvalid("text for a number")
    return texts.cast(pa.string()).cast(pa.float64()).cast(kind)


def timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times of text; without a zone, in UTC.  Raises ArrowInvalid."""
    texts = texts.cast(pa.string())
    if kind.unit == "ms":  # Arrow rejects zeros beyond the unit
        return timestamps(texts, pa.timestamp("us", kind.tz)).cast(kind)
    if kind.tz is None:
        return texts.cast(kind)
    is_day = pc.equal(pc.utf8_length(texts), _DAY_LENGTH)
    texts = pc.if_else(is_day, pc.binary_join_element_wise(texts, "T00:00:00Z", ""), texts)
    has_zone = pc.match_substring_regex(texts, _ZONE)
    return pc.if_else(has_zone, texts, pc.binary_join_element_wise(texts, "Z", "")).cast(kind)


def clock_times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times of a day of text.  Raises ArrowInvalid."""
    moment = pc.binary_join_element_wise("1970-01-01 ", texts.cast(pa.string()), "")
    exact = moment.cast(pa.timestamp("ns"))  # Arrow rejects zeros beyond the unit
    return exact.cast(pa.timestamp(kind.unit)).cast(kind)


def times_of_day(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    numbers = texts.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    day = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[kind.unit] * 86400
    inside: Any = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, day))
    if not pc.all(inside, min_count=0).as_py():
        raise pa.ArrowInvalid("the time is not in a day")
    return numbers.cast(kind)
