"""SQL text to statements, by sqlglot in Spark's dialect.

The conversion is closed: the arguments of each node that it reads are listed, and a node with any
other one is rejected with an error, as another version of sqlglot may express a part of the text by
it.
Expressions and queries stay trees; `relations` and the engines check these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import TokenType, exp

from pyhudi.errors import UserError
from pyhudi.sql.grammar import after_first, closed, name_of, refuse, short, tokens_of, trees_of
from pyhudi.sql.parse_ddl import definition
from pyhudi.sql.statements import (
    Act,
    Call,
    Delete,
    Describe,
    Explain,
    Insert,
    Merge,
    MergeClause,
    Name,
    Query,
    ShowTables,
    Statement,
    Topic,
    Tree,
    Update,
    Write,
)
from pyhudi.write.merge_clauses import Pair

_NOT_SUPPORTED: Final = {
    "Transaction": "each statement is one transaction; publish=False of the Python API waits",
    "Commit": "each statement is committed when it ends",
    "Rollback": "CALL rollback_to_instant undoes a commit",
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement and the names of its parameters: those of `?` are p1, p2, ... in the order of
    the text."""

    statement: Statement
    parameters: frozenset[str]
    are_positional: bool


def parse(text: str) -> Parsed:
    """The one statement of a text.  Raises UserError for text that is not SQL, for several
    statements, and for statements that are not supported."""
    if not isinstance(text, str):
        raise UserError("SQL must be text", type=type(text).__name__, hint='sql("select 1")')
    named, count = _with_names(text)
    statement, parameters = _parsed(named)
    if count and len(parameters) > count:
        raise UserError(
            "a statement has parameters of one kind", sql=short(text), hint="use ? or :name alone"
        )
    return Parsed(statement, parameters, bool(count))


def _with_names(text: str) -> tuple[str, int]:
    """(the text with a name for each `?`, their number)."""
    tokens = tokens_of(text)
    while tokens and tokens[0].token_type is TokenType.COMMAND:  # the rest is one token
        tokens = tokens_of(" " * (tokens[0].end + 1) + text[tokens[0].end + 1 :])
    places = [t.start for t in tokens if t.token_type is TokenType.PLACEHOLDER]
    for number, start in reversed(list(enumerate(places, 1))):
        text = f"{text[:start]}:p{number}{text[start + 1 :]}"
    return text, len(places)


def _parsed(text: str) -> tuple[Statement, frozenset[str]]:
    trees = trees_of(text)
    if len(trees) != 1:
        raise UserError(
            "the text must be one statement",
            statements=len(trees),
            sql=short(text),
            hint="pass one statement a call; `pyhudi sql -f` runs a file of them",
        )
    word = trees[0].this.upper() if isinstance(trees[0], exp.Command) else ""
    if word == "EXPLAIN":
        inner, parameters = _parsed(after_first(text))
        if not isinstance(inner, Query | Write):
            raise UserError("EXPLAIN of this statement is not supported", sql=short(text))
        return Explain(inner), parameters
    if word == "SHOW":
        return _show(after_first(text)), frozenset()
    if word == "CALL":
        tree = _call_tree(after_first(text))
        return _call(tree), frozenset(node.name for node in tree.find_all(exp.Placeholder))
    named = frozenset(node.name for node in trees[0].find_all(exp.Placeholder))
    return _statement(trees[0], text), named


def _call_tree(text: str) -> Tree:
    """The tree of a call.  Names of arguments are quoted, as `table` is a keyword."""
    tokens = tokens_of(text)
    names = [t for t, arrow in itertools.pairwise(tokens) if arrow.token_type is TokenType.FARROW]
    for name in reversed(names):
        if not name.text.replace("_", "a").isalnum():
            raise UserError("an argument of CALL has no name", sql=short(text), near=name.text)
        if name.token_type is not TokenType.IDENTIFIER:
            text = f"{text[: name.start]}`{name.text}`{text[name.end + 1 :]}"
    trees = trees_of(text)
    if len(trees) != 1:
        raise UserError("the text must be one statement", sql=short(text))
    return trees[0]


def _call(tree: Tree) -> Call:
    """`show_commits(...)`, `system.show_commits(...)`, or a name alone."""
    if isinstance(tree, exp.Dot) and str(tree.this.name).lower() == "system":
        tree = tree.expression
    elif isinstance(tree, exp.Column) and tree.table.lower() == "system" and len(tree.parts) == 2:
        tree = exp.column(tree.this)
    if isinstance(tree, exp.Column) and len(tree.parts) == 1:
        return Call(str(tree.name))
    if not isinstance(tree, exp.Anonymous):
        refuse(tree, "a procedure is expected here", hint="CALL show_commits(table => 'trips')")
    positional = [one for one in tree.expressions if not isinstance(one, exp.Kwarg)]
    named: dict[str, Tree] = {}
    for one in tree.expressions:
        if isinstance(one, exp.Kwarg):
            if one.this.name.lower() in {name.lower() for name in named}:
                refuse(tree, "an argument is given twice", argument=one.this.name)
            named[one.this.name] = one.expression
        elif named:
            refuse(tree, "an argument by position follows one by name")
    return Call(str(tree.name), tuple(positional), named)


