"""What a finished operation leaves behind where the store fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.errors import PyhudiError

_LOG = logging.getLogger("pyhudi")


@contextmanager
def tolerating(what: str, place: object) -> Iterator[None]:
    """Around cleaning up after something whose outcome is certain.

    A failure of the store is logged, not raised: it would report a commit that stands as failed.
    What stays behind is removed by the next writer.
    """
    try:
        yield
    except (PyhudiError, OSError) as error:
        _LOG.warning("%s of %s stays for now: %s", what, place, error)
