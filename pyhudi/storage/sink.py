"""The base of all sinks: a file is published when it is closed, or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from pyhudi.storage.filesystem import Sink

_BUFFER_BYTES: Final = 1 << 18


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


class LargeWrites:
    """A sink as an Arrow stream that collects small writes: a small Parquet file is some eighty.

    Everything is written at the end of the block; after an exception the rest is dropped.  The sink
    stays open, also when Arrow frees the stream.
    """

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        self._held: io.BytesIO | None = None
        self._stream: pa.NativeFile | None = pa.BufferedOutputStream(
            pa.PythonFile(self, mode="w"), _BUFFER_BYTES
        )

    def write(self, data: Any) -> int:
        if self._held is not None:
            return self._held.write(data)
        return len(data) if self._sink is None else self._sink.write(data)

    def tell(self) -> int:
        held = 0 if self._held is None else self._held.tell()
        return 0 if self._sink is None else self._sink.tell() + held

    @contextmanager
    def edited(self, edit: Callable[[bytes], bytes]) -> Iterator[None]:
        """What the block writes reaches the sink as `edit` returns it.  Memory: its bytes."""
        assert self._sink is not None and self._stream is not None
        self._stream.flush()
        self._held = io.BytesIO()
        try:
            yield
            self._stream.flush()
            content = edit(self._held.getvalue())
        finally:
            self._held = None
        self._sink.write(content)

    def flush(self) -> None:
        """The sink is flushed when it is closed."""

    def close(self) -> None:
        """The owner of the sink closes it."""

    def __enter__(self) -> pa.NativeFile:
        return self._stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._stream is not None:
                self._stream.flush()
        finally:
            self._sink = self._stream = None  # the stream refers to this object
