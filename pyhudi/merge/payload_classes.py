"""The payload classes and merge strategies of Apache Hudi, and their merge semantics.

`PAYLOADS` is the only list of their names: `merge_rules` uses it for existing tables, and
`merge_choice` for the properties of new tables.  Source: table_format 1.5, 7.3, 11.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pyhudi.errors import OptionError, SchemaError
from pyhudi.options import Merging, TableOptions
from pyhudi.table.properties import MergeMode

STRATEGIES: Final = {
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME,
}
"""Merge strategies by their id."""

_ANY_PAYLOAD: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
"""The id that releases before 1.0 store for every payload class."""

PYTHON: Final = "python:"
"""Prefix of the strategy of a table whose records a Python function merges."""

DELETE_FIELD: Final = "hoodie.payload.delete.field"
DELETE_MARKER: Final = "hoodie.payload.delete.marker"
PROPERTY: Final = "hoodie.record.merge.property."
STRATEGY: Final = "hoodie.record.merge.strategy.id"
_MODE: Final = "hoodie.record.merge.mode"
_PAYLOAD: Final = "hoodie.compaction.payload.class"
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


@dataclass(frozen=True, slots=True)
class Payload:
    """The merge semantics of a payload class.

    mode: the equivalent merge mode, CUSTOM if there is none.  by_time: stored and new records are
    compared.  ordering: fixed ordering columns, which override the table's.  Other fields are as
    in MergeRules.
    """

    mode: MergeMode = MergeMode.CUSTOM
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

PAYLOADS: Final[Mapping[str, Payload]] = {
    "OverwriteWithLatestAvroPayload": Payload(MergeMode.COMMIT_TIME, by_time=False),
    "DefaultHoodieRecordPayload": Payload(MergeMode.EVENT_TIME),
    "EventTimeAvroPayload": Payload(MergeMode.EVENT_TIME),
    "FirstValueAvroPayload": Payload(first_of_equals=True),
    "PartialUpdateAvroPayload": Payload(keeps=Keeps.NULLS, beneath=True),
    "OverwriteNonDefaultsWithLatestAvroPayload": Payload(
        by_time=False, keeps=Keeps.NULLS, defaults=True
    ),
    "AWSDmsAvroPayload": Payload(by_time=False, marks=(DeleteMark("Op", "d", any_case=True),)),
    "MySqlDebeziumAvroPayload": Payload(
        package=_MODELS + "debezium.", ordering=("_event_seq",), marks=_DEBEZIUM, sequence=True
    ),
    "PostgresDebeziumAvroPayload": Payload(
        package=_MODELS + "debezium.", ordering=("_event_lsn",), marks=_DEBEZIUM,
        keeps=Keeps.UNAVAILABLE,
    ),
}  # fmt: skip
"""Payload classes by their short name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The merge rules of a new table: its properties and its ordering columns."""

    properties: Mapping[str, str]
    ordering: tuple[str, ...]


def merge_choice(
    table: TableOptions, merging: Merging, ordering: tuple[str, ...], columns: Collection[str]
) -> Choice:
    """The requested merge rules of a table with these columns.

    Raises OptionError for a class, mode or strategy that is unknown or contradicts another option,
    SchemaError for a missing column.
    """
    properties = _delete_properties(merging, columns)
    if merging.function is not None:
        return Choice({**properties, **_by_function(table, merging.function, ordering)}, ordering)
    name, payload = _payload(table, ordering)
    absent = [column for column in payload.ordering if column not in columns]
    if absent:
        raise SchemaError(
            "an ordering column of the payload class is not in the schema", payload=name,
            columns=", ".join(absent),
        )  # fmt: skip
    properties[_PAYLOAD] = payload.package + name
    return Choice(properties, ordering or payload.ordering)


def mode_properties(mode: MergeMode) -> dict[str, str]:
    """The properties of a table with a merge mode: the equivalent payload class."""
    name = next(name for name, payload in PAYLOADS.items() if payload.mode is mode)
    return {_PAYLOAD: PAYLOADS[name].package + name}


def _payload(table: TableOptions, ordering: tuple[str, ...]) -> tuple[str, Payload]:
    mode = _stated_mode(table)
    if table.payload_class is None:
        mode = mode or (MergeMode.EVENT_TIME if ordering else MergeMode.COMMIT_TIME)
        if mode is MergeMode.EVENT_TIME and not ordering:
            raise OptionError(
                "event-time merging requires an ordering column", option=_MODE, value=mode.value,
                hint="pass ordering='column'",
            )  # fmt: skip
        if mode is MergeMode.CUSTOM:
            raise OptionError(
                "a custom merge mode requires a payload class or a merge function", option=_MODE,
                value=mode.value, hint="pass a payload class, or a Python function as merge=",
            )  # fmt: skip
        name = next(name for name, payload in PAYLOADS.items() if payload.mode is mode)
        return name, PAYLOADS[name]
    name = table.payload_class.rsplit(".", 1)[-1]
    payload = PAYLOADS.get(name)
    if payload is None:
        raise OptionError(
            "unsupported payload class", option="hoodie.datasource.write.payload.class",
            value=table.payload_class, hint="use one of " + ", ".join(PAYLOADS),
        )  # fmt: skip
    if mode is not None and mode is not payload.mode:
        raise OptionError(
            "the merge mode and the payload class contradict each other", option=_MODE,
            value=mode.value, payload=name,
        )  # fmt: skip
    return name, payload


def _stated_mode(table: TableOptions) -> MergeMode | None:
    mode = None if table.merge_mode is None else MergeMode(table.merge_mode)
    if table.merge_strategy in (None, _ANY_PAYLOAD):
        return mode
    by_strategy = STRATEGIES.get(table.merge_strategy)
    if by_strategy is None:
        raise OptionError(
            "unsupported merge strategy", option=STRATEGY, value=table.merge_strategy,
            hint="for custom merging pass a Python function as merge=",
        )  # fmt: skip
    if mode not in (None, MergeMode.CUSTOM, by_strategy):
        raise OptionError(
            "the merge mode and the merge strategy contradict each other", option=_MODE,
            value=table.merge_mode, strategy=table.merge_strategy,
        )  # fmt: skip
    return by_strategy


def _by_function(
    table: TableOptions, function: Callable[..., Any], ordering: tuple[str, ...]
) -> dict[str, str]:
    if table.payload_class or table.merge_strategy or table.merge_mode not in (None, "CUSTOM"):
        raise OptionError(
            "merge= and another merge rule contradict each other",
            value=table.payload_class or table.merge_strategy or table.merge_mode,
        )
    if ordering:
        raise OptionError(
            "a merge function compares the rows itself", ordering=", ".join(ordering),
            hint="leave ordering= out",
        )  # fmt: skip
    name = function_name(function)
    return {
        _MODE: MergeMode.CUSTOM.value,
        STRATEGY: PYTHON + name,
        _PAYLOAD: f"pyhudi.{name}",  # no such class, so that Java fails to merge
    }


def function_name(function: Callable[..., Any]) -> str:
    """The name of a merge function in a table's properties."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _delete_properties(merging: Merging, columns: Collection[str]) -> dict[str, str]:
    field, marker = merging.delete_field, merging.delete_marker
    if (field is None) != (marker is None):
        raise OptionError(
            "a delete field and its marker must be given together",
            option=DELETE_FIELD if field else DELETE_MARKER, value=field or marker,
        )  # fmt: skip
    if field is None or marker is None:
        return {}
    if field not in columns:
        raise SchemaError("the delete field is not in the schema", column=field)
    return {PROPERTY + DELETE_FIELD: field, PROPERTY + DELETE_MARKER: marker}
