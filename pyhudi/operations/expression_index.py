"""Creation of expression indexes, from the lock to the report."""

from __future__ import annotations

from pyhudi.engine import Engine
from pyhudi.index.expression_build import (
    ExpressionRequest,
    create_expression_index,
    new_expression,
)
from pyhudi.index.index_creation import IndexCreation
from pyhudi.metadata.expression_index.build import GROUPS
from pyhudi.metadata.writer import check_writable
from pyhudi.operations.table_services import alone
from pyhudi.options import Options
from pyhudi.read.table_snapshot import load_state
from pyhudi.storage.filesystem import FileSystem


def create_on_expression(
    fs: FileSystem,
    options: Options,
    engine: Engine,
    request: ExpressionRequest,
    *,
    dry_run: bool = False,
) -> IndexCreation:
    """Create an expression index for the files of the table."""
    if dry_run:
        state = load_state(fs, options.read)
        check_writable(state.config)
        index = new_expression(state, request)
        version = f"V{index.version}"
        return IndexCreation(index.name, index.column, version, GROUPS, 0, dry_run=True)
    with alone(fs, options, "create index") as state:
        return create_expression_index(state, new_expression(state, request), engine)
