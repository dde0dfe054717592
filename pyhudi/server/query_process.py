"""A process that runs the statements of the server, one after another: queries, or writes.

`query_pool` starts it and ends it.  The process first reads what runs them, `Queries` or `Writes`
with the tables and the limits, pickled by the server, then requests; it answers each with frames:

    request   uint32 length, then a pickled (kind, text, parameters, metadata)
              kinds: SCHEMA, COUNT, ROWS of queries; COUNT, WRITE of writes
              parameters: None, or an Arrow stream; metadata: of the commit
    frame     1 byte kind, uint32 length, then the content, big-endian
              M  a message of an Arrow stream: uint32 length of its metadata, metadata, body
              N  a number, as text
              F  facts about a write: a JSON object
              E  an error: JSON with `code` and `text`
              Z  the end of the answer

Requests are pickled because the server makes them.  Answers are not: a client's query, which could
exploit a fault of DuckDB, runs here.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

SCHEMA: Final = "schema"
COUNT: Final = "count"
ROWS: Final = "rows"
WRITE: Final = "write"
MESSAGE: Final = b"M"
NUMBER: Final = b"N"
FACTS: Final = b"F"
ERROR: Final = b"E"
END: Final = b"Z"
FRAME: Final = struct.Struct(">cI")
LENGTH: Final = struct.Struct(">I")

_EXTRA_BYTES: Final = 256 << 20
_GRACE_SECONDS: Final = 5.0


def main() -> None:
    """Answer requests until the server closes the pipe."""
    requests, answers = _pipes()
    try:
        _serve(_read(requests) or b"", requests, answers)
    except BrokenPipeError:  # the server has ended
        os._exit(0)


def _serve(setup: bytes, requests: BinaryIO, answers: BinaryIO) -> None:
    from pyhudi.errors import PyhudiError
    from pyhudi.storage.operating_system import ends_after, limit_memory

    try:
        make, tables, limits, *more = pickle.loads(setup)
        runner = make(tables, limits, *more)
    except PyhudiError as failed:
        _send_error(answers, failed, {})
        return
    # A quarter more for the rows that pyhudi reads.  Without the limit only DuckDB's own one holds.
    limit_memory(limits.memory_bytes + limits.memory_bytes // 4 + _EXTRA_BYTES)
    _send(answers, END)
    while request := _read(requests):
        with ends_after(limits.seconds + _GRACE_SECONDS):
            try:
                _answer(runner, answers, *pickle.loads(request))
                _send(answers, END)
            except PyhudiError as failed:
                _send_error(answers, failed, tables)


def _answer(
    runner: Any,
    answers: BinaryIO,
    kind: str,
    text: str,
    given: bytes | None,
    metadata: Mapping[str, str],
) -> None:
    parameters = _parameters(given)
    if kind == COUNT:
        _send(answers, NUMBER, str(runner.parameter_count(text)).encode())
    elif kind == WRITE:
        for facts in runner.run(text, parameters, metadata):
            _send(answers, FACTS, json.dumps(facts).encode())
    elif kind == SCHEMA:
        with _Messages(answers, runner.schema(text, _one_row(parameters))):
            pass
    else:
        with (
            runner.batches(text, _one_row(parameters)) as (schema, batches),
            _Messages(answers, schema) as out,
        ):
            for batch in batches:
                out.write(batch)


class _Messages:
    """Sends batches as the messages of an Arrow stream, the columns first."""

    def __init__(self, answers: BinaryIO, schema: Any) -> None:
        import pyarrow as pa

        self._answers = answers
        self._buffer = _Collected()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._buffer, mode="w"), schema)
        self._send(pa.ipc.read_message(schema.serialize()))

    def __enter__(self) -> _Messages:
        return self

    def write(self, batch: Any) -> None:
        """Send a batch, after the dictionaries that it needs."""
        import pyarrow as pa

        self._writer.write_batch(batch)
        for message in pa.ipc.MessageReader.open_stream(self._buffer.take()):
            if message.type != "schema":  # which precedes the first batch
                self._send(message)

    def __exit__(self, *failed: object) -> None:
        self._writer.close()

    def _send(self, message: Any) -> None:
        metadata, body = message.metadata, message.body
        parts = (LENGTH.pack(metadata.size), metadata, body if body is not None else b"")
        _send(self._answers, MESSAGE, *parts)


class _Collected:
    """A file that is written, and emptied by `take`."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def flush(self) -> None:
        return

    def close(self) -> None:
        return

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


def _parameters(given: bytes | None) -> Any:
    """The rows of an Arrow stream, which a client sent."""
    import pyarrow as pa

    from pyhudi.errors import UserError

    if given is None:
        return None
    try:
        with pa.ipc.open_stream(given) as reader:
            rows = reader.read_all()
            rows.validate(full=True)
    except (pa.ArrowException, OSError) as damaged:
        raise UserError("the parameters cannot be read", reason=str(damaged)[:500]) from damaged
    return rows


def _one_row(rows: Any) -> Sequence[Any] | None:
    """The values of the parameters of a query."""
    from pyhudi.errors import UserError

    if rows is None or not rows.num_rows:
        return None
    if rows.num_rows > 1:
        raise UserError("one row of parameters is supported", rows=rows.num_rows)
    return [column[0].as_py() for column in rows.columns]


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes of the server.  What a library prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "wb", buffering=1 << 16)
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def _read(pipe: BinaryIO) -> bytes | None:
    """The next request; None at the end."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    return pipe.read(length)


def _send(answers: BinaryIO, kind: bytes, *parts: Any) -> None:
    answers.write(FRAME.pack(kind, sum(memoryview(part).nbytes for part in parts)))
    for part in parts:
        answers.write(part)
    answers.flush()


def _send_error(answers: BinaryIO, failed: Any, tables: Mapping[str, Any]) -> None:
    """The error without places on the server: a table's path is its name for clients, and errors
    that no client caused are sent without their facts."""
    from pyhudi.errors import UserError

    text = str(failed) if isinstance(failed, UserError) else f"{failed.code}: {failed.what}"
    for name, table in tables.items():
        text = text.replace(str(table.path), name)
    _send(answers, ERROR, json.dumps({"code": failed.code, "text": text}).encode())


if __name__ == "__main__":
    main()
