"""Reading and writing of rows, shared by the services that rewrite stored rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import SchemaError, UnsupportedTableError
from pyhudi.formats.avro_schema import with_meta_fields
from pyhudi.options import Options
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import META_COLUMNS, InstantTime, with_meta
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import SpillPlace, Staging, spill, staging_folder
from pyhudi.timeline.instant import Instant, State
from pyhudi.write.files.file_plan import FilePlan


@dataclass(frozen=True, slots=True)
class Rewriting:
    """How a service reads slices and writes files.

    stated: the schema in the commit's extra metadata.  spec: every column, by the table's merge
    rules.
    """

    stated: Mapping[str, str]
    plan: FilePlan
    spec: SliceSpec


def rewriting(state: TableState, pending: Instant, options: Options) -> Rewriting:
    """Settings of a service about to start.  Raises SchemaError if no commit has a schema."""
    stated = state.stated()
    if not stated:
        raise SchemaError("no commit of the table has a schema", path=state.fs.url)
    history = state.columns()
    if history is not None and not history.is_current(pending.time):
        raise UnsupportedTableError(
            "the service was planned before columns were renamed or dropped",
            instant=pending.time,
            hint="remove the plan: a new one writes files with the present names",
        )
    columns = pa.schema([f for f in state.schema() if f.name not in META_COLUMNS])
    plan = FilePlan(
        state.fs,
        pending.time,
        columns,
        with_meta_fields(stated["schema"]),
        state.rules,
        options.write.base_file,
        options.write.log_format,
        natural_deletes=False,
        inflight=replace(pending, state=State.INFLIGHT),
        layout=state.config.layout,
    )
    stored = with_meta(columns)
    spec = SliceSpec(stored, tuple(stored.names), state.rules, state.view().visibility)
    return Rewriting(stated, plan, spec)


@contextmanager
def row_spill(
    fs: FileSystem, engine: Engine, instant: InstantTime, *, in_memory: bool
) -> Iterator[Staging]:
    """Where tasks spill rows: memory, the local disk, or the instant's folder (`SpillPlace.of`)."""
    place = SpillPlace.of(fs, shares_memory=engine.shares_memory, in_memory=in_memory)
    with spill(fs, place, f"{staging_folder(instant)}/rows") as staging:
        yield staging
