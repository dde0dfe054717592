"""New tables of a given version, and what their writes report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import Engine, LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.url_resolver import locate
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from pyhudi.write.write_report import WriteReport


def end_of(report: WriteReport) -> str:
    """The time of a write that ranges of changes are compared with, in any table version."""
    assert report.instant is not None
    return str(report.completed_at or report.instant)


def new_table(
    path: Any,
    version: int,
    schema: pa.Schema,
    *,
    kind: str = "cow",
    partition_by: tuple[str, ...] = (),
    ordering: tuple[str, ...] = (),
    options: dict[str, str] | None = None,
    engine: Engine | None = None,
) -> Table:
    """An empty table with record key `id`."""
    fs = locate(path)
    parsed = parse_options(options or {})
    parsed = replace(parsed, table=replace(parsed.table, version=version))
    types = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ}
    create(fs, NewTable(schema, "t", types[kind], ("id",), partition_by, ordering, parsed))
    return Table(fs, options=parsed, engine=engine or LocalEngine(2))