_SHOWN: Final = {
    ("TBLPROPERTIES",): Topic.PROPERTIES,
    ("PARTITIONS",): Topic.PARTITIONS,
    ("CREATE", "TABLE"): Topic.CREATION,
    ("INDEXES", "FROM"): Topic.INDEXES,
    ("INDEXES", "IN"): Topic.INDEXES,
    ("INDEXES", "ON"): Topic.INDEXES,
}
"""The words of SHOW before the name of a table."""


def _show(text: str) -> Describe | ShowTables:
    """SHOW of what `_SHOWN` lists; the name of the table is parsed as that of DESCRIBE."""
    tokens = tokens_of(text)
    words = [token.text.upper() for token in tokens]
    if words == ["TABLES"]:
        return ShowTables()
    for count in (1, 2):
        topic = _SHOWN.get(tuple(words[:count]))
        if topic is not None and len(tokens) > count:
            break
    else:
        raise UserError(
            "this form of SHOW is not supported",
            sql=short(f"SHOW {text.strip()}"),
            hint="SHOW TABLES, or CREATE TABLE, PARTITIONS, TBLPROPERTIES, INDEXES FROM a table",
        )
    rest, key = text[tokens[count - 1].end + 1 :], None
    has_key = len(tokens) > count + 3 and tokens[-1].token_type is TokenType.R_PAREN
    if topic is Topic.PROPERTIES and has_key and tokens[-2].token_type is TokenType.STRING:
        if tokens[-3].token_type is not TokenType.L_PAREN:
            raise UserError("one property is expected here", sql=short(text))
        key, rest = tokens[-2].text, text[tokens[count - 1].end + 1 : tokens[-3].start]
    trees = trees_of(f"DESCRIBE {rest}")
    if len(trees) != 1 or not isinstance(trees[0], exp.Describe):
        raise UserError("the text must be one statement", sql=short(text))
    closed(trees[0], frozenset({"this"}))
    return Describe(topic, name_of(trees[0].this), key)


_STYLES: Final = {
    "": Topic.COLUMNS, "EXTENDED": Topic.EXTENDED, "FORMATTED": Topic.EXTENDED,
    "HISTORY": Topic.HISTORY,
}  # fmt: skip


def _describe(tree: Tree) -> Describe:
    closed(tree, frozenset({"this", "style", "kind"}))
    kind, style = str(tree.args.get("kind") or "table"), str(tree.args.get("style") or "")
    if kind.lower() != "table" or style.upper() not in _STYLES:
        refuse(tree, hint="DESCRIBE [EXTENDED | HISTORY] t")
    return Describe(_STYLES[style.upper()], name_of(tree.this))


