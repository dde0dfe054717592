"""Tables in DuckDB: `attach` makes a view of a snapshot, `sql` runs queries with table functions.

Base files on the local disk are read by DuckDB's own Parquet reader, less the rows that the logs
replace; pyhudi reads the other rows, with the columns and filters of the query.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.api.input_conversion import ScanModeName
from pyhudi.api.table import Table, open_table
from pyhudi.engines.snapshot_parts import CutFile, SnapshotParts, is_native, snapshot_parts
from pyhudi.engines.table_calls import TableCall, identifier, with_views
from pyhudi.read.time_travel import PointInTime

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

NATIVE_FILES_MAX: Final = 2000
"""DuckDB opens all files of a view in each query.  Of tables with more files pyhudi reads the
rows: it opens those that partitions and statistics do not rule out."""

_RESERVED: Final = frozenset({"filename", "file_row_number", "file_index", "__pyhudi_file"})
_GLOB: Final = frozenset("*?[]{}")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A view of a snapshot.  native_files: base files that DuckDB reads; other_slices: file slices
    of which pyhudi reads rows."""

    name: str
    native_files: int
    other_slices: int


def attach(
    con: DuckDBPyConnection,
    table: Table | str | os.PathLike[str],
    name: str | None = None,
    *,
    as_of: PointInTime | None = None,
    mode: ScanModeName = "snapshot",
    with_meta: bool = False,
    reader: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
) -> Attachment:
    """Create or replace a temporary view of a table's snapshot.

    table: a table, its path or URL.  name: of the view; None: the table's name.  as_of and mode:
    as for `Table.scan`.  reader: "auto", or "arrow" to have pyhudi read all rows, so that
    partitions and files are skipped by the table's indexes and statistics.  Queries see the
    snapshot of the call; attach again for a newer one.  Reads the footers of base files and merges
    the keys of logs.  Raises as `open_table` and `Table.scan` do, and UserError for another reader.
    """
    by_engine = is_native(reader)
    opened = _opened(table, storage_options)
    scan = opened.scan(as_of=as_of, mode=mode, with_meta=with_meta).pinned()
    native = by_engine and len(scan.tasks) <= NATIVE_FILES_MAX and _reads_files(con)
    parts = snapshot_parts(scan, native=native)
    if not _is_readable(con, parts):
        parts = snapshot_parts(scan, native=False)
    view = opened.config.name if name is None else name
    _create(con, view, parts)
    return Attachment(
        view, len(parts.whole) + len(parts.cut), len(parts.rest.tasks) if parts.rest else 0
    )


def sql(
    con: DuckDBPyConnection,
    query: str,
    *,
    parameters: Any = None,
    tables: Mapping[str, Table] | None = None,
) -> DuckDBPyRelation:
    """Run a query with the table functions

    `pyhudi_scan('path', as_of := '2026-11-21')`: a snapshot; also `mode` and `with_meta`.
    `pyhudi_changes('path', '20261121093000000')`: rows written since an instant; also `until`.
    `pyhudi_lookup('path', ['key1', 'key2'])`: the rows with these keys, by the table's index.

    Their arguments are constants.  tables: tables by name, for calls with the name instead of a
    path.  Raises UserError for wrong arguments, and as `open_table` does.
    """
    text = with_views(query, lambda call: _view_of(con, call, tables or {}))
    return con.sql(text) if parameters is None else con.sql(text, params=parameters)


def _opened(
    table: Table | str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> Table:
    if isinstance(table, Table):
        return table
    return open_table(table, storage_options=storage_options)


def _view_of(con: DuckDBPyConnection, call: TableCall, tables: Mapping[str, Table]) -> str:
    """The view of a call; an existing one if the table has not changed."""
    table = tables.get(call.table) or open_table(call.table)
    newest = table.timeline.commits.last
    facts = (call.function, table.path, sorted(call.arguments.items()), newest)
    name = f"{call.function}_{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"
    known = con.sql(f"select 1 from duckdb_views() where view_name = '{name}'").fetchall()
    if not known:
        _create_call(con, name, call, table)
    return name


def _create_call(con: DuckDBPyConnection, name: str, call: TableCall, table: Table) -> None:
    given = {key: value for key, value in call.arguments.items() if key != "table"}
    if call.function == "pyhudi_scan":
        attach(con, table, name, **given)
    elif call.function == "pyhudi_changes":
        changes = table.changes(**{"with_meta": False, **given})
        con.register(name, changes.to_pyarrow_dataset())
    else:
        keys = given["keys"]
        con.register(name, table.fetch(keys, table.to_pyarrow_dataset().schema.names))


def _reads_files(con: DuckDBPyConnection) -> bool:
    found = con.sql("select current_setting('enable_external_access')").fetchall()
    return bool(found[0][0])


def _is_readable(con: DuckDBPyConnection, parts: SnapshotParts) -> bool:
    """Whether DuckDB's reader of files gives columns the names and types that Arrow gives them."""
    paths = [*parts.whole, *(file.path for file in parts.cut)]
    if not paths:
        return True
    names = [name.lower() for name in parts.schema.names]
    if len(set(names)) < len(names) or _RESERVED.intersection(names):
        return False
    if any(_GLOB.intersection(path) for path in paths):
        return False
    con.register("__pyhudi_types", parts.schema.empty_table())
    columns = _columns(parts.schema)
    by_arrow = con.sql(f"describe select {columns} from __pyhudi_types").fetchall()
    by_file = con.sql(f"describe select {columns} from {_files(paths[:1])}").fetchall()
    con.unregister("__pyhudi_types")
    return [row[:2] for row in by_arrow] == [row[:2] for row in by_file]


def _create(con: DuckDBPyConnection, view: str, parts: SnapshotParts) -> None:
    columns = _columns(parts.schema)
    selects = []
    if parts.whole:
        selects.append(f"select {columns} from {_files(parts.whole)}")
    if parts.cut:
        _create_masks(con, f"__pyhudi_masks_{view}", parts.cut)
        paths = [file.path for file in parts.cut]
        selects.append(
            f"select {columns} from {_files(paths, numbered=True)} "
            f"join {identifier(f'__pyhudi_masks_{view}')} on __pyhudi_file = __pyhudi_path "
            "where get_bit(__pyhudi_mask, file_row_number::int) = 0"
        )
    if parts.rest is not None or not selects:
        rest = f"__pyhudi_rest_{view}"
        source = parts.schema.empty_table() if parts.rest is None else parts.rest.dataset()
        con.register(rest, source)
        selects.append(f"select {columns} from {identifier(rest)}")
    con.execute(f"create or replace temp view {identifier(view)} as {' union all '.join(selects)}")


def _create_masks(con: DuckDBPyConnection, name: str, files: tuple[CutFile, ...]) -> None:
    """A temporary table of one bit string for each file: its replaced rows."""
    packed = [np.packbits(file.mask).tobytes() for file in files]
    masks = pa.table({"path": [file.path for file in files], "mask": pa.array(packed, pa.binary())})
    con.register("__pyhudi_packed", masks)
    con.execute(
        f"create or replace temp table {identifier(name)} as "
        "select path as __pyhudi_path, mask::bit as __pyhudi_mask from __pyhudi_packed"
    )
    con.unregister("__pyhudi_packed")


def _files(paths: list[str] | tuple[str, ...], *, numbered: bool = False) -> str:
    """A call of `read_parquet`, which returns the columns as stored."""
    texts = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    numbers = ", filename='__pyhudi_file', file_row_number=true" if numbered else ""
    return f"read_parquet([{texts}], hive_partitioning=false{numbers})"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(map(identifier, schema.names))
