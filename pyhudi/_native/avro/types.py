"""Parsing of Avro schema text to a tree of `Node`, each with the Arrow type of its values.

The only module that reads Avro schema JSON (Avro 1.11 specification, "Schema Declaration"):

    null -> null            boolean -> bool         int -> int32         long -> int64
    float, double           string -> string        bytes -> binary      enum -> string
    fixed -> fixed_size_binary                      decimal -> decimal128, above 38 digits 256
    date -> date32          time-millis/-micros -> time32[ms] / time64[us]
    timestamp-* -> timestamp[*, UTC]                local-timestamp-* -> timestamp[*]
    record -> struct        array -> list<element>  map -> map<string, value>
    ["null", T] in either order -> nullable T       unknown logical type -> the type below it
    a union of several branches -> struct with one nullable child per branch, named by the branch

Schemas come from files: their depth, and their size once named types are written out, are bounded.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptFileError, UnsupportedTableError

DEPTH_MAX: Final = 64
NODES_MAX: Final = 200_000
FIXED_BYTES_MAX: Final = 1 << 20
DECIMAL_DIGITS_MAX: Final = 76

NAME_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

ABSENT: Final = object()
"""`AvroField.default` of a field without a default; None means the default `null`."""


class Kind(enum.IntEnum):
    """Encoding of a value and layout of its column; the numbers are shared with C."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    TIME_MILLIS = 4
    TIME_MICROS = 5
    FLOAT = 6
    DOUBLE = 7
    STRING = 8
    BYTES = 9
    FIXED = 10
    DECIMAL_BYTES = 11
    DECIMAL_FIXED = 12
    ENUM = 13
    ARRAY = 14
    MAP = 15
    RECORD = 16
    UNION = 17


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One type of a schema.

    `branch_count` is 0 outside of a union, 1 for a union of one, 2 for ["null", T]; these are
    folded into T.  `null_branch` is the index of the null branch or -1; a general union (kind
    UNION) has its non-null branches as `fields`.  `size` is the encoded bytes of a fixed,
    `size_min` the fewest encoded bytes of a value.  The only field of an array is `element`, of a
    map `value`.  `annotation`: the declaration of a fixed or record with a logical type other than
    decimal.  Compared by identity, as keys of caches.
    """

    kind: Kind
    arrow: pa.DataType
    size_min: int
    branch_count: int = 0
    null_branch: int = -1
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    weight: int = 1  # nodes in this tree, shared ones counted each time
    annotation: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def nullable(self) -> bool:
        return self.null_branch >= 0 or self.kind is Kind.NULL


@dataclass(frozen=True, slots=True)
class AvroField:
    """A named part of a record, union, array or map."""

    name: str
    node: Node
    default: object = field(default=ABSENT, compare=False)
    optional: bool = False  # a branch of a union: its column is nullable, its encoding is not

    @property
    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.node.arrow, nullable=self.optional or self.node.nullable)


def parse_schema(schema_json: str) -> Node:
    """The root record of a schema.

    Raises CorruptFileError for text that is no Avro record schema, UnsupportedTableError for one
    that Arrow columns cannot represent: recursive, nested over `DEPTH_MAX`, over `NODES_MAX` types.
    """
    try:
        declared = json.loads(schema_json)
    except ValueError as error:
        raise CorruptFileError("the Avro schema is not JSON", reason=str(error)) from error
    except RecursionError as error:
        raise UnsupportedTableError("the Avro schema is nested too deeply") from error
    try:
        root = _Parser().parse(declared, namespace="", depth=0)
    except UnicodeEncodeError as error:
        raise CorruptFileError(
            "a name in the Avro schema is not text", name=error.object
        ) from error
    if root.kind is not Kind.RECORD or root.branch_count:
        raise CorruptFileError("the Avro schema is not a record", type=root.kind.name.lower())
    return root


@dataclass(frozen=True, slots=True)
class FlatSchema:
    """The nodes of a schema as a sequence: the root first, the parts of each node together.

    Of each node: its type, its dotted name, the top-level field it belongs to (-1 for the root),
    and the start and number of its parts.  A map has an additional string part `key` in front.
    """

    parts: tuple[AvroField, ...]
    paths: tuple[str, ...]
    tops: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


def lay_out(root: Node) -> FlatSchema:
    key = AvroField("key", _PRIMITIVES["string"])
    parts, paths, tops = [AvroField("", root, optional=True)], [""], [-1]
    spans = []
    index = 0
    while index < len(parts):
        node, path = parts[index].node, paths[index]
        children = (key, *node.fields) if node.kind is Kind.MAP else node.fields
        spans.append((len(parts), len(children)))
        for position, child in enumerate(children):
            parts.append(child)
            paths.append(f"{path}.{child.name}" if path else child.name)
            tops.append(position if index == 0 else tops[index])
        index += 1
    return FlatSchema(tuple(parts), tuple(paths), tuple(tops), tuple(spans))


_PRIMITIVES: Final[Mapping[str, Node]] = {
    "null": Node(Kind.NULL, pa.null(), 0),
    "boolean": Node(Kind.BOOLEAN, pa.bool_(), 1),
    "int": Node(Kind.INT, pa.int32(), 1),
    "long": Node(Kind.LONG, pa.int64(), 1),
    "float": Node(Kind.FLOAT, pa.float32(), 4),
    "double": Node(Kind.DOUBLE, pa.float64(), 8),
    "bytes": Node(Kind.BYTES, pa.binary(), 1),
    "string": Node(Kind.STRING, pa.string(), 1),
}

_LOGICAL: Final[Mapping[tuple[str, str], Node]] = {
    ("int", "date"): Node(Kind.INT, pa.date32(), 1),
    ("int", "time-millis"): Node(Kind.TIME_MILLIS, pa.time32("ms"), 1),
    ("long", "time-micros"): Node(Kind.TIME_MICROS, pa.time64("us"), 1),
    ("long", "timestamp-millis"): Node(Kind.LONG, pa.timestamp("ms", "UTC"), 1),
    ("long", "timestamp-micros"): Node(Kind.LONG, pa.timestamp("us", "UTC"), 1),
    ("long", "timestamp-nanos"): Node(Kind.LONG, pa.timestamp("ns", "UTC"), 1),
    ("long", "local-timestamp-millis"): Node(Kind.LONG, pa.timestamp("ms"), 1),
    ("long", "local-timestamp-micros"): Node(Kind.LONG, pa.timestamp("us"), 1),
    ("long", "local-timestamp-nanos"): Node(Kind.LONG, pa.timestamp("ns"), 1),
}


class _Parser:
    """Names seen so far; a name maps to None while its definition is being read."""

    def __init__(self) -> None:
        self.names: dict[str, Node | None] = {}

    def parse(self, declared: Any, *, namespace: str, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise UnsupportedTableError("the Avro schema is nested too deeply", limit=DEPTH_MAX)
        if isinstance(declared, str):
            return self._named(declared, namespace)
        if isinstance(declared, list):
            return self._union(declared, namespace, depth)
        if not isinstance(declared, dict):
            raise CorruptFileError("an Avro type is neither a name, an object nor a union")
        kind = declared.get("type")
        match kind:
            case "record" | "error":
                return self._record(declared, namespace, depth)
            case "array":
                return self._array(declared, namespace, depth)
            case "map":
                return self._map(declared, namespace, depth)
            case "fixed":
                return self._fixed(declared, namespace)
            case "enum":
                return self._enum(declared, namespace)
            case str() if kind in _PRIMITIVES:
                return _logical(declared, kind)
            case _:
                return self.parse(kind, namespace=namespace, depth=depth + 1)

    def _named(self, name: str, namespace: str) -> Node:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full_name = _full_name(name, None, namespace)
        for candidate in (full_name, name):
            if candidate in self.names:
                node = self.names[candidate]
                if node is None:
                    raise UnsupportedTableError("the Avro schema is recursive", type=candidate)
                return node
        raise CorruptFileError("the Avro schema names an unknown type", type=full_name)

    def _record(self, declared: dict[str, Any], namespace: str, depth: int) -> Node:
        full_name = self._begin(declared, namespace)
        inner = full_name.rpartition(".")[0]
        members = declared.get("fields")
        if not isinstance(members, list):
            raise CorruptFileError("an Avro record has no list of fields", type=full_name)
        fields = []
        seen = set()
        for member in members:
            if not isinstance(member, dict) or not isinstance(member.get("name"), str):
                raise CorruptFileError("an Avro record has a field without a name", type=full_name)
            name = member["name"]
            if name in seen:
                raise CorruptFileError("an Avro record repeats a field", type=full_name, field=name)
            seen.add(name)
            node = self.parse(member.get("type"), namespace=inner, depth=depth + 1)
            fields.append(AvroField(name, node, member.get("default", ABSENT)))
        size_min = sum(member.node.size_min for member in fields)
        arrow = pa.struct([member.arrow for member in fields])
        found = _compound(Kind.RECORD, arrow, size_min, fields)
        return self._end(full_name, replace(found, annotation=_annotation(declared)))

    def _array(self, declared: dict[str, Any], namespace: str, depth: int) -> Node:
        items = self.parse(declared.get("items"), namespace=namespace, depth=depth + 1)
        element = AvroField("element", items)
        return _compound(Kind.ARRAY, pa.list_(element.arrow), 1, [element])

    def _map(self, declared: dict[str, Any], namespace: str, depth: int) -> Node:
        values = self.parse(declared.get("values"), namespace=namespace, depth=depth + 1)
        value = AvroField("value", values)
        return _compound(Kind.MAP, pa.map_(pa.string(), value.arrow), 1, [value])

    def _fixed(self, declared: dict[str, Any], namespace: str) -> Node:
        full_name = self._begin(declared, namespace)
        size = declared.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise CorruptFileError("an Avro fixed has no size", type=full_name)
        if size > FIXED_BYTES_MAX:
            raise UnsupportedTableError(
                "an Avro fixed is too large", type=full_name, size=size, limit=FIXED_BYTES_MAX
            )
        arrow = _decimal(declared)
        if arrow is not None:
            return self._end(full_name, Node(Kind.DECIMAL_FIXED, arrow, size, size=size))
        found = Node(Kind.FIXED, pa.binary(size), size, size=size)
        return self._end(full_name, replace(found, annotation=_annotation(declared)))

    def _enum(self, declared: dict[str, Any], namespace: str) -> Node:
        full_name = self._begin(declared, namespace)
        symbols = declared.get("symbols")
        if not symbols or not isinstance(symbols, list):
            raise CorruptFileError("an Avro enum has no list of symbols", type=full_name)
        if not all(isinstance(symbol, str) for symbol in symbols):
            raise CorruptFileError("an Avro enum has no list of symbols", type=full_name)
        "".join(symbols).encode()  # lone surrogates are rejected here, not at the first row
        return self._end(full_name, Node(Kind.ENUM, pa.string(), 1, symbols=tuple(symbols)))

    def _union(self, declared: list[Any], namespace: str, depth: int) -> Node:
        nodes = [self.parse(branch, namespace=namespace, depth=depth + 1) for branch in declared]
        nulls = [i for i, node in enumerate(nodes) if node.kind is Kind.NULL]
        if not nodes or len(nulls) > 1 or any(node.branch_count for node in nodes):
            raise CorruptFileError("an Avro union is empty, nested or has two nulls")
        null_branch = nulls[0] if nulls else -1
        others = [i for i in range(len(nodes)) if i != null_branch]
        if len(others) <= 1 and nodes[others[0] if others else 0].kind is not Kind.UNION:
            only = nodes[others[0] if others else 0]
            size_min = 1 if nulls else 1 + only.size_min
            return replace(
                only, branch_count=len(nodes), null_branch=null_branch, size_min=size_min
            )
        if any(nodes[i].kind is Kind.UNION for i in others):
            raise CorruptFileError("an Avro union stands directly inside a union")
        names = _branch_names([declared[i] for i in others])
        fields = [
            AvroField(name, nodes[i], optional=True) for name, i in zip(names, others, strict=True)
        ]
        union = _compound(Kind.UNION, pa.struct([branch.arrow for branch in fields]), 1, fields)
        return replace(union, branch_count=len(nodes), null_branch=null_branch)

    def _begin(self, declared: dict[str, Any], namespace: str) -> str:
        name = declared.get("name")
        if not isinstance(name, str) or not name:
            raise CorruptFileError("a named Avro type has no name", type=declared.get("type"))
        full_name = _full_name(name, declared.get("namespace"), namespace)
        self.names[full_name] = None
        return full_name

    def _end(self, full_name: str, node: Node) -> Node:
        self.names[full_name] = node
        return node


def _compound(kind: Kind, arrow: pa.DataType, size_min: int, fields: list[AvroField]) -> Node:
    weight = 1 + sum(part.node.weight for part in fields)
    if weight > NODES_MAX:
        raise UnsupportedTableError("the Avro schema is too large", limit=NODES_MAX)
    return Node(kind, arrow, size_min, fields=tuple(fields), weight=weight)


def _full_name(name: str, declared_namespace: object, enclosing: str) -> str:
    if "." in name:
        return name
    namespace = declared_namespace if isinstance(declared_namespace, str) else enclosing
    return f"{namespace}.{name}" if namespace else name


def _branch_names(branches: list[Any]) -> list[str]:
    """Short names of union branches, full ones if short ones clash."""
    full = [_branch_name(branch) for branch in branches]
    short = [name.rpartition(".")[2] for name in full]
    names = [s if short.count(s) == 1 else f for s, f in zip(short, full, strict=True)]
    if len(set(names)) != len(names):
        raise CorruptFileError("an Avro union repeats a branch", branches=names)
    return names


def _branch_name(branch: Any) -> str:
    while isinstance(branch, dict) and "name" not in branch:
        branch = branch["type"]
    if isinstance(branch, dict):
        return _full_name(str(branch["name"]), branch.get("namespace"), "")
    return str(branch)


def _logical(declared: dict[str, Any], primitive: str) -> Node:
    logical = declared.get("logicalType")
    if primitive == "bytes" and (arrow := _decimal(declared)) is not None:
        return Node(Kind.DECIMAL_BYTES, arrow, 1)
    return _LOGICAL.get((primitive, str(logical)), _PRIMITIVES[primitive])


def _annotation(declared: dict[str, Any]) -> Mapping[str, Any] | None:
    return declared if isinstance(declared.get("logicalType"), str) else None


def _decimal(declared: dict[str, Any]) -> pa.DataType | None:
    """The Arrow decimal of a declaration; None if it is not (validly) a decimal."""
    if declared.get("logicalType") != "decimal":
        return None
    precision, scale = declared.get("precision"), declared.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if precision < 1 or not 0 <= scale <= precision:
        return None
    if precision > DECIMAL_DIGITS_MAX:
        raise UnsupportedTableError(
            "a decimal has too many digits", precision=precision, limit=DECIMAL_DIGITS_MAX
        )
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
