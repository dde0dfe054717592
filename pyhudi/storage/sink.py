"""The base of all sinks: a file is published when it is closed, or not at all."""

from __future__ import annotations

import io
from types import TracebackType
from typing import Self


class PublishedOnClose(io.RawIOBase):
    """A file being written; its bytes become a file when `close` succeeds.

    After an exception, `abandon`, or garbage collection it leaves no file.  Subclasses write, and
    publish in `close` unless `abandoned` is set.
    """

    abandoned = False

    def writable(self) -> bool:
        return True

    def abandon(self) -> None:
        self.abandoned = True
        self.close()

    def __del__(self) -> None:
        self.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abandon() if kind else self.close()
