"""Rebuild of the metadata table: built next to the current one, then swapped in.

```
.hoodie/.rebuilt_metadata/hoodie.properties   the properties after the swap
                         /metadata/           the new metadata table
                         /complete            {"after": <newest instant then>}: ready for the swap
```

build -> write `complete` -> properties list no partitions, and those of the rebuild as being built
-> delete the old folder -> copy the new files -> properties list the new partitions -> delete this
folder.  Before the swap readers and writers use the old metadata table; while the properties list
no partitions, readers list the store, which is slower but correct.  The next transaction finishes
an interrupted swap (`finish_swap`), if there was no commit since; otherwise the properties still
say what a rebuild has to build.  Object stores cannot rename folders, so the swap copies files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyhudi.engine import Engine
from pyhudi.errors import FileMissingError, IndexNotReadyError
from pyhudi.filenames import METADATA_TABLE, PROPERTIES, PROPERTIES_BACKUP, PROPERTIES_COPY
from pyhudi.metadata.bootstrap import (
    BEING_BUILT,
    LISTED,
    KeysOfGroup,
    create_metadata,
    joined,
    partitions_being_built,
)
from pyhudi.metadata.file_stats.build import create_facts
from pyhudi.metadata.payloads import FILES, MetadataPartition
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.storage.path_remap import RedirectedFileSystem, copy_file, files_below
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config, store_config
from pyhudi.timeline.instant import State
from pyhudi.timeline.instant_files import TimelineLog

REBUILT: Final = ".hoodie/.rebuilt_metadata"
_NEW: Final = f"{REBUILT}/metadata"
_PROPERTIES: Final = f"{REBUILT}/hoodie.properties"
_COMPLETE: Final = f"{REBUILT}/complete"


@dataclass(frozen=True)
class RebuildRequest:
    """Contents of the new metadata table in addition to `files`.

    stated: all partitions that the caller builds, also those that it adds after the swap.
    bucket_count: groups of the record index; None: no record index.  keys: returns the table's
    record keys; called once, only for a record index.  facts: number of groups of `column_stats`
    and `bloom_filters`.
    """

    stated: frozenset[str]
    bucket_count: int | None = None
    keys: Callable[[], Iterable[KeysOfGroup]] = lambda: ()
    facts: Mapping[MetadataPartition, int] = field(default_factory=dict)


def rebuild_metadata_table(
    fs: FileSystem, config: TableConfig, request: RebuildRequest, *, engine: Engine
) -> TableConfig:
    """Build and swap; returns the stored properties.  The caller holds the table's lock.

    Raises IndexNotReadyError while a write is pending; the old metadata table then stays in use.
    """
    fs.delete_folder(REBUILT)
    redirected = RedirectedFileSystem(
        fs,
        {
            METADATA_TABLE: _NEW,
            PROPERTIES: _PROPERTIES,
            PROPERTIES_BACKUP: f"{_PROPERTIES}.backup",
            PROPERTIES_COPY: f"{_PROPERTIES}.copy",
        },
    )
    bare = config.with_properties({LISTED: "", BEING_BUILT: ""})
    log = timeline_log(fs, config)
    built = create_metadata(
        redirected,
        bare,
        log,
        bucket_count=request.bucket_count or 1,
        records=None if request.bucket_count is None else request.keys(),
    )
    built = create_facts(redirected, built, log, group_counts=request.facts, engine=engine)
    check_lock(fs)
    fs.create(_COMPLETE, json.dumps({"after": _newest(log)}).encode())
    stated = request.stated | built.metadata_partitions
    return _swap(fs, config.with_properties({BEING_BUILT: joined(stated)}), built)


def _newest(log: TimelineLog) -> str:
    last = log.load().where(None, State.COMPLETED).last
    return last.time if last else ""


def _swap(fs: FileSystem, config: TableConfig, built: TableConfig) -> TableConfig:
    """Replace the old metadata table with the new one.  May be repeated after any interruption.

    config: states what is being built, if the caller adds partitions after the swap.  Raises
    LockError, before each step that another holder of the table's lock could not stand.
    """
    listed = built.metadata_partitions
    stated = partitions_being_built(config) | listed
    check_lock(fs)
    config = store_config(fs, config.with_properties({LISTED: "", BEING_BUILT: joined(stated)}))
    check_lock(fs)
    fs.delete_folder(METADATA_TABLE)
    check_lock(fs)
    for info in files_below(fs, _NEW):
        copy_file(fs, info.path, METADATA_TABLE + info.path[len(_NEW) :])
    check_lock(fs)
    left = {LISTED: joined(listed), BEING_BUILT: joined(stated - listed)}
    config = store_config(fs, config.with_properties(left))
    fs.delete_folder(REBUILT)
    return config


def is_swap_pending(fs: FileSystem) -> bool:
    """Whether a rebuild was interrupted, at any point."""
    return bool(fs.children(REBUILT))


def finish_swap(fs: FileSystem, config: TableConfig) -> TableConfig:
    """Finish an interrupted rebuild if its swap had begun, otherwise discard it.

    The caller holds the table's lock and no failed write is pending.  Cost without a rebuild: one
    listing.  Raises IndexNotReadyError where the old metadata table is gone and the new one is
    incomplete, or outdated because the table has had a commit since.
    """
    is_begun = is_swap_begun(config)
    if not is_begun and not is_swap_pending(fs):
        return config
    after = None if config.metadata_partitions else _completed_after(fs)
    if after is not None and after == _newest(timeline_log(fs, config)):
        built = load_config(RedirectedFileSystem(fs, {PROPERTIES: _PROPERTIES}))
        return _swap(fs, config, built)
    if is_begun:
        raise IndexNotReadyError(
            "a rebuild of the metadata table was interrupted",
            path=fs.url,
            partitions=joined(partitions_being_built(config)),
            hint="run table.metadata.rebuild() or pyhudi metadata rebuild",
        )
    fs.delete_folder(REBUILT)
    return config


def is_swap_begun(config: TableConfig) -> bool:
    """Whether the properties list no metadata table because a rebuild was interrupted.

    `files` alone is what a first writer builds, also Apache Hudi's.
    """
    return not config.metadata_partitions and bool(partitions_being_built(config) - {FILES.path})


def _completed_after(fs: FileSystem) -> str | None:
    """The newest instant of the table when the new metadata table was complete; None: it is not."""
    try:
        return str(json.loads(fs.read(_COMPLETE))["after"])
    except (FileMissingError, ValueError, KeyError, TypeError):
        return None
