"""Attempts of a save, and the log of its report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from pyhudi.errors import LockError, PyhudiError, StorageError, WriteConflictError
from pyhudi.options import StreamOptions
from pyhudi.write.write_report import SCHEMA_CHANGES, WriteReport

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


def logged(report: WriteReport) -> None:
    """Log the report, as Spark's `save` returns nothing."""
    _LOG.info("%s", report.to_dict())
    for note in report.notes:
        if note.startswith(SCHEMA_CHANGES):
            _LOG.warning("%s; instant=%s", note, report.instant)
