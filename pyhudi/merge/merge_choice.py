"""The merge properties of a new table, from the requested mode, payload class or function.

```
                6              8                                9
event time      payload class  mode, payload class, strategy    mode, legacy payload class if named
partial update  payload class  CUSTOM, payload class, strategy  EVENT_TIME, partial.update.mode
```

Version 9 replaces payload classes by merge modes and properties (`Payload.form`); one without such
a form is CUSTOM, as in version 8.  Source: writer_v8_v9 3.2; tables of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import OptionError, SchemaError
from pyhudi.merge.payload_classes import (
    DELETE_FIELD,
    DELETE_MARKER,
    PARTIAL_MODE,
    PAYLOADS,
    PROPERTY,
    PYTHON,
    STRATEGIES,
    STRATEGY,
    UNAVAILABLE_TEXT,
    UNAVAILABLE_VALUE,
    DeleteMark,
    ModeForm,
    PartialMode,
    Payload,
    function_name,
)
from pyhudi.options import Merging, TableOptions
from pyhudi.table.properties import (
    EVENT_TIME_ID,
    LEGACY_PAYLOAD_CLASS,
    MERGE_MODE,
    PAYLOAD_CLASS,
    MergeMode,
)

_IDS: Final = {mode: identifier for identifier, mode in STRATEGIES.items()}


@dataclass(frozen=True, slots=True)
class Choice:
    """The merge rules of a new table: its properties and its ordering columns."""

    properties: Mapping[str, str]
    ordering: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Request:
    """What the caller states.  name: the payload class in use; named: whether it was stated."""

    version: int
    name: str
    payload: Payload
    form: ModeForm
    named: bool


def merge_choice(
    table: TableOptions,
    merging: Merging,
    ordering: tuple[str, ...],
    columns: Collection[str],
    *,
    version: int,
) -> Choice:
    """The requested merge rules of a table with these columns.

    Raises OptionError for a class, mode or strategy that is unknown or contradicts another option,
    SchemaError for a missing column.
    """
    if merging.function is not None:
        properties = _by_function(table, merging.function, ordering)
        return Choice({**_delete_properties(merging, None, columns), **properties}, ordering)
    request = _request(table, ordering, version)
    fixed = _fixed_ordering(request, ordering)
    absent = [column for column in fixed if column not in columns]
    if absent:
        raise SchemaError(
            "an ordering column of the payload class is not in the schema",
            payload=request.name,
            columns=", ".join(absent),
        )
    mark = request.form.mark if version >= 9 else None
    properties = {
        **_mode_properties(request),
        **_partial_properties(table, request),
        **_delete_properties(merging, mark, columns),
    }
    return Choice(properties, ordering or fixed)


def mode_properties(mode: MergeMode, version: int, payload: str | None = None) -> dict[str, str]:
    """The properties of a merge mode.  payload: a class that was named, with that mode."""
    name = payload or next(name for name, payload in PAYLOADS.items() if payload.mode is mode)
    known = PAYLOADS[name]
    return _mode_properties(
        _Request(version, name, known, _form(known, version), payload is not None)
    )


def _mode_properties(request: _Request) -> dict[str, str]:
    payload, mode = request.payload.package + request.name, request.form.mode
    if request.version < 8:
        return {PAYLOAD_CLASS: payload}
    if request.version < 9 or mode is MergeMode.CUSTOM:
        return {MERGE_MODE: mode.value, PAYLOAD_CLASS: payload, STRATEGY: _IDS[mode]}
    legacy = {LEGACY_PAYLOAD_CLASS: payload} if request.named else {}
    return {MERGE_MODE: mode.value, **legacy}


def _form(payload: Payload, version: int) -> ModeForm:
    """The merge mode of a payload class in a table version."""
    if version < 9:
        return ModeForm(payload.mode, ordering=payload.ordering)
    return payload.form or ModeForm(MergeMode.CUSTOM, ordering=payload.ordering)


def _request(table: TableOptions, ordering: tuple[str, ...], version: int) -> _Request:
    mode = _stated_mode(table, version)
    if table.payload_class is None:
        mode = mode or (MergeMode.EVENT_TIME if ordering else MergeMode.COMMIT_TIME)
        if mode is MergeMode.EVENT_TIME and not ordering:
            raise OptionError(
                "event-time merging requires an ordering column",
                option=MERGE_MODE,
                value=mode.value,
                hint="pass ordering='column'",
            )
        if mode is MergeMode.CUSTOM:
            raise OptionError(
                "a custom merge mode requires a payload class or a merge function",
                option=MERGE_MODE,
                value=mode.value,
                hint="pass a payload class, or a Python function as merge=",
            )
        name = next(name for name, payload in PAYLOADS.items() if payload.mode is mode)
        return _Request(version, name, PAYLOADS[name], _form(PAYLOADS[name], version), False)
    name = table.payload_class.rsplit(".", 1)[-1]
    payload = PAYLOADS.get(name)
    if payload is None:
        raise OptionError(
            "unsupported payload class",
            option="hoodie.datasource.write.payload.class",
            value=table.payload_class,
            hint="use one of " + ", ".join(PAYLOADS),
        )
    form = _form(payload, version)
    if mode is not None and mode is not form.mode:
        raise OptionError(
            "the merge mode and the payload class contradict each other",
            option=MERGE_MODE,
            value=mode.value,
            payload=name,
            mode_of_payload=form.mode.value,
            version=version,
        )
    return _Request(version, name, payload, form, True)


def _stated_mode(table: TableOptions, version: int) -> MergeMode | None:
    mode = None if table.merge_mode is None else MergeMode(table.merge_mode)
    strategy = table.merge_strategy
    if strategy is None or (version < 8 and strategy == EVENT_TIME_ID):
        return mode
    by_strategy = STRATEGIES.get(strategy)
    if by_strategy is None:
        raise OptionError(
            "unsupported merge strategy",
            option=STRATEGY,
            value=strategy,
            hint="for custom merging pass a Python function as merge=",
        )
    loose = (None, MergeMode.CUSTOM) if version < 8 else (None,)
    if mode not in (*loose, by_strategy):
        raise OptionError(
            "the merge mode and the merge strategy contradict each other",
            option=MERGE_MODE,
            value=table.merge_mode,
            strategy=strategy,
        )
    return by_strategy


def _fixed_ordering(request: _Request, ordering: tuple[str, ...]) -> tuple[str, ...]:
    """The ordering columns of the payload class.  From version 9 on they are the table's."""
    fixed = request.form.ordering
    if request.version >= 9 and fixed and ordering not in ((), fixed):
        raise OptionError(
            "the ordering columns and the payload class contradict each other",
            option="hoodie.table.ordering.fields",
            value=",".join(ordering),
            payload=request.name,
            hint=f"leave ordering out: the class orders by {','.join(fixed)}",
        )
    return fixed


