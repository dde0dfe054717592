"""The payload classes and merge strategies of Apache Hudi, and their merge semantics.

`PAYLOADS` is the only list of their names: `merge_rules` uses it for existing tables, and
`merge_choice` for the properties of new tables.  Source: table_format 1.5, 7.3, 11.1;
writer_v8_v9 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pyhudi.table.properties import CUSTOM_ID, EVENT_TIME_ID, MergeMode

STRATEGIES: Final = {
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
    EVENT_TIME_ID: MergeMode.EVENT_TIME,
    CUSTOM_ID: MergeMode.CUSTOM,  # by the payload class
}
"""Merge strategies by their id."""

PYTHON: Final = "python:"
"""Prefix of the strategy of a table whose records a Python function merges."""

DELETE_FIELD: Final = "hoodie.payload.delete.field"
DELETE_MARKER: Final = "hoodie.payload.delete.marker"
PROPERTY: Final = "hoodie.record.merge.property."
STRATEGY: Final = "hoodie.record.merge.strategy.id"
UNAVAILABLE_VALUE: Final = "hoodie.write.partial.update.unavailable.value"
PARTIAL_MODE: Final = "hoodie.table.partial.update.mode"
_MODELS: Final = "org.apache.hudi.common.model."


class Keeps(Enum):
    """Which values of the greater of two rows are replaced by the other row's."""

    NOTHING = "nothing"
    NULLS = "nulls"
    ABSENT = "absent"  # columns that a partial update does not set: see `partial_updates`
    UNAVAILABLE = "unavailable"  # the text that represents "not in this event"


@dataclass(frozen=True, slots=True)
class DeleteMark:
    """A column, and the value (as text) that makes a row a delete."""

    column: str
    value: str
    any_case: bool = False


class PartialMode(Enum):
    """Which values of the greater record are replaced by the other record's (version 9)."""

    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class ModeForm:
    """The merge mode and properties that replace a payload class from table version 9 on.

    ordering: fixed ordering columns.  mark: the property pair of a delete.
    """

    mode: MergeMode
    partial: PartialMode | None = None
    ordering: tuple[str, ...] = ()
    mark: DeleteMark | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    """The merge semantics of a payload class.

    mode: the equivalent merge mode, CUSTOM if there is none.  form: the equivalent properties of
    version 9, None if there are none.  by_time: stored and new records are compared.  ordering:
    fixed ordering columns, which override the table's.  Other fields are as in MergeRules.
    """

    mode: MergeMode = MergeMode.CUSTOM
    form: ModeForm | None = None
    by_time: bool = True
    package: str = _MODELS
    ordering: tuple[str, ...] = ()
    marks: tuple[DeleteMark, ...] = ()
    sequence: bool = False
    first_of_equals: bool = False
    keeps: Keeps = Keeps.NOTHING
    beneath: bool = False
    defaults: bool = False  # schema default values are replaced, too


UNAVAILABLE_TEXT: Final = "__debezium_unavailable_value"
_DEBEZIUM: Final = (DeleteMark("_change_operation_type", "d", any_case=True),)
_CHANGE: Final = DeleteMark("_change_operation_type", "d")
_COMMIT_TIME: Final = ModeForm(MergeMode.COMMIT_TIME)
_EVENT_TIME: Final = ModeForm(MergeMode.EVENT_TIME)

PAYLOADS: Final[Mapping[str, Payload]] = {
    "OverwriteWithLatestAvroPayload": Payload(MergeMode.COMMIT_TIME, _COMMIT_TIME, by_time=False),
    "DefaultHoodieRecordPayload": Payload(MergeMode.EVENT_TIME, _EVENT_TIME),
    "EventTimeAvroPayload": Payload(MergeMode.EVENT_TIME, _EVENT_TIME),
    "FirstValueAvroPayload": Payload(first_of_equals=True),
    "PartialUpdateAvroPayload": Payload(
        form=ModeForm(MergeMode.EVENT_TIME, PartialMode.IGNORE_DEFAULTS),
        keeps=Keeps.NULLS, beneath=True,
    ),
    "OverwriteNonDefaultsWithLatestAvroPayload": Payload(
        form=ModeForm(MergeMode.COMMIT_TIME, PartialMode.IGNORE_DEFAULTS),
        by_time=False, keeps=Keeps.NULLS, defaults=True,
    ),
    "AWSDmsAvroPayload": Payload(
        form=ModeForm(MergeMode.COMMIT_TIME, mark=DeleteMark("Op", "D")),
        by_time=False, marks=(DeleteMark("Op", "d", any_case=True),),
    ),
    "MySqlDebeziumAvroPayload": Payload(
        form=ModeForm(
            MergeMode.EVENT_TIME, ordering=("_event_bin_file", "_event_pos"), mark=_CHANGE
        ),
        package=_MODELS + "debezium.", ordering=("_event_seq",), marks=_DEBEZIUM, sequence=True,
    ),
    "PostgresDebeziumAvroPayload": Payload(
        form=ModeForm(
            MergeMode.EVENT_TIME, PartialMode.FILL_UNAVAILABLE, ("_event_lsn",), _CHANGE
        ),
        package=_MODELS + "debezium.", ordering=("_event_lsn",), marks=_DEBEZIUM,
        keeps=Keeps.UNAVAILABLE,
    ),
}  # fmt: skip
"""Payload classes by their short name."""


def function_name(function: Callable[..., Any]) -> str:
    """The name of a merge function in a table's properties."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))
