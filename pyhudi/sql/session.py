"""`pyhudi.sql` and `pyhudi.connect`: SQL on one machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pyhudi.api.input_conversion import table_name
from pyhudi.errors import UserError
from pyhudi.sql.duckdb_engine import DuckDbEngine
from pyhudi.sql.names import PROPERTIES_FILE, Named, Names
from pyhudi.sql.parse import Parsed, parse
from pyhudi.sql.parse import script as script_lines
from pyhudi.sql.planner import Planner
from pyhudi.storage.url_resolver import locate, path_text

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any] | None


def sql(
    text: str,
    *,
    tables: Mapping[str, Named] | None = None,
    parameters: Parameters = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Run one SQL statement: rows of a query as a `pyarrow.Table`, or the `WriteReport` of a write.

    tables: name -> table, path, or rows (pyarrow, polars, pandas, ...) that queries read; a table
    is also named by hudi.`path`.  parameters: values of `?` in order, or by name of `:name`.
    options: `hoodie.*` keys.  The tables of a statement are read as of its start.
    Raises UserError for text that is not SQL or is not supported, TableNotFoundError for an unknown
    name; else as the methods of `Table` do.

    >>> rows = pyhudi.sql("select sum(fare) as total from trips", tables={"trips": trips})
    >>> rows.to_pylist()
    [{'total': 30.0}]
    """
    return run(text, _planner(tables, None, options, storage_options), parameters)


def connect(
    folder: str | os.PathLike[str],
    *,
    tables: Mapping[str, Named] | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Connection:
    """SQL over the tables in a folder: each child with a `.hoodie` folder is one.

    tables: further names.  options, storage_options: of the tables.
    """
    place = path_text(folder)
    return Connection(_planner(tables, place, options, storage_options))


class Connection:
    """SQL over a folder of tables."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def sql(self, text: str, *, parameters: Parameters = None) -> Any:
        """Run one statement; see `pyhudi.sql`."""
        return run(text, self._planner, parameters)

    @property
    def tables(self) -> list[str]:
        """The names of the folder's tables."""
        return self._planner.names.children()

    def __repr__(self) -> str:
        return f"Connection({self._planner.names.folder!r})"


def tables_at(
    places: Sequence[tuple[str | None, str]],
    options: Mapping[str, Any] | None,
    storage_options: Mapping[str, Any] | None,
) -> Connection:
    """SQL over tables by (name or None, path): None is the last part of the path, or a folder of
    tables.  Raises UserError for two folders, and for two tables of one name."""
    tables: dict[str, Named] = {}
    folder = None
    for name, path in places:
        is_table = locate(path, storage_options=storage_options).exists(PROPERTIES_FILE)
        if name is None and not is_table:
            if folder is not None:
                raise UserError("two paths are no tables", paths=f"{folder}, {path}")
            folder = path
            continue
        known = name or table_name(path)
        if known in tables:
            raise UserError("two tables have one name", table=known, hint="write NAME=PATH")
        tables[known] = path
    return Connection(_planner(tables, folder, options, storage_options))


def _planner(
    tables: Mapping[str, Named] | None,
    folder: str | None,
    options: Mapping[str, Any] | None,
    storage_options: Mapping[str, Any] | None,
) -> Planner:
    return Planner.of(
        lambda given: DuckDbEngine(given, storage_options),
        lambda engine: Names(engine.open, tables or {}, folder, storage_options),
        options,
    )


def run(text: str, planner: Planner, parameters: Parameters = None) -> Any:
    """Run one statement of text."""
    parsed = parse(text)
    return planner.run(parsed.statement, by_name(parsed, parameters))


def by_name(parsed: Parsed, given: Parameters) -> dict[str, Any]:
    """The parameters by name.  Raises UserError for missing and unknown ones."""
    names = parsed.parameters
    if isinstance(given, Mapping):
        found = dict(given)
        takes = "a sequence of values" if parsed.are_positional else None
    elif given is None:
        found, takes = {}, None
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise UserError("parameters must be a sequence or a mapping", parameters=repr(given)[:80])
    else:
        found = {f"p{number}": value for number, value in enumerate(given, 1)}
        takes = None if parsed.are_positional or not found else "a mapping of names to values"
    if takes is not None:
        raise UserError("the statement takes other parameters", hint=f"pass {takes}")
    if names != found.keys():
        raise UserError(
            "the parameters do not match the statement",
            missing=", ".join(sorted(names - found.keys())) or None,
            unknown=", ".join(sorted(found.keys() - names)) or None,
        )
    return {name: as_plain(value) for name, value in found.items()}


def as_plain(value: Any) -> Any:
    """A value as Python has it: scalars of Arrow and numpy as their Python values."""
    for method in ("as_py", "item"):
        if hasattr(value, method) and not hasattr(value, "__len__"):
            return getattr(value, method)()
    return value


__all__ = ["Connection", "by_name", "connect", "run", "script_lines", "sql", "tables_at"]
