"""Statements that define tables: trees of sqlglot to CREATE, DROP, ALTER, TRUNCATE and indexes.

sqlglot gives some forms back as text: their beginning is read token by token, and the names, types,
values and lists in them are parsed by sqlglot in a statement that it knows.
Types are those of Spark SQL; docs/sql.md lists which a table can have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

import pyarrow as pa
from sqlglot import TokenType, exp

from pyhudi.errors import UserError
from pyhudi.sql.grammar import closed, name_of, refuse, short, tokens_of, trees_of
from pyhudi.sql.statements import (
    AddColumns,
    AddPartitions,
    ChangeColumn,
    Column,
    CreateIndex,
    CreateTable,
    Definition,
    DropIndex,
    DropPartitions,
    DropTable,
    MoveColumns,
    Name,
    PartitionSpec,
    RefreshIndex,
    RenameTable,
    SetProperties,
    Tree,
    Truncate,
)

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(),
    "BINARY": pa.binary(), "DATE": pa.date32(), "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"), "TIMESTAMPNTZ": pa.timestamp("us"),
}  # fmt: skip
"""Types of sqlglot without parameters, as columns have them."""
_REFUSED_TYPES: Final = {
    "CHAR": "use string: tables store no length",
    "VARCHAR": "use string: tables store no length",
    "VARIANT": "pyhudi.create_table creates tables with variants",
    "INTERVAL": "store a number with its unit",
}
_OPTIONS: Final = getattr(exp, "OptionsProperty", None)
_ADD_PARTITION: Final = getattr(exp, "AddPartition", None)
"""Nodes that older releases of sqlglot do not have: they give the statement back as text."""
_PROVIDERS: Final = ("hudi", "pyhudi")
_NOT_SUPPORTED: Final = {
    "VIEW": "query the table instead", "DATABASE": "a folder of tables is the database",
    "SCHEMA": "a folder of tables is the database", "FUNCTION": None,
}  # fmt: skip


def definition(tree: Tree, text: str) -> Definition | None:
    """The statement of a tree; None if it does not define tables.  Raises UserError."""
    match tree:
        case exp.Create():
            return _create_index(tree) if _kind(tree) == "INDEX" else _create(tree, text)
        case exp.Drop():
            return _drop(tree)
        case exp.TruncateTable():
            if tokens_of(text)[1].token_type is not TokenType.TABLE:
                refuse(tree, "TRUNCATE needs TABLE", hint="TRUNCATE TABLE t")
            return _truncate(tree)
        case exp.Alter():
            _check_times(text)
            return _alter(tree)
    word = tree.this.upper() if isinstance(tree, exp.Command) else ""
    if word in _BY_TOKENS:
        return _by_tokens(word, text)
    return None


def _kind(tree: Tree) -> str:
    return str(tree.args.get("kind") or "").upper()


def _check_kind(tree: Tree) -> None:
    if _kind(tree) != "TABLE":
        hint = _NOT_SUPPORTED.get(_kind(tree)) or "only tables and indexes are defined here"
        refuse(tree, f"{_kind(tree)} is not supported", hint=hint)


# ---- CREATE TABLE, DROP TABLE, TRUNCATE TABLE ---------------------------------------------------


def _create(tree: Tree, text: str) -> CreateTable:
    _check_kind(tree)
    if tree.args.get("replace"):
        refuse(tree, "CREATE OR REPLACE TABLE is not supported", hint="drop the table first")
    closed(tree, frozenset({"this", "kind", "exists", "properties", "expression"}))
    _check_times(text)
    table = tree.this
    columns: tuple[Column, ...] = ()
    if isinstance(table, exp.Schema):
        columns = tuple(_columns(table.expressions))
        table = table.this
    query = tree.args.get("expression")
    if query is not None and (columns or not isinstance(query, exp.Query | exp.Values)):
        refuse(tree, "CREATE TABLE AS SELECT takes its columns from the query")
    if query is None and not columns:
        refuse(tree, "CREATE TABLE needs columns, or a query", hint="CREATE TABLE t (id BIGINT)")
    target = name_of(table)
    found = _Options(tree)
    more = found.partition_columns
    if more and query is not None:
        refuse(tree, "the query gives the types of partition columns")
    partition_by = (*found.partition_by, *(column.path[0] for column in more))
    return CreateTable(
        target,
        (*columns, *more),
        partition_by,
        found.properties,
        found.location,
        found.comment,
        bool(tree.args.get("exists")),
        query,
        found.has_format,
    )


class _Options:
    """The clauses of CREATE TABLE after its columns."""

    def __init__(self, create: Tree) -> None:
        self.partition_by: list[str] = []
        self.partition_columns: tuple[Column, ...] = ()
        self.properties: dict[str, str] = {}
        self.location: str | None = None
        self.comment: str | None = None
        self.has_format = False
        given = create.args.get("properties")
        seen: set[type] = set()
        for node in [] if given is None else given.expressions:
            if type(node) in seen:
                refuse(create, "a clause of CREATE TABLE is given twice")
            if type(node) not in (exp.Property, _OPTIONS):
                seen.add(type(node))
            self._add(node, create)

    def _add(self, node: Tree, create: Tree) -> None:
        match node:
            case exp.FileFormatProperty():
                provider = str(node.this.name if hasattr(node.this, "name") else node.this)
                if node.args.get("hive_format") or provider.lower() not in _PROVIDERS:
                    refuse(
                        create,
                        "the table format is not supported",
                        format=provider,
                        hint="USING hudi",
                    )
                self.has_format = True
            case exp.PartitionedByProperty():
                self._partitioned(node, create)
            case exp.SchemaCommentProperty():
                self.comment = _text(node.this, create)
            case exp.LocationProperty():
                self.location = _text(node.this, create)
            case _ if type(node) is _OPTIONS:
                _add_properties(self.properties, node.expressions, create)
            case exp.Property() if type(node) is exp.Property:
                _add_properties(self.properties, [node], create)
            case _:
                part = short(node.sql())
                refuse(create, "a part of the statement is not supported", part=part)

    def _partitioned(self, node: Tree, create: Tree) -> None:
        parts = node.this.expressions if isinstance(node.this, exp.Schema | exp.Tuple) else []
        definitions = [one for one in parts if isinstance(one, exp.ColumnDef)]
        names = [one for one in parts if isinstance(one, exp.Identifier)]
        if len(definitions) + len(names) != len(parts) or not parts or (definitions and names):
            refuse(
                create,
                "PARTITIONED BY needs names of columns",
                hint="a column of dates or times: hoodie.table.keygenerator.type",
            )
        self.partition_by = [str(one.name) for one in names]
        self.partition_columns = tuple(_columns(definitions))


def _columns(nodes: Sequence[Tree]) -> Iterator[Column]:
    for node in nodes:
        column = _column(node)
        if len(column.path) > 1 or column.after is not None:
            refuse(
                node, "the name of a new column has no dots and no position", hint="quote it: `a.b`"
            )
        yield column


def _column(node: Tree) -> Column:
    """A column with its type, comment and place.  Raises UserError for other constraints."""
    if not isinstance(node, exp.ColumnDef):
        refuse(
            node,
            "a column with its type is expected here",
            hint="a key: TBLPROPERTIES (primaryKey = 'id')",
        )
    closed(node, frozenset({"this", "kind", "constraints", "position"}))
    path = _path(node.this)
    comments: dict[str, str] = {}
    comment, is_required = _constraints(node)
    if comment:
        comments[".".join(path)] = comment
    kind = _type(node.args.get("kind"), ".".join(path), comments)
    return Column(path, kind, comments, _place(node.args.get("position")), is_required)


def _constraints(node: Tree) -> tuple[str | None, bool]:
    """(the comment of a column or field, whether it is NOT NULL)."""
    comment, is_required = None, False
    for constraint in node.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if isinstance(kind, exp.CommentColumnConstraint) and comment is None:
            comment = _text(kind.this, node)
        elif isinstance(kind, exp.NotNullColumnConstraint):
            is_required = not kind.args.get("allow_null")
        else:
            refuse(
                node,
                "a constraint of a column is not supported",
                column=node.name,
                hint="a key: TBLPROPERTIES (primaryKey = 'id'); no default or computed values",
            )
    return comment, is_required


def _place(node: Tree | None) -> str | None:
    if node is None:
        return None
    closed(node, frozenset({"this", "position"}))
    if str(node.args.get("position") or "").upper() == "FIRST":
        return ""
    if node.this is None:
        raise UserError("AFTER needs a column", hint="AFTER city")
    return _path(node.this)[-1]


def _path(node: Tree) -> tuple[str, ...]:
    """The parts of a name with dots."""
    if isinstance(node, exp.Identifier):
        return (str(node.name),)
    if isinstance(node, exp.Column):
        return tuple(str(part.name) for part in node.parts)
    if isinstance(node, exp.Dot):
        return (*_path(node.this), *_path(node.expression))
    return refuse(node, "a column is expected here")


def _type(node: Tree, path: str, comments: dict[str, str]) -> pa.DataType:
    """The type of a column.  comments: gets those of fields.  Raises UserError, with the column,
    for types that tables do not have."""
    name = str(getattr(getattr(node, "this", None), "name", "")) or "none"
    if not isinstance(node, exp.DataType):
        return _wrong_type(node, path, None)
    parts = node.expressions
    if name in _TYPES and not parts:
        return _TYPES[name]
    if name == "DECIMAL":
        return _decimal(node, path)
    if name == "ARRAY" and len(parts) == 1:
        inner = _type(parts[0], f"{path}.element", comments)
        return pa.list_(pa.field("element", inner))
    if name == "MAP" and len(parts) == 2:
        key = _type(parts[0], f"{path}.key", comments)
        if not pa.types.is_string(key):
            _wrong_type(node, path, "keys of maps are strings")
        return pa.map_(key, _type(parts[1], f"{path}.value", comments))
    if name == "STRUCT" and parts:
        return pa.struct([_struct_field(part, path, comments) for part in parts])
    return _wrong_type(node, path, _REFUSED_TYPES.get(name))


def _struct_field(node: Tree, path: str, comments: dict[str, str]) -> pa.Field:
    if not isinstance(node, exp.ColumnDef) or not isinstance(node.this, exp.Identifier):
        _wrong_type(node, path, "a field of a struct has a name and a type")
    closed(node, frozenset({"this", "kind", "constraints"}))
    inner = f"{path}.{node.name}"
    comment, is_required = _constraints(node)
    if is_required:
        refuse(node, "a field of a struct cannot be NOT NULL", column=inner)
    if comment:
        comments[inner] = comment
    return pa.field(str(node.name), _type(node.args.get("kind"), inner, comments))


def _decimal(node: Tree, path: str) -> pa.DataType:
    """decimal is decimal(10, 0), as in Spark."""
    numbers = [str(one.this) for one in node.expressions]
    if len(numbers) > 2 or not all(one.isdigit() for one in numbers):
        _wrong_type(node, path, "decimal(10, 2)")
    precision, scale = (int(one) for one in (*numbers, *("10", "0")[len(numbers) :]))
    if not 0 < precision <= 38 or scale > precision:
        _wrong_type(node, path, "precision is 1 to 38, scale at most precision")
    return pa.decimal128(precision, scale)


def _wrong_type(node: Tree, path: str, hint: str | None) -> NoReturn:
    shown = node.sql("spark") if hasattr(node, "sql") else None
    raise UserError(
        "the type of a column is not supported",
        column=path,
        type=shown,
        hint=hint or "docs/sql.md lists the types",
    )


def _check_times(text: str) -> None:
    """Refuse TIMESTAMP WITH and WITHOUT TIME ZONE, which sqlglot does not tell apart."""
    tokens = [token.text.upper() for token in tokens_of(text) if _is_word(token)]
    for one, other in itertools.pairwise(tokens):
        if one == "TIMESTAMP" and other in ("WITH", "WITHOUT"):
            raise UserError(
                "the type of a column is not supported",
                type=f"TIMESTAMP {other} TIME ZONE",
                hint="use TIMESTAMP, which is in UTC, or TIMESTAMP_NTZ",
            )


def _is_word(token: Any) -> bool:
    return token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)


def _add_properties(found: dict[str, str], nodes: Sequence[Tree], within: Tree) -> None:
    """Properties with their values as text.  Raises UserError for one that is given twice."""
    for node in nodes:
        if isinstance(node, exp.SchemaCommentProperty):  # comment = '...' without quotes
            key, value = "comment", node.this
        elif type(node) is exp.Property:
            key, value = _key(node.this, within), node.args.get("value")
        else:
            refuse(within, "a property is expected here", part=short(node.sql()))
        if key in found:
            refuse(within, "a property is given twice", property=key)
        found[key] = _text(value, within)


def _key(node: Tree, within: Tree) -> str:
    """The name of a property: text, or a name with dots."""
    if isinstance(node, exp.Literal | exp.Var):
        return str(node.name)
    if isinstance(node, exp.Dot | exp.Identifier | exp.Column):
        return ".".join(_path(node))
    return refuse(within, "the name of a property is expected here", part=short(node.sql()))


def _text(node: Any, within: Tree) -> str:
    """The text of a literal: text, a number or a boolean."""
    if isinstance(node, exp.Literal):
        return str(node.name)
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.name}"
    part = short(node.sql()) if hasattr(node, "sql") else None
    return refuse(within, "a constant is expected here", part=part)


def _drop(tree: Tree) -> DropTable | DropIndex:
    tables = tree.args.get("tables") or ([tree.this] if tree.this else [])
    if len(tables) != 1:
        refuse(tree, "one name is dropped by a statement")
    if _kind(tree) == "INDEX":
        closed(tree, frozenset({"this", "tables", "kind", "exists", "cluster"}))
        on = tree.args.get("cluster")
        if on is None or not isinstance(on.this, exp.Table):
            refuse(tree, "DROP INDEX needs a table", hint="DROP INDEX i ON t")
        (name,) = name_of(tables[0]).parts if len(name_of(tables[0]).parts) == 1 else ("",)
        if not name:
            refuse(tree, "the name of an index has no dots")
        return DropIndex(name, name_of(on.this), bool(tree.args.get("exists")))
    _check_kind(tree)
    closed(tree, frozenset({"this", "tables", "kind", "exists", "purge"}))
    return DropTable(name_of(tables[0]), bool(tree.args.get("exists")))


def _truncate(tree: Tree) -> Truncate:
    closed(tree, frozenset({"expressions", "partition"}))
    if len(tree.expressions) != 1:
        refuse(tree, "one table is truncated by a statement")
    given = tree.args.get("partition")
    return Truncate(name_of(tree.expressions[0]), None if given is None else _spec(given))


def _spec(node: Tree) -> PartitionSpec:
    """The columns and values of PARTITION (...)."""
    found: dict[str, Tree | None] = {}
    for part in node.expressions:
        if not isinstance(part, exp.EQ):
            refuse(
                node,
                "a partition is stated by the values of its columns",
                hint="PARTITION (city = 'sf')",
            )
        (name,) = _path(part.this)[-1:]
        if name.lower() in {known.lower() for known in found}:
            refuse(node, "a column is named twice", column=name)
        found[name] = part.expression
    return found


# ---- ALTER TABLE --------------------------------------------------------------------------------


def _alter(tree: Tree) -> Definition:
    _check_kind(tree)
    closed(tree, frozenset({"this", "kind", "actions"}))
    target, actions = name_of(tree.this), tree.args["actions"]
    first = actions[0]
    if isinstance(first, exp.ColumnDef) or (len(actions) == 1 and isinstance(first, exp.Schema)):
        nodes = actions if isinstance(first, exp.ColumnDef) else first.expressions
        if not nodes:
            refuse(tree, "ADD COLUMNS needs a column")
        return AddColumns(target, tuple(map(_added, nodes)))
    if len(actions) != 1:
        refuse(tree, "one change is made by a statement")
    match first:
        case exp.AlterSet():
            return SetProperties(target, dict(_set_properties(first, tree)))
        case _ if type(first) is _ADD_PARTITION:
            if first.args.get("location"):
                refuse(tree, "a partition is a folder of its table: it has no location")
            return AddPartitions(target, (_spec(first.this),), bool(first.args.get("exists")))
        case exp.DropPartition():
            closed(first, frozenset({"expressions", "exists"}))
            specs = tuple(map(_spec, first.expressions))
            return DropPartitions(target, specs, bool(first.args.get("exists")))
        case exp.AlterColumn():
            return _changed(target, first, tree)
        case exp.AlterRename():
            return RenameTable(target, name_of(first.this))
        case exp.RenameColumn():
            closed(first, frozenset({"this", "to"}))
            return MoveColumns(target, (_path(first.this),), _new_name(first.args["to"], tree))
        case exp.Drop() if _kind(first) in ("COLUMN", "COLUMNS"):
            return _dropped(target, first)
    return refuse(tree, "this form of ALTER TABLE is not supported")


def _new_name(node: Tree, within: Tree) -> str:
    path = _path(node)
    if len(path) != 1:
        refuse(within, "the new name of a column is one name")
    return path[0]


def _dropped(target: Name, node: Tree) -> MoveColumns:
    """DROP COLUMN a, DROP COLUMNS (a, b)."""
    named = {key for key, value in node.args.items() if value}
    if named - {"kind", "tables", "exists"}:
        refuse(node, "this form of DROP COLUMN is not supported")
    paths = [
        _path(column)
        for one in node.args["tables"]
        for column in (one.expressions if isinstance(one, exp.Schema) else [one])
    ]
    return MoveColumns(target, tuple(paths), if_exists=bool(node.args.get("exists")))


def _added(node: Tree) -> Column:
    column = _column(node)
    if column.is_required:
        refuse(node, "a new column cannot be NOT NULL: older rows have no value")
    return column


def _set_properties(node: Tree, within: Tree) -> dict[str, str | None]:
    lists = node.expressions
    if (
        len(lists) != 1
        or not isinstance(lists[0], exp.Properties)
        or len([key for key, value in node.args.items() if value]) != 1
    ):
        refuse(
            within,
            "this form of ALTER TABLE is not supported",
            hint="ALTER TABLE t SET TBLPROPERTIES ('name' = 'value')",
        )
    found: dict[str, str] = {}
    _add_properties(found, lists[0].expressions, within)
    return {**found}


def _changed(target: Name, node: Tree, within: Tree) -> ChangeColumn:
    """ALTER COLUMN c TYPE t, ALTER COLUMN c COMMENT '...', CHANGE COLUMN c c t [COMMENT '...']."""
    if node.args.get("drop") or node.args.get("allow_null") is not None:
        refuse(within, "NULL constraints of columns are not supported", hint="columns are nullable")
    closed(node, frozenset({"this", "dtype", "comment", "rename_to"}))
    path = _path(node.this)
    renamed = node.args.get("rename_to")
    if renamed is not None and _path(renamed) != path[-1:]:
        refuse(within, "CHANGE COLUMN changes no name", hint="ALTER TABLE t RENAME COLUMN a TO b")
    kind, comments = node.args.get("dtype"), dict[str, str]()
    given = node.args.get("comment") or None
    found = None if kind is None else _type(kind, ".".join(path), comments)
    if comments:
        refuse(within, "comments of fields are changed one by one")
    return ChangeColumn(target, path, found, None if given is None else _text(given, within))


# ---- indexes ------------------------------------------------------------------------------------


def _create_index(tree: Tree, options: Mapping[str, str] | None = None) -> CreateIndex:
    closed(tree, frozenset({"this", "kind", "exists"}))
    index = tree.this
    closed(index, frozenset({"this", "table", "params"}))
    params = index.args.get("params")
    if index.this is None or index.args.get("table") is None or params is None:
        refuse(
            tree,
            "CREATE INDEX needs a name, a table and columns",
            hint="CREATE INDEX i ON t USING secondary_index (city)",
        )
    closed(params, frozenset({"using", "columns"}))
    columns = []
    for node in params.args.get("columns") or ():
        inner = node.this if isinstance(node, exp.Ordered) else node
        if isinstance(node, exp.Ordered) and node.args.get("desc") is not None:
            refuse(tree, "the columns of an index have no order")
        if not isinstance(inner, exp.Column | exp.Dot | exp.Identifier):
            refuse(
                tree,
                "an index is of columns",
                part=short(inner.sql()),
                hint="OPTIONS (expr = 'lower')",
            )
        columns.append(".".join(_path(inner)))
    using = params.args.get("using")
    return CreateIndex(
        str(index.this.name),
        name_of(index.args["table"]),
        None if using is None else str(using.name).lower(),
        tuple(columns),
        options or {},
        bool(tree.args.get("exists")),
    )


# ---- forms that sqlglot gives back as text ------------------------------------------------------


def _by_tokens(word: str, text: str) -> Definition | None:
    tokens = tokens_of(text)
    words = [token.text.upper() if _is_word(token) else "" for token in tokens]
    if word == "CREATE" and words[1:2] == ["INDEX"] and "OPTIONS" in words:
        at = len(words) - 1 - words[::-1].index("OPTIONS")
        (tree,) = _one(text[: tokens[at].start], exp.Create)
        (create,) = _one(
            f"create table t (x int) using hudi {text[tokens[at].start :]}", exp.Create
        )
        return _create_index(tree, _Options(create).properties)
    if word == "REFRESH" and words[1:2] == ["INDEX"]:
        (tree,) = _one(f"DROP {text[tokens[1].start :]}", exp.Drop)
        dropped = _drop(tree)
        if isinstance(dropped, DropIndex) and not dropped.if_exists:
            return RefreshIndex(dropped.name, dropped.target)
    if word == "ALTER" and words[1:2] == ["TABLE"]:
        return _alter_by_tokens(text, tokens, words)
    return None


def _alter_by_tokens(text: str, tokens: Sequence[Any], words: Sequence[str]) -> Definition | None:
    """UNSET TBLPROPERTIES, lists of partitions, and changes of fields."""
    end = next((n for n in range(3, len(words)) if words[n] in _CHANGES), len(words))
    table = text[tokens[2].start : tokens[end].start] if end < len(words) else ""
    if not table.strip():
        return None
    before, rest = f"ALTER TABLE {table} ", list(words[end:])
    if rest[:2] == ["UNSET", "TBLPROPERTIES"]:
        skip = 4 if rest[2:4] == ["IF", "EXISTS"] else 2
        listed = _names_in(text[tokens[end + skip].start :]) if len(rest) > skip else []
        (tree,) = _one(f"DESCRIBE {table}", exp.Describe)
        return SetProperties(name_of(tree.this), dict.fromkeys(listed), skip == 4)
    if rest[0] in ("ADD", "DROP"):
        condition = {"ADD": ["IF", "NOT", "EXISTS"], "DROP": ["IF", "EXISTS"]}[rest[0]]
        has_condition = rest[1 : 1 + len(condition)] == condition
        start = end + 1 + (len(condition) if has_condition else 0)
        if words[start : start + 1] != ["PARTITION"]:
            return None
        is_purge = words[-1] == "PURGE"
        parts = [n for n in range(start, len(words)) if words[n] == "PARTITION"]
        stops = [*parts[1:], len(words) - 1 if is_purge else len(words)]
        found: list[Definition] = []
        for first, stop in zip(parts, stops, strict=True):
            last = stop - 2 if words[stop - 1] == "," else stop - 1
            spec = text[tokens[first].start : tokens[last].end + 1]
            (tree,) = _one(f"{before} {rest[0]} {spec}", exp.Alter)
            found.append(_alter(tree))
        return _together(found, has_condition)
    if rest[:2] == ["ALTER", "COLUMN"] or rest[:2] == ["CHANGE", "COLUMN"]:
        return _field_by_tokens(before, text, tokens, words, end)
    return None


def _together(found: list[Definition], has_condition: bool) -> Definition | None:
    """One statement of several partitions."""
    first = found[0]
    if isinstance(first, AddPartitions):
        specs = tuple(one.partitions[0] for one in found if isinstance(one, AddPartitions))
        return AddPartitions(first.target, specs, has_condition)
    if isinstance(first, DropPartitions):
        specs = tuple(one.partitions[0] for one in found if isinstance(one, DropPartitions))
        return DropPartitions(first.target, specs, has_condition)
    return None


def _field_by_tokens(
    before: str, text: str, tokens: Sequence[Any], words: Sequence[str], end: int
) -> Definition | None:
    """A change of a field of a struct: `a.b`, of which sqlglot parses the last name."""
    at = end + 2
    names = []
    while at < len(tokens):
        names.append(tokens[at].text)
        if words[at + 1 : at + 2] != ["."]:
            break
        at += 2
    if len(names) < 2 or at + 1 >= len(tokens):
        return None
    verb = f"ALTER COLUMN `{names[-1].replace('`', '``')}` "
    (tree,) = _one(before + verb + text[tokens[at + 1].start :], exp.Alter)
    change = _alter(tree)
    if not isinstance(change, ChangeColumn):
        return None
    return ChangeColumn(change.target, tuple(names), change.type, change.comment)


def _names_in(text: str) -> list[str]:
    """The names of a list of properties without values."""
    (tree,) = _one(f"SELECT ARRAY {text}", exp.Select)
    closed(tree, frozenset({"expressions"}))
    node = tree.expressions[0]
    found = [_key(one, tree) for one in node.expressions]
    if (
        not isinstance(node, exp.Array)
        or not found
        or len(tree.expressions) > 1
        or len(set(found)) < len(found)
    ):
        refuse(node, "a list of properties is expected here", hint="('a', 'b')")
    return found


def _one(text: str, kind: type) -> tuple[Tree]:
    """The one statement of a text, of a kind.  Raises UserError."""
    trees = trees_of(text)
    if len(trees) != 1 or not isinstance(trees[0], kind):
        raise UserError(
            "the statement is not valid here",
            sql=short(text),
            hint="docs/sql.md lists the statements",
        )
    return (trees[0],)


_BY_TOKENS: Final = frozenset({"CREATE", "REFRESH", "ALTER"})
_CHANGES: Final = frozenset({"UNSET", "ADD", "DROP", "ALTER", "CHANGE"})
