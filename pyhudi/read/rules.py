"""Which rules merge a table's logs into its base files, out of its properties.

Source: table_format 7.3, 11.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.errors import UnsupportedTableError
from pyhudi.records import RECORD_KEY
from pyhudi.table.config import MergeMode, TableConfig

_BY_STRATEGY: Final = {
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME,
}
_BY_PAYLOAD: Final = {
    "OverwriteWithLatestAvroPayload": MergeMode.COMMIT_TIME,
    "DefaultHoodieRecordPayload": MergeMode.EVENT_TIME,
    "EventTimeAvroPayload": MergeMode.EVENT_TIME,
}
_DELETE_FIELD: Final = "hoodie.payload.delete.field"
_DELETE_MARKER: Final = "hoodie.payload.delete.marker"
_PROPERTY: Final = "hoodie.record.merge.property."


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How records of one key are merged.

    key_column: where the key stands: the meta column, or the key field of a table without meta
    columns.  ordering: columns whose values decide, empty under commit-time order.
    delete_field, delete_marker: a column and the value (as text) that makes a row a delete.
    refused: why logs cannot be merged, or None.
    """

    key_column: str
    ordering: tuple[str, ...] = ()
    delete_field: str | None = None
    delete_marker: str | None = None
    refused: str | None = None

    @property
    def is_event_time(self) -> bool:
        return bool(self.ordering)

    def check(self) -> None:
        """Raise UnsupportedTableError if logs of this table cannot be merged."""
        if self.refused is not None:
            raise UnsupportedTableError(
                self.refused, hint="mode='read_optimized' reads its base files"
            )


def merge_rules(config: TableConfig) -> MergeRules:
    """The rules of a table; never raises, as a table may have no logs to merge."""
    mode, refused = _mode(config)
    key_column, keyless = _key_column(config)
    ordering = config.ordering_fields if mode is MergeMode.EVENT_TIME else ()
    return MergeRules(
        key_column=key_column,
        ordering=ordering,
        delete_field=_property(config, _DELETE_FIELD),
        delete_marker=_property(config, _DELETE_MARKER),
        refused=refused or keyless,
    )


def _property(config: TableConfig, key: str) -> str | None:
    found = config.properties.get(_PROPERTY + key) or config.properties.get(key)
    return found or None


def _mode(config: TableConfig) -> tuple[MergeMode, str | None]:
    partial = config.properties.get("hoodie.table.partial.update.mode")
    if partial and partial.upper() != "NONE":
        return MergeMode.CUSTOM, f"partial updates of mode {partial} are not supported"
    mode = config.merge_mode
    if mode is not MergeMode.CUSTOM:
        return mode, None
    if config.payload_class in _BY_PAYLOAD:
        return _BY_PAYLOAD[config.payload_class], None
    strategy = config.properties.get("hoodie.record.merge.strategy.id") or ""
    if not config.payload_class and strategy in _BY_STRATEGY:
        return _BY_STRATEGY[strategy], None
    name = config.payload_class or f"merge strategy {strategy or 'CUSTOM'}"
    return mode, f"records merged by {name} are not supported"


def _key_column(config: TableConfig) -> tuple[str, str | None]:
    if config.has_meta_columns:
        return RECORD_KEY, None
    match config.record_key_fields:
        case (name,):
            return name, None
        case ():
            return RECORD_KEY, "the table keeps no meta columns and names no record key"
        case _:
            return RECORD_KEY, "virtual keys of several fields are not supported"
