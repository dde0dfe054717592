"""Entry points of Spark workers: running a function over the batches of one task.

`outcomes` yields rows of [task: int, place: int, body: binary]: the number of the task, the number
of the outcome in it, and a pickled `TaskValue` or `Failure`.
"""

from __future__ import annotations

import base64
import gc
import json
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from pyhudi.errors import FileMissingError, PyhudiError, StorageError
from pyhudi.spark.error_lines import line_first

Batches = Iterator[pa.RecordBatch]
Function = Callable[[Any, Batches], Iterator[Any]]

_MARK: Final = "pyhudi-error:"
_MARKED: Final = re.compile(_MARK + r"([A-Za-z0-9+/=]+)")


@dataclass(frozen=True, slots=True)
class TaskValue:
    """One value that a task returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that another attempt would raise again."""

    error: PyhudiError


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """The work of a task: `function(argument, batches)` yields its values."""

    function: Function
    argument: Any


_RETRYABLE: Final = {kind.__name__: kind for kind in (StorageError, FileMissingError)}


class _TryAgainError(Exception):
    """Ends one attempt of a task.  Carries the error in its message, all that Spark passes on."""


def outcomes(order: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run an order over the batches of this task.  Raises retryable errors, returns others."""
    work = _opened(order)
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    place = 0
    try:
        for place, value in enumerate(work.function(work.argument, batches)):
            yield _row(task, place, TaskValue(value))
    except StorageError as error:
        if error.retryable:
            raise _TryAgainError(_written(error)) from error
        yield _row(task, place, Failure(error))
    except PyhudiError as error:
        yield _row(task, place, Failure(error))


def rows(order: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The batches that the function of an order yields, unchanged; errors end the task."""
    work = _opened(order)
    with line_first():
        yield from work.function(work.argument, batches)


def _opened(order: bytes) -> TaskOrder:
    """Unpickle an order.  The objects of imported modules are permanent, so they are excluded from
    garbage collection: PySpark runs a full one after each task, which costs more than a small
    task."""
    work: TaskOrder = pickle.loads(order)
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    return work


def _row(task: int, place: int, outcome: TaskValue | Failure) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "task": pa.array([task], pa.int32()),
            "place": pa.array([place], pa.int32()),
            "body": pa.array([pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)], pa.binary()),
        }
    )


def _written(error: StorageError) -> str:
    """The error as a message and as JSON for `read_error`.  Not pickled, because the text of a
    failure may contain data of rows, and unpickling could execute code."""
    facts = {k: v if isinstance(v, (str, int, float)) else str(v) for k, v in error.facts.items()}
    kind = FileMissingError if isinstance(error, FileMissingError) else StorageError
    parts = {"kind": kind.__name__, "what": error.what, "hint": error.hint, "facts": facts}
    packed = base64.b64encode(json.dumps(parts).encode())
    return f"{error}\n{_MARK}{packed.decode()}"


def read_error(text: str) -> StorageError | None:
    """The retryable error in the message of a failed Spark job; None if there is none."""
    found = _MARKED.search(text)
    if found is None:
        return None
    try:
        parts = json.loads(base64.b64decode(found.group(1)))
        kind = _RETRYABLE[parts["kind"]]
        return kind(parts["what"], hint=parts["hint"], retryable=True, **parts["facts"])
    except (ValueError, KeyError, TypeError):
        return None


def own_version() -> str:
    """The installed pyhudi release; "source" for a source tree that is not installed."""
    try:
        return version("pyhudi")
    except PackageNotFoundError:
        return "source"


@dataclass(frozen=True, slots=True)
class Items:
    """A task of an engine and its items, distributed round-robin over `hands` Spark tasks."""

    task: Callable[[Any], Any]
    items: tuple[Any, ...]
    hands: int


def run_items(work: Items, batches: Batches) -> Iterator[tuple[int, Any]]:
    """Yield (number, result) of the items of the Spark tasks whose numbers are in the batches."""
    for batch in batches:
        for hand in batch.column(0).to_pylist():
            for number in range(hand, len(work.items), work.hands):
                yield number, work.task(work.items[number])
