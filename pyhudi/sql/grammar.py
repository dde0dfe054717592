"""The grammar of SQL: sqlglot in Spark's dialect, and nodes of its trees that are read closed.

A conversion of a node lists the arguments that it reads; a node with any other one is rejected, as
another version of sqlglot may express a part of the text by it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NoReturn

import sqlglot
from sqlglot import Dialect, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, SqlglotError

from pyhudi.errors import UserError
from pyhudi.read.sql.sql_syntax import PARSER_FAULTS
from pyhudi.sql.statements import Name, Tree

_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = {
    "Insert": frozenset({"this", "expression", "overwrite", "by_name"}),
    "Update": frozenset({"this", "expressions", "where"}),
    "Delete": frozenset({"this", "where"}),
    "Merge": frozenset({"this", "using", "on", "whens"}),
    "When": frozenset({"matched", "source", "condition", "then"}),
    "Table": frozenset({"this", "db", "catalog", "alias", "partition"}),
    "Partition": frozenset({"expressions"}),
    "TableAlias": frozenset({"this"}),
}
"""The arguments of nodes of statements that are read here."""
_SPARK_TYPES: Final = frozenset({
    "BIGINT", "BINARY", "BOOLEAN", "BYTE", "CHAR", "CHARACTER", "DATE", "DEC", "DECIMAL", "DOUBLE",
    "FLOAT", "INT", "INTEGER", "LONG", "NUMERIC", "REAL", "SHORT", "SMALLINT", "STRING",
    "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TINYINT", "VARCHAR",
})  # fmt: skip
"""Names of Spark's types of values, of which sqlglot knows more."""
_LEVELS: Final[Mapping[str, int]] = {
    name: level
    for level, names in enumerate((
        "Or", "And", "Not",
        "In Between Is Like ILike RegexpLike RegexpILike LikeAny ILikeAny Escape"
        " NullSafeEQ NullSafeNEQ",
        "EQ NEQ GT GTE LT LTE",
        "BitwiseOr", "BitwiseXor", "BitwiseAnd", "BitwiseLeftShift BitwiseRightShift",
        "Add Sub DPipe", "Mul Div IntDiv Mod", "Neg BitwiseNot",
    ))
    for name in names.split()
}  # fmt: skip
"""Spark's operators; those that bind more tightly have a higher number."""
_PREDICATES: Final = _LEVELS["In"]


@cache
def dialect() -> type[Dialect]:
    """Spark's SQL, in which a quote is also written by doubling it, as in standard SQL.

    Names of types that Spark lacks are no keywords: `int8` is one byte or eight, as one likes.
    """
    known = Spark.Tokenizer.KEYWORDS
    of_spark = {known[name] for name in _SPARK_TYPES if name in known}

    class HudiSql(Spark):
        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012
            KEYWORDS = {  # noqa: RUF012
                name: token
                for name, token in known.items()
                if token not in of_spark or name in _SPARK_TYPES
            }

        # as in Spark 4: a cast that fails is an error
        Parser: Any = type("Parser", (Spark.Parser,), {"STRICT_CAST": True})

    return HudiSql


def tokens_of(text: str) -> list[Any]:
    found: list[Any] = _by_sqlglot(text, lambda: list(sqlglot.tokenize(text, read=dialect())))
    return found


def trees_of(text: str) -> list[Tree]:
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True  # warns of each `Command`
    try:
        found = _by_sqlglot(text, lambda: sqlglot.parse(text, read=dialect()))
    finally:
        logger.disabled = before
    trees = [tree for tree in found if tree is not None]
    for tree in trees:
        for node in tree.walk():
            if isinstance(node, exp.Values):
                _check_kinds(node)
            elif type(node).__name__ in _LEVELS and not _is_assignment(node):
                _check_operands(node)
    return trees


def _is_assignment(node: Tree) -> bool:
    return isinstance(node.parent, exp.Update) and node.arg_key == "expressions"


def _check_operands(node: Tree) -> None:
    """Raise UserError where Spark, which ranks some operators in another way than sqlglot, makes
    other operands of the text or none."""
    level = _LEVELS[type(node).__name__]
    if isinstance(node, exp.NullSafeEQ):
        level = _LEVELS["EQ"]  # `<=>`; as an operand it may be IS NOT DISTINCT FROM
    for argument in ("this", "expression", "low", "high"):
        operand = node.args.get(argument)
        of_operand = _LEVELS.get(type(operand).__name__, 99)
        if isinstance(node, exp.Escape) or level < of_operand:
            continue
        if level > of_operand or argument != "this" or level == _PREDICATES:
            raise UserError(
                "an operand needs parentheses: Spark ranks these operators in another way",
                operand=short(_shown(operand)),
                sql=short(_shown(node)),
            )


