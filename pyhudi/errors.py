"""Typed errors, each with a stable code.

Every message is a lower-case sentence that states the problem, then the facts, then the remedy:
`truncated block; path=t/.hoodie/metadata/x.hfile, offset=4096; rebuild the index`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class PyhudiError(Exception):
    """Base class of all errors that pyhudi raises deliberately.

    what: the sentence that states the problem.  facts: the keyword arguments (path, instant,
    offset, ...) by name, in the order given, without those that are None.  hint: what the user
    can do.
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
        return "; ".join(parts).encode("utf-8", "backslashreplace").decode()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.hint, self.facts))


def _rebuild(
    kind: type[PyhudiError], what: str, hint: str | None, facts: dict[str, object]
) -> PyhudiError:
    """Rebuild an error from its parts: errors are pickled between processes (Spark workers)."""
    return kind(what, hint=hint, **facts)


class UserError(PyhudiError, ValueError):
    """The call is invalid, independent of the contents of the table."""

    code = "USER"


class OptionError(UserError):
    """An option is unknown, out of range or not supported here."""

    code = "OPTION"


class SchemaError(UserError):
    """The rows do not match the table's schema; the message is a diff of the two schemas."""

    code = "SCHEMA"


class TableNotFoundError(PyhudiError, FileNotFoundError):
    """No table exists at the path."""

    code = "TABLE_NOT_FOUND"


class UnsupportedTableError(PyhudiError):
    """The table's version, or a feature it uses, is not supported by this operation."""

    code = "UNSUPPORTED_TABLE"


class CorruptFileError(PyhudiError):
    """The contents of a file violate its format."""

    code = "CORRUPT_FILE"


class StorageError(PyhudiError, OSError):
    """The storage rejected a request or failed; retryable: whether a retry can succeed."""

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
    """An expected file does not exist in the storage."""

    code = "FILE_MISSING"


class WriteConflictError(PyhudiError):
    """Another writer changed the same file groups first, and no retries are left."""

    code = "WRITE_CONFLICT"


class OvertakenError(WriteConflictError):
    """A WriteConflictError that may be resolved by planning the same write again."""

    code = "OVERTAKEN"


class CheckpointMovedError(WriteConflictError):
    """The table has another checkpoint than the one that the rows of an ingest follow."""

    code = "CHECKPOINT_MOVED"


class BadRowsError(PyhudiError):
    """Rows of a source cannot be decoded or do not fit the table, and the ingest allows none."""

    code = "BAD_ROWS"


class CheckFailedError(PyhudiError):
    """A check of a batch or of the changed table failed, so the commit was stopped."""

    code = "CHECK_FAILED"


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A lost race as a value: another process changed what a transaction was planned on.

    error: the reason; raised only where nothing plans the transaction again.
    """

    error: OvertakenError


class IndexNotReadyError(PyhudiError):
    """The requested index does not exist on this table or is incomplete."""

    code = "INDEX_NOT_READY"


class SnapshotExpiredError(PyhudiError):
    """Files of the requested snapshot have been removed by cleaning."""

    code = "SNAPSHOT_EXPIRED"


class SourceDataLostError(PyhudiError):
    """Data that follows the checkpoint of an ingest is no longer in its source."""

    code = "SOURCE_DATA_LOST"


class HollowCommitError(PyhudiError):
    """A range of commits contains a pending one, whose rows would be missed."""

    code = "HOLLOW_COMMIT"


class CatalogError(PyhudiError):
    """A catalog cannot be reached, or rejected a request; the table itself is unchanged."""

    code = "CATALOG"


class LockError(PyhudiError):
    """The table's lock could not be acquired in time."""

    code = "LOCK"


class MeasurementError(PyhudiError):
    """Repeated measurements differ too much to be stored."""

    code = "MEASUREMENT"
