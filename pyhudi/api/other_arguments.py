"""Names of arguments in Delta Lake, Iceberg, pandas and Spark, and what they are called here.

`leads_on` gives a function, and `methods_lead_on` the methods of a class, a TypeError that names
the argument that was meant.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Final, ParamSpec, TypeVar

from pyhudi.near_names import near_names

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "as_of_timestamp": ("as_of",),
    "begin": ("since",),
    "cols": ("columns",),
    "condition": ("where",),
    "data": ("rows",),
    "df": ("rows",),
    "end": ("until",),
    "ending_version": ("until",),
    "expr": ("where",),
    "filter": ("where",),
    "filters": ("where",),
    "hoodie_options": ("options",),
    "hudi_options": ("options",),
    "id": ("record_key", "keys"),
    "key": ("record_key", "keys"),
    "key_columns": ("record_key", "keys"),
    "merge_schema": ("schema_mode",),
    "new_values": ("set",),
    "partition_cols": ("partition_by",),
    "partition_columns": ("partition_by",),
    "partition_path": ("partition_by",),
    "partition_spec": ("partition_by",),
    "partitionby": ("partition_by",),
    "partitions": ("partition_by",),
    "precombine": ("ordering",),
    "precombine_field": ("ordering",),
    "predicate": ("where",),
    "primary_key": ("record_key",),
    "primary_keys": ("record_key",),
    "projection": ("columns",),
    "recordkey": ("record_key",),
    "row_filter": ("where",),
    "schema_evolution": ("schema_mode",),
    "select": ("columns",),
    "selected_fields": ("columns",),
    "snapshot_id": ("as_of",),
    "source": ("rows",),
    "starting_version": ("since",),
    "storage": ("storage_options",),
    "table_name": ("name",),
    "timestamp": ("as_of",),
    "updates": ("set",),
    "version": ("as_of",),
}
_FLAT: Final = {name.replace("_", ""): meant for name, meant in _NAMES.items()}
"""Without underscores, which names in camel case have elsewhere."""
_TEXTS: Final[Mapping[str, str]] = {
    "if_not_exists": "pyhudi.upsert(path, rows, record_key=...) creates a table where none is",
    "if_exists": "pyhudi.upsert(path, rows, record_key=...) writes to a table that exists",
    "limit": "head(rows) reads the first rows",
    "source_alias": "expressions name source.<column> and target.<column>",
    "target_alias": "expressions name source.<column> and target.<column>",
    "mode": "table.insert(rows) appends, table.insert_overwrite_table(rows) replaces all rows, "
    "pyhudi.upsert(path, rows, record_key=...) creates a table that does not exist",
    "on": "merge matches rows by the record key of the table",
    "overwrite": "table.insert_overwrite_table(rows) replaces all rows",
}


def unknown_argument(function: str, name: str, known: Collection[str]) -> TypeError:
    """The error for an argument that a function lacks."""
    low = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lower()
    meant = [one for one in _FLAT.get(low.replace("_", ""), ()) if one in known]
    near = meant or ([] if low in _TEXTS else near_names(name, known))
    listed = f"it has {', '.join(known)}" if known else "it has none"
    hint = f"did you mean {near[0]}=?" if near else _TEXTS.get(low, listed)
    return TypeError(f"{function}() has no argument {name!r}; {hint}")


def leads_on(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with an error for unknown arguments that says what was meant."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return function
    known = [name for name in parameters if name != "self"]
    names = frozenset(parameters)

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        if not names.issuperset(named):
            unknown = next(name for name in named if name not in names)
            raise unknown_argument(function.__name__, unknown, known)
        return function(*arguments, **named)

    return call


def methods_lead_on(owner: type[T]) -> type[T]:
    """A class decorator: all public methods of the class and of its bases `lead on`."""
    for name in dir(owner):
        method = inspect.getattr_static(owner, name)
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(owner, name, leads_on(method))
    return owner
