"""Planning of upgrades of tables of versions 0 to 5 to version 6.

```
nothing pending but failed writes -> metadata table dropped -> failed writes rolled back
-> hoodie.properties of version 6
```

Data files, timeline and archive are not changed.  Until the last step the table keeps its old
version and has no metadata table: an interrupted upgrade is started again.
Source: table_format 1.2, and the upgrade steps of Apache Hudi.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.errors import UserError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.keygen.generators import partition_paths, record_keys
from pyhudi.keygen.table_key_rule import rule_of
from pyhudi.metadata.bootstrap import BEING_BUILT, LISTED
from pyhudi.operations.versions.plan import UpgradeReport, changed_properties
from pyhudi.options import Heartbeats, Options
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import PARTITION_PATH, RECORD_KEY
from pyhudi.recovery.rollback import failed_writes
from pyhudi.table.new_table import new_table_properties
from pyhudi.table.properties import (
    OLDEST_WRITABLE_VERSION,
    PAYLOAD_CLASS,
    KeyGeneratorKind,
    TableConfig,
)
from pyhudi.timeline.instant import Action, Instant

_KEY: Final = "hoodie.table.recordkey.fields"
_PARTITION: Final = "hoodie.table.partition.fields"
_OVERWRITE: Final = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
_NULL_PARTITION: Final = "default"
"""The folder of null partition values before version 5."""
_COMPUTED: Final = frozenset(
    {
        KeyGeneratorKind.SIMPLE,
        KeyGeneratorKind.COMPLEX,
        KeyGeneratorKind.NON_PARTITION,
        KeyGeneratorKind.GLOBAL_DELETE,
    }
)
"""Key generators that need nothing but the columns."""


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Columns that the caller names in case the table's properties do not; empty: not given."""

    record_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """An upgrade.  config: the properties after it.  failed: writes to roll back first."""

    before: TableConfig
    config: TableConfig
    failed: tuple[Instant, ...]
    has_metadata: bool

    def report(self, *, dry_run: bool) -> UpgradeReport:
        return UpgradeReport(
            self.before.version,
            self.config.version,
            changed_properties(self.before, self.config),
            rolled_back=tuple(str(i.time) for i in self.failed),
            metadata_dropped=self.has_metadata,
            dry_run=dry_run,
        )


def check_target(config: TableConfig, to: int) -> None:
    """Raise UserError unless a table of this version can be upgraded to `to`."""
    if to != OLDEST_WRITABLE_VERSION or isinstance(to, bool):
        raise UserError(
            "unsupported target version of an upgrade",
            requested=repr(to)[:80],
            hint=f"upgrade to {OLDEST_WRITABLE_VERSION}",
        )
    if config.version >= to:
        raise UserError(
            "the table needs no upgrade",
            version=config.version,
            hint=f"tables of versions 0 to {OLDEST_WRITABLE_VERSION - 1} can be upgraded",
        )


def plan_upgrade(state: TableState, options: Options, given: KeyColumns) -> UpgradePlan:
    """Plan the upgrade of a table of versions 0 to 5; nothing changes.

    Reads the key columns of one file slice.  Raises UserError for pending instants that are not
    failed writes, for unknown columns, and where a stored row's key or partition path differs from
    the one computed from these columns.
    """
    failed = _failed(state, options.write.concurrency.heartbeats)
    if not options.table.default_partition:
        _check_null_partition(state)
    config = _upgraded(state, given)
    _check_columns(state, config)
    _check_stored_keys(replace(state, config=config), options)
    has_metadata = bool(state.fs.children(METADATA_TABLE))
    return UpgradePlan(state.config, config, failed, has_metadata)


def _failed(state: TableState, heartbeats: Heartbeats) -> tuple[Instant, ...]:
    """Failed writes.  Raises UserError where anything else is pending, except interrupted
    rollbacks."""
    failed = tuple(failed_writes(state.log, state.timeline, heartbeats))
    times = {instant.time for instant in failed}
    others = [
        str(instant)
        for instant in state.timeline.pending
        if instant.time not in times and instant.action is not Action.ROLLBACK
    ]
    if others:
        raise UserError(
            "a table with pending instants cannot be upgraded",
            path=state.fs.url,
            pending=", ".join(others),
            hint="complete them or roll them back with the writer that started them",
        )
    return failed


