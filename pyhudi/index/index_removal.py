"""Removal of indexes of the metadata table.

```
partition no longer listed -> its folder deleted -> definition removed
```

An interrupted removal leaves a partition or a definition that is not in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.errors import UserError
from pyhudi.metadata.bootstrap import unlist
from pyhudi.metadata.definitions import remove_definition
from pyhudi.metadata.payloads import (
    COLUMN_STATS,
    EXPRESSION_PREFIX,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_PREFIX,
    MetadataPartition,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.table.properties import TableConfig

_SHORT_NAMES: Final = {"record": RECORD_INDEX.path}
_PREFIXES: Final = ("", SECONDARY_PREFIX, EXPRESSION_PREFIX)
_NEEDED_BY: Final[Mapping[str, str]] = {
    COLUMN_STATS.path: PARTITION_STATS.path,
    RECORD_INDEX.path: SECONDARY_PREFIX,
}
"""Prefix of the partitions that a write computes from another one."""


def index_to_remove(state: TableState, name: str) -> str:
    """The metadata partition of an index.

    name: with or without the prefix of its kind.  Raises UserError where the table has no such
    index, or another index needs it.
    """
    listed = sorted(state.config.metadata_partitions - {FILES.path})
    known = (_SHORT_NAMES.get(name, name), *(prefix + name for prefix in _PREFIXES))
    found = next((each for each in known if each in listed), None)
    if found is None:
        raise UserError(
            "the table has no such index", name=name, hint=f"it has {', '.join(listed) or 'none'}"
        )
    needed_by = _NEEDED_BY.get(found)
    others = [each for each in listed if needed_by and each.startswith(needed_by)]
    if others:
        raise UserError(
            "another index needs this one", name=found, needed_by=",".join(others),
            hint=f"drop {others[0]} first",
        )  # fmt: skip
    return found


def remove_index(state: TableState, name: str) -> TableConfig:
    """Remove a metadata partition; returns the stored properties.  The caller holds the table's
    lock."""
    config = unlist(state.fs, state.config, MetadataPartition(name, ""))
    return remove_definition(state.fs, config, name)
