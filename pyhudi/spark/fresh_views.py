"""Temporary views of tables, and views that read the newest snapshot at each query.

A temporary view of Spark keeps the plan of its DataFrame, and with it a snapshot.  Before a query
by `SparkSession.sql` or `SparkSession.table`, fresh views of its session whose table has a newer
snapshot are made again.  Both methods are replaced once in a process; the property
`spark.pyhudi.freshViews` of a session names its views, so other sessions go to PySpark unchanged.
A view that the program dropped or replaced is no longer looked at.

Logs are merged and stored (`merged_logs`) for a view when a statement contains its name: it may not
read the others at all, and if it does through a view over them, the query merges their logs.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import TableNotFoundError

_NAMED: Final = "spark.pyhudi.freshViews"
_LOCK: Final = threading.RLock()
_METHODS: Final = ("sql", "table")
_originals: dict[tuple[type, str], Callable[..., Any]] = {}
_numbers = itertools.count()


class MakeFrame(Protocol):
    """Makes the frame of a snapshot; `merges` as for `scan_frame`."""

    def __call__(self, *, merges: bool) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class View:
    """What a view reads.  newest: the position of the table now, and the frame of that snapshot.
    open: the table."""

    newest: Callable[[], tuple[str, MakeFrame]]
    open: Callable[[], Any]


@dataclass(slots=True)
class _Shown:
    """A fresh view as it was made last.  is_merged: for a statement with its name."""

    name: str
    view: View
    position: str
    frame: DataFrame
    is_merged: bool = False


_shown: dict[str, _Shown] = {}
"""By number, which the property of the session lists."""


def register(spark: SparkSession, views: Mapping[str, View], *, fresh: bool) -> None:
    """Make or replace temporary views.  All tables are opened before the first view is made."""
    found = {name: view.newest() for name, view in views.items()}
    frames = {name: make(merges=False) for name, (_, make) in found.items()}
    with _LOCK:
        numbers = [n for n in _numbers_of(spark) if _shown[n].name not in views]
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
            if fresh:
                numbers.append(str(next(_numbers)))
                _shown[numbers[-1]] = _Shown(name, views[name], found[name][0], frame)
        if fresh:
            _replace_methods(type(spark))
        if fresh or _numbers_of(spark):
            spark.conf.set(_NAMED, ",".join(numbers))


def table_of(spark: SparkSession, name: str) -> Any | None:
    """The table of a fresh view of the session."""
    with _LOCK:
        for number in _numbers_of(spark):
            shown = _shown[number]
            if shown.name.lower() == name.lower() and _is_current(spark, shown):
                return shown.view.open()
    return None


def _numbers_of(spark: SparkSession) -> list[str]:
    named = spark.conf.get(_NAMED, None) or ""
    return [number for number in named.split(",") if number in _shown]


def _replace_methods(owner: type) -> None:
    for name in _METHODS:
        if (owner, name) not in _originals:
            original = getattr(owner, name)
            _originals[owner, name] = original
            setattr(owner, name, _after_refresh(original))


def _after_refresh(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: SparkSession, *arguments: Any, **named: Any) -> Any:
        with _LOCK:
            given = (*arguments, *named.values())
            text = " ".join(value for value in given if isinstance(value, str)).lower()
            retained = [n for n in _numbers_of(self) if _refresh(self, _shown[n], text)]
            if retained != _numbers_of(self):
                self.conf.set(_NAMED, ",".join(retained))
        return original(self, *arguments, **named)

    return call


def _refresh(spark: SparkSession, shown: _Shown, text: str) -> bool:
    """Make a view again if its table has a newer snapshot, or its logs are to be merged as the text
    has its name.  False: it is another view now.  Raises TableNotFoundError for a view that the
    text names: other statements do not need its table."""
    is_named = shown.name.lower() in text
    try:
        position, make = shown.view.newest()
    except TableNotFoundError:
        is_current = _is_current(spark, shown)
        if is_named and is_current:
            raise
        return is_current
    if position == shown.position and (shown.is_merged or not is_named):
        return True
    if not _is_current(spark, shown):
        return False
    shown.frame, shown.position, shown.is_merged = make(merges=is_named), position, is_named
    shown.frame.createOrReplaceTempView(shown.name)
    return True


def _is_current(spark: SparkSession, shown: _Shown) -> bool:
    """Whether the program has neither dropped nor replaced the view."""
    try:
        current = _originals[type(spark), "table"](spark, shown.name)
        found: bool = current.sameSemantics(shown.frame)
    except AnalysisException:
        return False
    return found
