"""Upgrade of tables of versions 0 to 5 to version 6: what there is to do, and what prevents it.

```
nothing pending but failed writes -> metadata table dropped -> failed writes rolled back
-> hoodie.properties of version 6
```

Data files, timeline and archive stay as they are.  Until the last step the table is one of its old
version, without a metadata table: an upgrade that was cut short is started again.
Source: table_format 1.2, and the upgrade steps of Apache Hudi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.errors import UserError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.keygen.generators import partition_paths, record_keys
from pyhudi.keygen.table_key_rule import rule_of
from pyhudi.metadata.bootstrap import BEING_BUILT, LISTED
from pyhudi.options import Heartbeats, Options
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import PARTITION_PATH, RECORD_KEY
from pyhudi.reports import Report
from pyhudi.table.properties import (
    WRITABLE_VERSION,
    KeyGeneratorKind,
    TableConfig,
    new_table_properties,
)
from pyhudi.timeline.instant import Action, Instant
from pyhudi.transaction.rollback import failed_writes

_KEY: Final = "hoodie.table.recordkey.fields"
_PARTITION: Final = "hoodie.table.partition.fields"
_PAYLOAD: Final = "hoodie.compaction.payload.class"
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
    """Columns that the caller names because the table's properties may not; empty: not given."""

    record_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpgradeReport(Report):
    """What an upgrade changed, or (dry_run) would change.

    properties: those set, and (None) removed.  rolled_back: instants of failed writes.
    """

    from_version: int
    to_version: int
    properties: Mapping[str, str | None]
    rolled_back: tuple[str, ...] = ()
    metadata_dropped: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """config: the properties after the upgrade.  failed: writes to roll back before."""

    before: TableConfig
    config: TableConfig
    failed: tuple[Instant, ...]
    has_metadata: bool

    def report(self, *, dry_run: bool) -> UpgradeReport:
        old, new = self.before.properties, self.config.properties
        changes = {
            key: new.get(key) for key in sorted({*old, *new}) if old.get(key) != new.get(key)
        }
        return UpgradeReport(
            self.before.version, self.config.version, changes,
            rolled_back=tuple(str(i.time) for i in self.failed),
            metadata_dropped=self.has_metadata, dry_run=dry_run,
        )  # fmt: skip


def check_target(config: TableConfig, to: int) -> None:
    """Raise UserError unless a table of this version can be upgraded to `to`."""
    if to != WRITABLE_VERSION or isinstance(to, bool):
        raise UserError(
            "tables are upgraded to one version only", asked_for=repr(to)[:80],
            hint=f"upgrade to {WRITABLE_VERSION}",
        )  # fmt: skip
    if config.version >= to:
        raise UserError(
            "the table needs no upgrade", version=config.version,
            hint=f"tables of versions 0 to {WRITABLE_VERSION - 1} are upgraded",
        )  # fmt: skip


def plan_upgrade(state: TableState, options: Options, given: KeyColumns) -> UpgradePlan:
    """What the upgrade of a table of versions 0 to 5 does; nothing changes.

    Reads the key columns of one file slice.  Raises UserError for pending instants that are no
    failed writes, for columns that are not known, and where rows have other keys than these
    columns give.
    """
    failed = _failed(state, options.write.concurrency.heartbeats)
    _check_null_partition(state)
    config = _upgraded(state, given)
    _check_columns(state, config)
    _check_stored_keys(replace(state, config=config), options)
    has_metadata = bool(state.fs.children(METADATA_TABLE))
    return UpgradePlan(state.config, config, failed, has_metadata)


def _failed(state: TableState, heartbeats: Heartbeats) -> tuple[Instant, ...]:
    """Failed writes.  Raises UserError where anything else is pending, except rollbacks that were
    cut short."""
    failed = tuple(failed_writes(state.log, state.timeline, heartbeats))
    times = {instant.time for instant in failed}
    others = [
        str(instant)
        for instant in state.timeline.pending
        if instant.time not in times and instant.action is not Action.ROLLBACK
    ]
    if others:
        raise UserError(
            "a table with pending instants cannot be upgraded", path=state.fs.url,
            pending=", ".join(others),
            hint="complete them or roll them back with the writer that began them",
        )  # fmt: skip
    return failed