def _check_kinds(values: Tree) -> None:
    """Raise UserError for literals of several kinds in a column of VALUES, as Spark does."""
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    for number, column in enumerate(zip(*rows, strict=False), 1):
        kinds = sorted({kind for value in column if (kind := _kind(value))})
        if len(kinds) > 1:
            raise UserError(
                "the rows of VALUES have values of several types in a column",
                column=number,
                types=" and ".join(kinds),
                sql=short(_shown(values)),
                hint="write all values in one type, or cast them",
            )


def _kind(value: Tree) -> str | None:
    """The kind of a literal or cast."""
    value = value.this if isinstance(value, exp.Neg) else value
    if isinstance(value, exp.Boolean):
        return "boolean"
    if isinstance(value, exp.Literal):
        return "text" if value.is_string else "number"
    if isinstance(value, exp.Cast):
        kinds = (
            ("text", exp.DataType.TEXT_TYPES), ("number", exp.DataType.NUMERIC_TYPES),
            ("time", exp.DataType.TEMPORAL_TYPES),
        )  # fmt: skip
        return next((kind for kind, types in kinds if value.to.this in types), None)
    return None


def _by_sqlglot(text: str, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (SqlglotError, *PARSER_FAULTS) as error:
        place: Any = next(iter(getattr(error, "errors", ())), {})
        raise UserError(
            "the text is not valid SQL",
            sql=short(text),
            line=place.get("line"),
            column=place.get("col"),
            near=place.get("highlight"),
            reason=None if place else str(error).partition("\n")[0],
        ) from None
    except RecursionError:
        raise UserError("the SQL text is nested too deeply", sql=short(text)) from None


def after_first(text: str) -> str:
    """The text after its first word."""
    return text[tokens_of(text)[0].end + 1 :]


def short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


def _shown(node: Tree) -> str:
    """A node as text for errors; what Spark's dialect lacks is no matter there."""
    try:
        return str(node.sql(dialect(), unsupported_level=ErrorLevel.IGNORE))
    except PARSER_FAULTS:  # arguments that sqlglot does not expect
        return str(node.key.upper())


def closed(node: Tree, known: frozenset[str] | None = None) -> None:
    """Raise UserError if a node has an argument that its conversion does not read."""
    kind = type(node).__name__
    known = _ARGUMENTS[kind] if known is None else known
    for argument, value in node.args.items():
        if argument not in known and value not in (None, False, []):
            part = _shown(value) if hasattr(value, "sql") else argument
            refuse(node, part=part)


def refuse(
    node: Tree, what: str = "a part of the statement is not supported", **facts: Any
) -> NoReturn:
    """Raise UserError that names a node."""
    raise UserError(what, statement=node.key.upper(), **{"sql": short(_shown(node)), **facts})


def name_of(table: Tree) -> Name:
    """The name of a table in a statement.  Raises UserError for anything else."""
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        refuse(table, "a table is expected here")
    closed(table)
    parts = tuple(part.name for part in table.parts)
    alias = table.args.get("alias")
    if alias is not None:
        closed(alias)
    return Name(parts, alias.name if alias is not None else parts[-1])


def condition(text: str) -> Tree:
    """A condition on rows.  Raises UserError for text that is not one."""
    trees = trees_of(text)
    if len(trees) != 1 or isinstance(trees[0], exp.Query | exp.Command):
        raise UserError("the text is not a condition", sql=short(text))
    return trees[0]


def rendered(tree: Tree, to: str) -> str:
    """A tree as text of an engine's dialect.  Raises UserError for what the engine lacks."""
    try:
        return str(tree.sql(to, unsupported_level=ErrorLevel.RAISE, comments=False))
    except (SqlglotError, *PARSER_FAULTS) as error:
        raise UserError(
            f"the engine does not support a part of the statement: {error}",
            sql=short(_shown(tree)),
        ) from None
    except RecursionError:
        raise UserError("the SQL text is nested too deeply") from None
