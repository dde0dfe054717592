"""Creation of a table and of empty partitions, from the lock to the first files."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.engine import LOCAL, Engine
from pyhudi.errors import UserError
from pyhudi.filenames import HOODIE
from pyhudi.index.maintenance.partitioned_build import check_partitionable, create_partitioned
from pyhudi.metadata.bootstrap import create_metadata
from pyhudi.metadata.elastic.create import create_elastic
from pyhudi.operations.prepare_write import needed_record_index, with_facts
from pyhudi.options import Options
from pyhudi.records import BEFORE_ALL_INSTANTS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import TableLock
from pyhudi.table.listing import ensure_partition
from pyhudi.table.log import create_timeline_folder, timeline_log
from pyhudi.table.properties import TableConfig, load_config, store_config
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import check_table, table_lock
from pyhudi.write.table_creation import NewTable, config_of


def create(fs: FileSystem, table: NewTable, engine: Engine = LOCAL) -> TableConfig:
    """Create an empty table with its index.  Raises UserError if a table already exists."""
    config = config_of(table)
    records = needed_record_index(table.index, table.options)
    by_partition = records is not None and records.traits.by_partition
    if by_partition:
        check_partitionable(config)
    wait, rules = table.options.write.lock_seconds, table.options.write.lock
    with TableLock(fs, purpose="create", wait_seconds=wait, rules=rules):
        if fs.children(HOODIE) and fs.exists(f"{HOODIE}/hoodie.properties"):
            raise UserError(
                "a table already exists here", path=fs.url, hint="open it with open_table"
            )
        create_timeline_folder(fs, config.layout)
        config = store_config(fs, config)
        if table.index.traits.grows:
            config = create_elastic(fs, config, Timeline(), table.options.write)
        config = create_metadata(
            fs,
            config,
            timeline_log(fs, config),
            bucket_count=table.options.write.bucket_count,
            records=None if records is None or by_partition else (),
        )
        if by_partition:
            config = create_partitioned(fs, config, Timeline())
        return with_facts(fs, config, table.options, engine)


def add_partitions(fs: FileSystem, options: Options, paths: Sequence[str]) -> list[str]:
    """Create the folders of partitions without rows; returns those that are new.

    Reads do not list them before they have rows.  Raises UserError for names that the store does
    not allow, UnsupportedTableError, LockError.
    """
    for path in paths:
        fs.sub(path)
    with table_lock(fs, options.write, "add partitions"):
        check_table(load_config(fs))
        return [path for path in paths if ensure_partition(fs, path, BEFORE_ALL_INSTANTS)]


def check_empty(fs: FileSystem) -> None:
    """Raise UserError for a folder with files that are not of a table."""
    names = [info.name for info in fs.children()]
    others = [name for name in names if not name.startswith((".", "_"))]
    if others and HOODIE not in names:
        raise UserError(
            "the folder of the new table holds other files",
            path=fs.url,
            files=", ".join(sorted(others)[:3]),
            hint="choose another path, or create_table(..., other_files=True)",
        )
