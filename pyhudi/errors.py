"""Typed errors, each with a stable code.

Every message is a lower-case sentence that says what is wrong, then the facts, then what to do:
`truncated block; path=t/.hoodie/metadata/x.hfile, offset=4096; rebuild the index`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class PyhudiError(Exception):
    """Anything pyhudi raises on purpose.

    `what` is the sentence, `facts` the keyword arguments (path, instant, offset, ...), `hint`
    what the reader can do.  Facts are attributes-by-name in `facts`, in the order given.
    """

    code: ClassVar[str] = "PYHUDI"

    def __init__(self, what: str, *, hint: str | None = None, **facts: object) -> None:
        self.what = what
        self.hint = hint
        self.facts = {name: value for name, value in facts.items() if value is not None}
        super().__init__(what, hint, self.facts)

    def __str__(self) -> str:
        parts = [self.what]
        if self.facts:
            parts.append(", ".join(f"{name}={value}" for name, value in self.facts.items()))
        if self.hint:
            parts.append(self.hint)
        return "; ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.hint, self.facts))


def _rebuild(
    kind: type[PyhudiError], what: str, hint: str | None, facts: dict[str, object]
) -> PyhudiError:
    """Errors cross process borders (Spark workers), so they pickle by their parts."""
    return kind(what, hint=hint, **facts)


class UserError(PyhudiError, ValueError):
    """The call cannot be right, whatever the table holds."""

    code = "USER"


class OptionError(UserError):
    """An option is unknown, out of range, or cannot be honoured."""

    code = "OPTION"


class SchemaError(UserError):
    """The rows do not fit the table; the message is a diff of the two schemas."""

    code = "SCHEMA"


class TableNotFoundError(PyhudiError, FileNotFoundError):
    """There is no table at the path."""

    code = "TABLE_NOT_FOUND"


class UnsupportedTableError(PyhudiError):
    """The table is of a version or uses a feature that this operation cannot serve."""

    code = "UNSUPPORTED_TABLE"


class CorruptFileError(PyhudiError):
    """Bytes on the store are not what their format allows."""

    code = "CORRUPT_FILE"


class StorageError(PyhudiError, OSError):
    """The store refused or failed; `retryable` tells whether trying again can help."""

    code = "STORAGE"

    def __init__(
        self, what: str, *, hint: str | None = None, retryable: bool = False, **facts: object
    ) -> None:
        self.retryable = retryable
        super().__init__(what, hint=hint, **facts)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_storage, (type(self), self.what, self.hint, self.retryable, self.facts))


def _rebuild_storage(
    kind: type[StorageError], what: str, hint: str | None, retryable: bool, facts: dict[str, object]
) -> StorageError:
    return kind(what, hint=hint, retryable=retryable, **facts)


class FileMissingError(StorageError, FileNotFoundError):
    """A file that was expected on the store is not there."""

    code = "FILE_MISSING"


class WriteConflictError(PyhudiError):
    """Another writer changed the same file groups first, and the retries are spent."""

    code = "WRITE_CONFLICT"


class OvertakenError(WriteConflictError):
    """A WriteConflictError that planning the same write anew may mend."""

    code = "OVERTAKEN"


class IndexNotReadyError(PyhudiError):
    """The index asked for does not exist on this table or is not complete."""

    code = "INDEX_NOT_READY"


class SnapshotExpiredError(PyhudiError):
    """The files of the snapshot asked for have been cleaned."""

    code = "SNAPSHOT_EXPIRED"


class HollowCommitError(PyhudiError):
    """A range of commits holds one that is still pending, so its rows would be missed."""

    code = "HOLLOW_COMMIT"


class LockError(PyhudiError):
    """The table's lock could not be taken in time."""

    code = "LOCK"


class MeasurementError(PyhudiError):
    """Measurements of the same differ too much to be stored."""

    code = "MEASUREMENT"


@contextmanager
def line_first() -> Iterator[None]:
    """Show the line of a PyhudiError before its traceback, to whoever prints tracebacks: PySpark
    hands nothing else of an error to the driver.  A decorator, too, of functions that are not
    generators.

    Python prints the cause of an error before the error, so the error names itself, without a
    traceback, as its cause.  PySpark removes causes, hence a class that keeps it.
    """
    try:
        yield
    except PyhudiError as error:
        error.__class__ = _with_line(type(error))
        raise


_with_lines: dict[type[PyhudiError], type[PyhudiError]] = {}


def _with_line(kind: type[PyhudiError]) -> type[PyhudiError]:
    """A class that looks like `kind`, whose instances are their own cause."""
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
