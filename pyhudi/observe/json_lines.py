"""Log records as lines of JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from pyhudi.observe.events import FACTS_KEY


class JsonLines(logging.Formatter):
    """One JSON object a record: `time` (UTC), `level`, `logger`, `message` and, of events, their
    facts."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**getattr(record, FACTS_KEY, {}), **line}, default=str)


@contextmanager
def json_logs(stream: TextIO) -> Iterator[None]:
    """Write the records of the logger `pyhudi` to a text stream while the block runs."""
    handler, log = logging.StreamHandler(stream), logging.getLogger("pyhudi")
    handler.setFormatter(JsonLines())
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
