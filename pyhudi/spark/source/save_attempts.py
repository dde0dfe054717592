"""Attempts of a save, the log of its report, and the error of a sync that failed after it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from pyhudi.errors import CatalogError, LockError, PyhudiError, StorageError, WriteConflictError
from pyhudi.options import Options, StreamOptions
from pyhudi.write.write_report import FAILED_SYNC, SCHEMA_CHANGES, WriteReport

_LOG: Final = logging.getLogger("pyhudi")


def attempted(write: Callable[[], WriteReport], options: StreamOptions) -> WriteReport:
    """Run a write; retry it after errors that a retry may resolve."""
    for left in range(options.retry_count, -1, -1):
        try:
            return write()
        except (StorageError, LockError, WriteConflictError) as error:
            if not left or not _is_retryable(error):
                raise
            _LOG.warning("retrying a batch, %d attempts left: %s", left, error)
            time.sleep(options.retry_seconds)
    raise AssertionError("the last attempt returns or raises")


def _is_retryable(error: PyhudiError) -> bool:
    return not isinstance(error, StorageError) or error.retryable


def logged(report: WriteReport, options: Options) -> None:
    """Log the report, as Spark's `save` returns nothing.

    Raises CatalogError if a catalog could not be synced, as Apache Hudi does, unless
    `hoodie.datasource.hive_sync.ignore_exceptions` is set.  The rows are committed all the same.
    """
    _LOG.info("%s", report.to_dict())
    for note in report.notes:
        if note.startswith(SCHEMA_CHANGES):
            _LOG.warning("%s; instant=%s", note, report.instant)
    failed = [note for note in report.notes if note.startswith(FAILED_SYNC)]
    if failed and not options.catalog.ignores_failures:
        raise CatalogError(
            "the rows are committed, but a catalog was not synced",
            instant=report.instant,
            reason="; ".join(failed),
            hint="call table.sync or write again when the catalog can be reached; "
            "hoodie.datasource.hive_sync.ignore_exceptions=true only logs it",
        )