def _partial_properties(table: TableOptions, request: _Request) -> dict[str, str]:
    """The properties of partial updates: of the payload class or as stated (version 9)."""
    stated = None if table.partial_update is None else PartialMode(table.partial_update)
    mode = request.form.partial or stated
    if stated is not None and request.version < 9:
        raise OptionError(
            "only tables of version 9 have a partial update mode",
            option=PARTIAL_MODE,
            value=stated.value,
            version=request.version,
            hint="use the payload class PartialUpdateAvroPayload",
        )
    if stated is not None and (mode is not stated or request.form.mode is MergeMode.CUSTOM):
        raise OptionError(
            "the partial update mode and the payload class contradict each other",
            option=PARTIAL_MODE,
            value=stated.value,
            payload=request.name,
        )
    if mode is None:
        return {}
    marker = {PROPERTY + UNAVAILABLE_VALUE: UNAVAILABLE_TEXT}
    return {PARTIAL_MODE: mode.value, **(marker if mode is PartialMode.FILL_UNAVAILABLE else {})}


def _by_function(
    table: TableOptions, function: Callable[..., Any], ordering: tuple[str, ...]
) -> dict[str, str]:
    stated = (
        table.payload_class
        or table.merge_strategy
        or table.partial_update
        or (table.merge_mode if table.merge_mode != MergeMode.CUSTOM.value else None)
    )
    if stated:
        raise OptionError("merge= and another merge rule contradict each other", value=stated)
    if ordering:
        raise OptionError(
            "a merge function compares the rows itself",
            ordering=", ".join(ordering),
            hint="leave ordering= out",
        )
    name = function_name(function)
    return {
        MERGE_MODE: MergeMode.CUSTOM.value,
        STRATEGY: PYTHON + name,
        PAYLOAD_CLASS: f"pyhudi.{name}",  # no such class, so that Java fails to merge
    }


def _delete_properties(
    merging: Merging, fixed: DeleteMark | None, columns: Collection[str]
) -> dict[str, str]:
    """The properties of a delete field.  fixed: that of the payload class, from version 9 on."""
    field, marker = merging.delete_field, merging.delete_marker
    if (field is None) != (marker is None):
        raise OptionError(
            "a delete field and its marker must be given together",
            option=DELETE_FIELD if field else DELETE_MARKER,
            value=field or marker,
        )
    if field is not None and field not in columns:
        raise SchemaError("the delete field is not in the schema", column=field)
    if fixed is not None:
        if field is not None and (field, marker) != (fixed.column, fixed.value):
            raise OptionError(
                "the delete field and the payload class contradict each other",
                option=DELETE_FIELD,
                value=f"{field}={marker}",
                hint=f"the class deletes rows with {fixed.column}={fixed.value}",
            )
        field, marker = fixed.column, fixed.value
    if field is None or marker is None:
        return {}
    return {PROPERTY + DELETE_FIELD: field, PROPERTY + DELETE_MARKER: marker}
