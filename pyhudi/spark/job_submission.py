"""Submission of Spark jobs, and the transport of their values and errors.

A job is a function that is pickled by value and imports only the Python standard library to
start, so that a worker without pyhudi or pyarrow, or with another release, can report that.
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from pyhudi.errors import PyhudiError, UserError
from pyhudi.spark.frames import MapArrow, map_arrow, with_job_description
from pyhudi.spark.worker import Failure, TaskOrder, TaskValue, own_version, read_error

_OUTCOMES: Final = StructType(
    [
        StructField("task", IntegerType()),
        StructField("place", IntegerType()),
        StructField("body", BinaryType()),
    ]
)
_LACKING: Final = "pyhudi-worker-lacks:"
_LACKS: Final = re.compile(_LACKING + r"(.*?) \(python (\S+?)\)")
_NO_MODULE: Final = re.compile(r"No module named '(pyhudi|pyarrow)[.\w]*'")
_OTHER_PYTHON: Final = re.compile(r"PYTHON_VERSION_MISMATCH|Python in worker has different version")
_WORKER_LOST: Final = re.compile(r"Python worker exited unexpectedly|ExecutorLostFailure")
_NO_PYTHON: Final = re.compile(r'Cannot run program "([^"]*)"')


class WorkerPythonError(UserError):
    """The Python of Spark's workers cannot run pyhudi."""

    code = "WORKER_PYTHON"


class WorkerLostError(PyhudiError):
    """Processes of Spark ended while they ran a task, as often as Spark repeats it."""

    code = "WORKER_LOST"
    retryable = True


@dataclass(frozen=True, slots=True)
class Returned:
    """One value and its origin: the number of the task, and its position in the task."""

    task: int
    place: int
    value: Any


def ship(frame: DataFrame, order: TaskOrder, *, label: str) -> list[Returned]:
    """Run an order over every partition of a DataFrame in one job.  Returns its values, sorted by
    task and position.

    If a task runs twice, the values of one attempt are returned.  Raises the pyhudi error that a
    task raised, WorkerPythonError, WorkerLostError, or the error of Spark in any other case.
    """
    spark = frame.sparkSession
    with with_job_description(spark, f"pyhudi: {label}"), translated():
        rows = map_arrow(frame, remote(order, "outcomes"), _OUTCOMES).collect()
    found = []
    for task, place, body in sorted(rows, key=lambda row: (row[0], row[1])):
        outcome = pickle.loads(bytes(body))
        match outcome:
            case Failure(error):
                raise error
            case TaskValue(value):
                found.append(Returned(task, place, value))
    return found


def remote(order: TaskOrder, entry: str) -> MapArrow:
    """A function over Arrow batches that runs `order` by `pyhudi.spark.worker.<entry>`."""
    packed = cloudpickle.dumps(order)  # type: ignore[no-untyped-call]
    release = own_version()
    mark = _LACKING

    def on_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by value, so it must not refer to globals of this module.
        import importlib
        import sys

        try:
            worker = importlib.import_module("pyhudi.spark.worker")
        except ImportError as missing:
            raise RuntimeError(f"{mark}{missing} (python {sys.executable})") from missing
        found = worker.own_version()
        if found != release:
            raise RuntimeError(f"{mark}pyhudi {release}, has {found} (python {sys.executable})")
        yield from getattr(worker, entry)(packed, batches)

    return on_worker


class translated:
    """Converts failures of Spark jobs into the pyhudi errors that workers raised."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, PyhudiError) or not _is_sparks(error):
            return
        known = translation(str(error))
        if known is not None:
            raise known from None


def _is_sparks(error: BaseException) -> bool:
    return isinstance(error, PySparkException) or type(error).__module__.startswith("py4j")


def translation(text: str) -> PyhudiError | None:
    """The pyhudi error in the message of a failed job; None if there is none."""
    error = read_error(text)
    if error is not None:
        return error
    lacks = _LACKS.search(text)
    if lacks is not None:
        return _worker_error(lacks.group(1), python=lacks.group(2))
    missing = _NO_MODULE.search(text)
    if missing is not None:
        return _worker_error(missing.group(0))
    if _OTHER_PYTHON.search(text) is not None:
        return _worker_error("a Python version other than the driver's")
    absent = _NO_PYTHON.search(text)
    if absent is not None and "ython" in absent.group(1):
        return _worker_error("no such program", python=absent.group(1))
    lost = _WORKER_LOST.search(text)
    if lost is not None:
        return WorkerLostError(
            "the workers of a Spark job ended by themselves",
            reason=lost.group(0),
            hint="look for processes that were killed, often for lack of memory, and run it again",
        )
    return None


def _worker_error(what: str, *, python: str | None = None) -> WorkerPythonError:
    return WorkerPythonError(
        "the Python of Spark's workers cannot run pyhudi",
        found=what,
        python=python,
        hint=f"set PYSPARK_PYTHON={sys.executable} (or a Python with this pyhudi release) "
        "before the session starts",
    )