def script(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a script, which `;` ends: (number of the first line, text) of each.

    Raises UserError for text that has no tokens of SQL, such as an open quote.
    """
    start: int | None = None
    line = end = 0
    for token in tokens_of(text):
        if token.token_type is TokenType.SEMICOLON:
            if start is not None:
                yield line, text[start : token.start]
            start = None
            continue
        if start is None:
            start, line = token.start, token.line
        end = token.end + 1
    if start is not None:
        yield line, text[start:end]


def _statement(tree: Tree, text: str) -> Statement:
    match tree:
        case exp.Insert():
            return _insert(tree)
        case exp.Update():
            return _update(tree)
        case exp.Delete():
            return _delete(tree)
        case exp.Merge():
            return _merge(tree)
        case exp.Describe():
            return _describe(tree)
        case exp.Query() | exp.Values():
            return Query(tree)
    defined = definition(tree, text)
    if defined is not None:
        return defined
    kind = tree.this.upper() if isinstance(tree, exp.Command) else tree.key.upper()
    raise UserError(
        "the statement is not supported",
        statement=kind,
        sql=short(text),
        hint=_NOT_SUPPORTED.get(type(tree).__name__, "docs/sql.md lists the statements"),
    )


def _insert(tree: Tree) -> Insert:
    closed(tree)
    table, columns, partition = tree.this, None, None
    if isinstance(table, exp.Schema):
        columns = tuple(column.name for column in table.expressions)
        table = table.this
    given = table.args.get("partition")
    if given is not None:
        closed(given)
        partition = dict(map(_partition_value, given.expressions))
    query = tree.expression
    if not isinstance(query, exp.Query | exp.Values):
        refuse(tree)
    return Insert(
        name_of(table),
        query,
        columns,
        partition,
        bool(tree.args.get("overwrite")),
        bool(tree.args.get("by_name")),
    )


def _partition_value(node: Tree) -> tuple[str, Tree | None]:
    if isinstance(node, exp.EQ):
        return _column(node.this), node.expression
    return _column(node), None


def _column(node: Tree, of: Name | None = None) -> str:
    """The name of a column that a statement writes.  of: the table that may qualify it."""
    if isinstance(node, exp.Identifier):
        return str(node.name)
    if not isinstance(node, exp.Column):
        refuse(node, "a column is expected here")
    qualifiers = [part.name for part in node.parts[:-1]]
    allowed = [] if of is None else [[of.alias], [of.parts[-1]], list(of.parts)]
    folded = [[name.lower() for name in names] for names in allowed]
    if qualifiers and [name.lower() for name in qualifiers] not in folded:
        refuse(
            node, "a field of a struct cannot be assigned", hint="assign the whole struct column"
        )
    return str(node.name)


def _assignments(nodes: list[Tree], of: Name) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    for node in nodes:
        if not isinstance(node, exp.EQ):
            refuse(node, "an assignment is expected here")
        name = _column(node.this, of)
        if name in found:
            refuse(node, "a column is assigned twice", column=name)
        found[name] = node.expression
    return found


def _update(tree: Tree) -> Update:
    closed(tree)
    target = name_of(tree.this)
    return Update(target, _assignments(tree.expressions, target), _where(tree))


def _delete(tree: Tree) -> Delete:
    if not tree.this:
        refuse(tree, "DELETE needs FROM", hint="DELETE FROM t WHERE ...")
    closed(tree)
    return Delete(name_of(tree.this), _where(tree))


def _where(tree: Tree) -> Tree | None:
    where = tree.args.get("where")
    return None if where is None else where.this


def _merge(tree: Tree) -> Merge:
    closed(tree)
    target, source = name_of(tree.this), tree.args["using"]
    alias = source.alias_or_name
    if not alias:
        refuse(tree, "the source of MERGE needs a name", hint="USING (select ...) AS source")
    if not isinstance(tree.args.get("on"), exp.Expression):
        refuse(tree, "MERGE needs a condition", hint="ON t.id = s.id")
    clauses = tuple(_merge_clause(when, target) for when in tree.args["whens"].expressions)
    return Merge(target, source, alias, tree.args["on"], clauses)


def _merge_clause(node: Tree, target: Name) -> MergeClause:
    closed(node)
    condition, then = node.args.get("condition"), node.args["then"]
    if node.args["matched"]:
        pair = Pair.MATCHED
    else:
        pair = Pair.NOT_MATCHED_BY_SOURCE if node.args.get("source") else Pair.NOT_MATCHED
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        return _checked(MergeClause(pair, Act.DELETE, condition), node)
    if isinstance(then, exp.Update):
        closed(then, frozenset({"expressions"}))
        if any(map(_is_all, then.expressions)):
            if len(then.expressions) > 1:
                refuse(then, "UPDATE SET * has no other assignments")
            return _checked(MergeClause(pair, Act.UPDATE, condition), node)
        values = _assignments(then.expressions, target)
        return _checked(MergeClause(pair, Act.UPDATE, condition, values), node)
    if isinstance(then, exp.Insert):
        return _checked(MergeClause(pair, Act.INSERT, condition, _inserted(then, target)), node)
    return refuse(node)


def _is_all(node: Tree) -> bool:
    """Whether a node is `*`, which must be plain."""
    if isinstance(node, exp.Star):
        closed(node, frozenset())
        return True
    return False


def _checked(clause: MergeClause, node: Tree) -> MergeClause:
    is_insert = clause.act is Act.INSERT
    if is_insert != (clause.pair is Pair.NOT_MATCHED):
        refuse(node, f"{clause.act.value} is not possible in {clause.pair}")
    by_source = clause.pair is Pair.NOT_MATCHED_BY_SOURCE
    if by_source and clause.act is Act.UPDATE and clause.assignments is None:
        refuse(node, "UPDATE SET * is not possible in WHEN NOT MATCHED BY SOURCE")
    return clause


def _inserted(then: Tree, target: Name) -> dict[str, Tree] | None:
    closed(then, frozenset({"this", "expression"}))
    if _is_all(then.this):
        return None
    if not isinstance(then.this, exp.Tuple) or not isinstance(then.expression, exp.Tuple):
        refuse(then, "INSERT of MERGE needs columns and values", hint="INSERT (id) VALUES (s.id)")
    names = [_column(column, target) for column in then.this.expressions]
    values = then.expression.expressions
    if len(names) != len(values) or len(set(names)) < len(names):
        refuse(then, "INSERT of MERGE needs one value for each column")
    return dict(zip(names, values, strict=True))
