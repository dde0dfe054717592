"""Cleanup after a finished operation, which tolerates failures of the store."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.errors import PyhudiError

_LOG = logging.getLogger("pyhudi")


@contextmanager
def tolerating(what: str, place: object) -> Iterator[None]:
    """Clean up after an operation whose outcome is certain.

    A failure of the store is logged, not raised: raising would report a completed commit as failed.
    The next writer removes what remains.
    """
    try:
        yield
    except (PyhudiError, OSError) as error:
        _LOG.warning("%s of %s is not removed yet: %s", what, place, error)