def _check_null_partition(state: TableState) -> None:
    """As in Apache Hudi: version 5 changed the folder of rows without a partition value."""
    if state.config.version >= 5:
        return
    for path in state.listing.partitions():
        if path.split("/")[0].rpartition("=")[2] == _NULL_PARTITION:
            raise UserError(
                "the folder of rows with null partition values differs from version 5 on",
                partition=path,
                hint="move the rows to another partition, using the writer that wrote them; if it "
                "has no null values, set hoodie.skip.default.partition.validation",
            )


def _upgraded(state: TableState, given: KeyColumns) -> TableConfig:
    """The stated properties, completed with those that version 6 needs."""
    config, stated = state.config, state.config.properties
    paths = [path for path in state.listing.partitions() if path]
    record_key = _agreed("record_key", config.record_key_fields, given.record_key)
    partition_by = _agreed("partition_by", config.partition_fields, given.partition_by)
    ordering = _agreed("ordering", config.ordering_fields, given.ordering)
    missing = [
        name
        for name, is_missing in (
            ("record_key", not record_key),
            ("partition_by", bool(paths) and not partition_by),
        )
        if is_missing
    ]
    if missing:
        raise UserError(
            "the table's properties do not state its key columns",
            path=state.fs.url,
            missing=", ".join(missing),
            hint=f"table.upgrade({missing[0]}=...)",
        )
    fresh = new_table_properties(
        name=config.name,
        table_type=config.table_type,
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        create_schema="",
        # merging does not change: older versions use this payload if they state none
        merge_properties={}
        if config.ordering_fields or not ordering
        else {PAYLOAD_CLASS: _OVERWRITE},
        version=OLDEST_WRITABLE_VERSION,
        hive_style=_is_hive_style(paths, partition_by),
        url_encoded=any(re.search("%[0-9A-Fa-f]{2}", path) for path in paths),
        timezone=config.timezone,
        database=config.database,
    ).properties
    retained = {key: text for key, text in stated.items() if text}
    return TableConfig({**fresh, **retained}).with_properties(
        {
            "hoodie.table.version": str(OLDEST_WRITABLE_VERSION),
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.create.schema": retained.get("hoodie.table.create.schema"),
            LISTED: None,
            BEING_BUILT: None,
        }
    )


def _agreed(name: str, stated: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    if stated and given and stated != given:
        raise UserError(
            f"{name} contradicts the table's properties",
            stated=", ".join(stated),
            given=", ".join(given),
            hint="omit it",
        )
    return stated or given


def _is_hive_style(paths: Sequence[str], partition_by: tuple[str, ...]) -> bool:
    if not paths or not partition_by:
        return False
    return all(path.startswith(f"{partition_by[0]}=") for path in paths)


def _check_columns(state: TableState, config: TableConfig) -> None:
    columns = state.schema().names
    named = (*config.record_key_fields, *config.ordering_fields)
    if config.key_generator in _COMPUTED:  # others may make paths without these columns
        named += config.partition_fields
    unknown = [name for name in named if name.split(".")[0] not in columns]
    if unknown and columns:
        raise UserError(
            "the table has no such columns",
            columns=", ".join(unknown),
            path=state.fs.url,
            hint="name columns of table.schema",
        )


def _check_stored_keys(state: TableState, options: Options) -> None:
    """Raise UserError if a stored key or path differs from the one computed from the columns: later
    writes would not find the rows.  Reads the smallest file slice with rows."""
    config = state.config
    names = (*config.record_key_fields, *config.partition_fields)
    if config.key_generator not in _COMPUTED or any("." in name for name in names):
        return
    view = state.view()
    columns = tuple(dict.fromkeys((RECORD_KEY, PARTITION_PATH, *names)))
    spec = SliceSpec(state.schema(), columns, state.rules, view.visibility)
    for slice_ in sorted(view.latest_slices(), key=lambda each: each.size_bytes):
        rows = read_slice(state.fs, slice_, spec=spec).slice(0, 1)
        if not rows.num_rows:
            continue
        rule = rule_of(state, options, functions=None)
        made = (record_keys(rows, rule)[0].as_py(), partition_paths(rows, rule)[0].as_py())
        stored = (rows[RECORD_KEY][0].as_py(), rows[PARTITION_PATH][0].as_py())
        if made != stored:
            raise UserError(
                "a stored key or partition path differs from the one computed from the columns",
                path=state.fs.url,
                stored=" in ".join(stored),
                computed=" in ".join(made),
                columns=", ".join(names),
                hint="check record_key, partition_by and the properties",
            )
        return
