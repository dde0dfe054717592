"""The metadata table made anew beside the old one, then put in its place.

```
.hoodie/.rebuilt_metadata/hoodie.properties   what the table's properties will list
                         /metadata/           the new metadata table
                         /complete            {"after": <newest instant then>}: it may be swapped in
```

build -> complete -> properties list nothing -> old folder gone -> new files copied to their place
-> properties list the new -> this folder gone.  Until `complete` readers and writers use the old
one; from the moment the properties list nothing, readers list the store, which costs them time
and nothing else.  A swap that was cut short is finished by the next writer (`finish_swap`), if no
commit came between.  A store has no folder that can be renamed, so the swap copies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyhudi.engine import Engine
from pyhudi.errors import FileMissingError, IndexNotReadyError
from pyhudi.filenames import METADATA_TABLE, PROPERTIES, PROPERTIES_BACKUP, PROPERTIES_COPY
from pyhudi.metadata.bootstrap import BEING_BUILT, LISTED, KeysOfGroup, create_metadata
from pyhudi.metadata.file_stats.build import create_facts
from pyhudi.metadata.payloads import MetadataPartition
from pyhudi.storage.filesystem import FileSystem
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
    """What the new metadata table is to hold beside the listing.

    shard_count: groups of the record index, None: without one.  keys: the table's record keys,
    asked for once, if there is to be an index.  facts: groups of column statistics and blooms.
    """

    shard_count: int | None = None
    keys: Callable[[], Iterable[KeysOfGroup]] = lambda: ()
    facts: Mapping[MetadataPartition, int] = field(default_factory=dict)


def rebuild_metadata_table(
    fs: FileSystem, config: TableConfig, wanted: RebuildRequest, *, engine: Engine
) -> TableConfig:
    """Build, then swap; the properties as stored then.  The caller holds the table's lock.

    Raises IndexNotReadyError while a write is pending; the old metadata table then stands.
    """
    fs.delete_folder(REBUILT)
    beside = RedirectedFileSystem(
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
        beside,
        bare,
        log,
        shard_count=wanted.shard_count or 1,
        records=None if wanted.shard_count is None else wanted.keys(),
    )
    built = create_facts(beside, built, log, group_counts=wanted.facts, engine=engine)
    fs.create(_COMPLETE, json.dumps({"after": _newest(log)}).encode())
    return _swap(fs, config, built)


def _newest(log: TimelineLog) -> str:
    last = log.load().where(None, State.COMPLETED).last
    return last.time if last else ""


def _swap(fs: FileSystem, config: TableConfig, built: TableConfig) -> TableConfig:
    """Put the new one in the place of the old.  May be repeated from anywhere."""
    listed = built.properties.get(LISTED, "")
    config = store_config(fs, config.with_properties({LISTED: "", BEING_BUILT: ""}))
    fs.delete_folder(METADATA_TABLE)
    for info in files_below(fs, _NEW):
        copy_file(fs, info.path, METADATA_TABLE + info.path[len(_NEW) :])
    config = store_config(fs, config.with_properties({LISTED: listed}))
    fs.delete_folder(REBUILT)
    return config


def is_swap_pending(fs: FileSystem) -> bool:
    """Whether a rebuild was cut short, at whatever point."""
    return bool(fs.children(REBUILT))


def finish_swap(fs: FileSystem, config: TableConfig) -> TableConfig:
    """End a rebuild that was cut short: carried to its end if it had begun to swap, else dropped.

    The caller holds the table's lock and no write is pending.  Cost where there is none: one
    listing.  Raises IndexNotReadyError where the old one is gone and the new one has aged: a
    write went on without them.
    """
    if not is_swap_pending(fs):
        return config
    log = timeline_log(fs, config)
    if config.metadata_partitions:  # nothing was taken away yet, or all is done
        fs.delete_folder(REBUILT)
        return config
    try:
        after = json.loads(fs.read(_COMPLETE))["after"]
    except (FileMissingError, ValueError, KeyError, TypeError):
        fs.delete_folder(REBUILT)
        return config
    if after != _newest(log):
        raise IndexNotReadyError(
            "a rebuild of the metadata table was cut short, and the table has changed since",
            path=fs.url,
            after=after,
            hint="table.metadata.rebuild()",
        )
    built = load_config(RedirectedFileSystem(fs, {PROPERTIES: _PROPERTIES}))
    return _swap(fs, config, built)
