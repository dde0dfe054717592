"""Messages of errors that PySpark passes from its workers to the driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyhudi.errors import PyhudiError, StorageError

_HIDDEN: Final = "SPARK_HIDE_TRACEBACK"
"""With this variable PySpark 4.1 and newer sends the message of an error without its traceback."""


@contextmanager
def line_first() -> Iterator[None]:
    """Print the message of a PyhudiError before its traceback: PySpark passes only the printed
    traceback of an error to the driver.  Also a decorator for functions that are not generators.

    In a worker of PySpark, which ends with the error, the traceback is left out where PySpark can.
    Elsewhere and in older releases, Python prints the cause of an error before the error itself, so
    the error is set as its own cause, without a traceback.  PySpark clears causes, so the cause is
    a property of a subclass.
    """
    try:
        yield
    except PyhudiError as error:
        error.__class__ = _with_line(type(error))
        if in_worker():
            os.environ[_HIDDEN] = "1"
        raise


def in_worker() -> bool:
    """Whether this process runs a module of PySpark, not a program of the user."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


_with_lines: dict[type[PyhudiError], type[PyhudiError]] = {}


def _with_line(kind: type[PyhudiError]) -> type[PyhudiError]:
    """A class with the name and documentation of `kind` whose instances are their own cause."""
    if "_line" in vars(kind):
        return kind
    if kind not in _with_lines:
        _with_lines[kind] = _made_with_line(kind)
    return _with_lines[kind]


def _made_with_line(kind: type[PyhudiError]) -> type[PyhudiError]:

    def line(self: PyhudiError) -> PyhudiError:
        return kind(self.what, hint=self.hint, **self.facts)

    def reduce(self: PyhudiError) -> tuple[object, ...]:
        twin = line(self)
        if isinstance(twin, StorageError) and isinstance(self, StorageError):
            twin.retryable = self.retryable
        return twin.__reduce__()

    members = {
        "__cause__": property(line, lambda self, cause: None),
        "__reduce__": reduce,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "_line": True,
    }
    return type(kind.__name__, (kind,), members)
