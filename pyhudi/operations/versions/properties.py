"""The properties of a table in another of the versions 6, 8 and 9.  Pure.

```
                  6                        8                               9
ordering          precombine.field         both names                      ordering.fields
merging           payload class            mode, payload class, strategy   mode; payload class as
                                                                           legacy.payload.class
key generator     class                    type (and class)                as 8
partition types   a separate property      in partition.fields             as 8
```

Properties that no version spells differently stay.  The merge rule is the one by which this package
merges the records before; where Apache Hudi's upgrade maps OverwriteWithLatestAvroPayload of a
merge-on-read table to event time, it stays commit time here.
Source: writer_v8_v9 2, 3.2, 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.errors import UnsupportedTableError
from pyhudi.merge.merge_choice import merge_choice, mode_properties
from pyhudi.merge.payload_classes import (
    DELETE_FIELD,
    DELETE_MARKER,
    PARTIAL_MODE,
    PAYLOADS,
    PROPERTY,
    PYTHON,
    STRATEGIES,
    STRATEGY,
    UNAVAILABLE_VALUE,
    Payload,
)
from pyhudi.metadata.bootstrap import BEING_BUILT, LISTED
from pyhudi.options import Merging, TableOptions
from pyhudi.table.new_table import ORDERING, PATH_FIELDS, PRECOMBINE
from pyhudi.table.properties import (
    CUSTOM_ID,
    EVENT_TIME_ID,
    GENERATOR_CLASSES,
    LEGACY_PAYLOAD_CLASS,
    MERGE_MODE,
    PAYLOAD_CLASS,
    KeyGeneratorKind,
    MergeMode,
    TableConfig,
)

_MERGER: Final = "hoodie.compaction.record.merger.strategy"
_PARTITION: Final = "hoodie.table.partition.fields"
_GENERATOR: Final = "hoodie.table.keygenerator.class"
_GENERATOR_TYPE: Final = "hoodie.table.keygenerator.type"
_PACKAGE: Final = "org.apache.hudi.keygen."

_Updates = dict[str, str | None]


def properties_at(config: TableConfig, version: int) -> TableConfig:
    """The properties of the table in another version, without a metadata table.

    Raises UnsupportedTableError for a merge rule that the version cannot state.
    """
    merging, ordering = _merging(config, version)
    updates: _Updates = {
        "hoodie.table.version": str(version),
        **{key: "" for key in (LISTED, BEING_BUILT) if key in config.properties},
        **merging,
        **_ordering(ordering, version),
    }
    updates |= _to_layout_1(config) if version < 8 else _to_layout_2(config)
    return config.with_properties(updates)


def _to_layout_2(config: TableConfig) -> _Updates:
    stated = config.properties
    updates: _Updates = {
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.table.format": stated.get("hoodie.table.format") or "native",
        "hoodie.table.initial.version": (
            stated.get("hoodie.table.initial.version") or str(config.version)
        ),
        _GENERATOR_TYPE: stated.get(_GENERATOR_TYPE) or config.key_generator.value,
    }
    if stated.get(PATH_FIELDS):
        updates |= {_PARTITION: stated[PATH_FIELDS], PATH_FIELDS: None}
    return updates


def _to_layout_1(config: TableConfig) -> _Updates:
    stated = config.properties
    updates: _Updates = {"hoodie.timeline.layout.version": "1"}
    kind = config.key_generator
    if not stated.get(_GENERATOR) and kind is not KeyGeneratorKind.USER_PROVIDED:
        updates[_GENERATOR] = _PACKAGE + GENERATOR_CLASSES[kind]
    typed = stated.get(_PARTITION, "")
    if ":" in typed:
        updates |= {_PARTITION: ",".join(config.partition_fields), PATH_FIELDS: typed}
    if config.is_merge_on_read and not stated.get(_MERGER):
        updates[_MERGER] = EVENT_TIME_ID
    return updates


def _ordering(fields: tuple[str, ...], version: int) -> _Updates:
    text = ",".join(fields) or None
    return {PRECOMBINE: text if version < 9 else None, ORDERING: text if version >= 8 else None}


def _merging(config: TableConfig, version: int) -> tuple[_Updates, tuple[str, ...]]:
    """The merge properties, None for those to remove, and the ordering columns."""
    stated, ordering = config.properties, config.ordering_fields
    if (stated.get(STRATEGY) or "").startswith(PYTHON):  # stated alike in every version
        return {}, ordering
    known = (
        MERGE_MODE,
        PAYLOAD_CLASS,
        LEGACY_PAYLOAD_CLASS,
        STRATEGY,
        PARTIAL_MODE,
        PROPERTY + UNAVAILABLE_VALUE,
    )
    removed: _Updates = dict.fromkeys(known)
    text = stated.get(PAYLOAD_CLASS) or stated.get(LEGACY_PAYLOAD_CLASS) or ""
    payload = PAYLOADS.get(config.payload_class)
    if _has_own_merger(config) or (text and payload is None):
        return removed | _custom(config, text, version), ordering
    if payload is not None and _agrees(config, payload):
        removed |= _marks(config, payload)
        made, ordering = _by_payload(config, text, payload, version)
        return {**removed, **made}, ordering
    return removed | _by_mode(config, version), ordering


def _has_own_merger(config: TableConfig) -> bool:
    """Whether a merger that is not one of Apache Hudi's merges the records."""
    if config.version < 8 or config.merge_mode is not MergeMode.CUSTOM:
        return False
    return (config.properties.get(STRATEGY) or CUSTOM_ID) not in STRATEGIES