def _check_null_partition(state: TableState) -> None:
    """As Apache Hudi: rows without a partition value are in another folder from version 5 on."""
    if state.config.version >= 5:
        return
    for path in state.listing.partitions():
        if path.split("/")[0].rpartition("=")[2] == _NULL_PARTITION:
            raise UserError(
                "rows of null partition values are in another folder from version 5 on",
                partition=path,
                hint="write the rows of this partition to another one, with the writer they are of",
            )


def _upgraded(state: TableState, given: KeyColumns) -> TableConfig:
    """The properties as they are, with what version 6 needs and they do not state."""
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
            "the table's properties do not state its key columns", path=state.fs.url,
            missing=", ".join(missing), hint=f"table.upgrade({missing[0]}=...)",
        )  # fmt: skip
    fresh = new_table_properties(
        name=config.name,
        table_type=config.table_type,
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        create_schema="",
        # merging stays as it is: older versions merge so where they do not state how
        merge_properties={} if config.ordering_fields or not ordering else {_PAYLOAD: _OVERWRITE},
        hive_style=_is_hive_style(paths, partition_by),
        url_encoded=any(re.search("%[0-9A-Fa-f]{2}", path) for path in paths),
        timezone=config.timezone,
        database=config.database,
    ).properties
    kept = {key: text for key, text in stated.items() if text}
    return TableConfig({**fresh, **kept}).with_properties(
        {
            "hoodie.table.version": str(WRITABLE_VERSION),
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.create.schema": kept.get("hoodie.table.create.schema"),
            LISTED: None,
            BEING_BUILT: None,
        }
    )


def _agreed(name: str, stated: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    if stated and given and stated != given:
        raise UserError(
            f"{name} contradicts the table's properties", stated=", ".join(stated),
            given=", ".join(given), hint="leave it out",
        )  # fmt: skip
    return stated or given


def _is_hive_style(paths: Sequence[str], partition_by: tuple[str, ...]) -> bool:
    if not paths or not partition_by:
        return False
    return all(path.startswith(f"{partition_by[0]}=") for path in paths)


def _check_columns(state: TableState, config: TableConfig) -> None:
    columns = state.schema().names
    named = (*config.record_key_fields, *config.partition_fields, *config.ordering_fields)
    unknown = [name for name in named if name.split(".")[0] not in columns]
    if unknown and columns:
        raise UserError(
            "the table has no such columns", columns=", ".join(unknown), path=state.fs.url,
            hint="name columns of table.schema",
        )  # fmt: skip


def _check_stored_keys(state: TableState, options: Options) -> None:
    """Raise UserError if a stored row has another key or path than the columns give: later writes
    would not find the rows.  Reads the smallest file slice with rows."""
    config = state.config
    names = (*config.record_key_fields, *config.partition_fields)
    if config.key_generator not in _COMPUTED or any("." in name for name in names):
        return
    view = state.view()
    columns = tuple(dict.fromkeys((RECORD_KEY, PARTITION_PATH, *names)))
    spec = SliceSpec(state.schema(), columns, state.rules, view.visibility)
    for piece in sorted(view.latest_slices(), key=lambda each: each.size_bytes):
        rows = read_slice(state.fs, piece, spec=spec).slice(0, 1)
        if not rows.num_rows:
            continue
        rule = rule_of(state, options, functions=None)
        made = (record_keys(rows, rule)[0].as_py(), partition_paths(rows, rule)[0].as_py())
        stored = (rows[RECORD_KEY][0].as_py(), rows[PARTITION_PATH][0].as_py())
        if made != stored:
            raise UserError(
                "a stored row has another key than its columns give", path=state.fs.url,
                stored=" in ".join(stored), computed=" in ".join(made),
                columns=", ".join(names), hint="check record_key, partition_by and the properties",
            )  # fmt: skip
        return


__all__ = ["KeyColumns", "UpgradePlan", "UpgradeReport", "check_target", "plan_upgrade"]