def _custom(config: TableConfig, payload: str, version: int) -> dict[str, str]:
    named = {PAYLOAD_CLASS: payload} if payload else {}
    if version < 8:
        if _has_own_merger(config):
            raise UnsupportedTableError(
                "version 6 cannot state the merge strategy of the table",
                property=STRATEGY,
                value=config.properties.get(STRATEGY),
            )
        return named
    strategy = config.properties.get(STRATEGY) if _has_own_merger(config) else None
    return {MERGE_MODE: MergeMode.CUSTOM.value, **named, STRATEGY: strategy or CUSTOM_ID}


def _agrees(config: TableConfig, payload: Payload) -> bool:
    """Whether the payload class determines the merge rule, not a mode that was stated later."""
    mode = config.properties.get(MERGE_MODE)
    if not mode:
        return True
    form = payload.form.mode if payload.form and config.version >= 9 else payload.mode
    return mode.strip().upper() == form.value


def _marks(config: TableConfig, payload: Payload) -> _Updates:
    """Delete properties that only state what the payload class does."""
    mark = payload.form.mark if payload.form else None
    pair = (
        {PROPERTY + DELETE_FIELD: mark.column, PROPERTY + DELETE_MARKER: mark.value} if mark else {}
    )
    is_own = all(config.properties.get(key) == value for key, value in pair.items())
    return dict.fromkeys(pair) if is_own else {}


def _by_payload(
    config: TableConfig, text: str, payload: Payload, version: int
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    ordering, form = config.ordering_fields, payload.form
    fixed = form.ordering if form is not None and version >= 9 else ()
    columns = {
        *ordering,
        *fixed,
        *payload.ordering,
        *((form.mark.column,) if form and form.mark else ()),
    }
    options = TableOptions(payload_class=text)
    choice = merge_choice(options, Merging(), fixed or ordering, columns, version=version)
    return choice.properties, choice.ordering


def _by_mode(config: TableConfig, version: int) -> dict[str, str]:
    mode = config.merge_mode
    partial = (config.properties.get(PARTIAL_MODE) or "NONE").upper()
    if partial == "NONE":
        return mode_properties(mode, version)
    if version >= 9:
        stated = {
            k: v
            for k, v in config.properties.items()
            if k in (PARTIAL_MODE, PROPERTY + UNAVAILABLE_VALUE)
        }
        return {**mode_properties(mode, version), **stated}
    for name, payload in PAYLOADS.items():
        form = payload.form
        if (
            form
            and form.mark is None
            and form.partial
            and (form.mode, form.partial.value) == (mode, partial)
        ):
            return mode_properties(MergeMode.CUSTOM, version, name)
    raise UnsupportedTableError(
        "older versions cannot state the partial update mode of the table",
        property=PARTIAL_MODE,
        value=partial,
        version=version,
    )
