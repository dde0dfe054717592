"""The Flight SQL server: calls of Flight by gRPC, tokens, prepared statements.

gRPC is used directly because pyarrow's server reads messages of any size before it verifies the
token, and sends Python's tracebacks to clients.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as flight

from pyhudi.api.table import Table
from pyhudi.errors import PyhudiError, UserError
from pyhudi.libraries import load_library
from pyhudi.server import catalog
from pyhudi.server.messages import (
    MESSAGE_BYTES_MAX,
    Message,
    fields_bytes,
    flight_data,
    flight_data_of,
    message_bytes,
    message_of,
    stream_message,
    update_result,
)
from pyhudi.server.queries import QueryLimits
from pyhudi.server.query_pool import QueryPool
from pyhudi.server.writers import Caller, DeniedError, Writers, WriteRuns, is_write

_log = logging.getLogger("pyhudi")
_SERVICE: Final = "arrow.flight.protocol.FlightService"
_FRAME_BYTES: Final = 1024
_OTHER_CALLS: Final = 16
_PREPARED_BYTES_MAX: Final = 64 << 20
_TOKEN_CHARS_MIN: Final = 16
_FRAMES: Final = re.compile(r"\n\s*At:\n|Traceback \(most recent call last\)|\n\s*File \"")
_PLACE: Final = re.compile(r"(?<![\w./])(?:[a-z][a-z0-9]+:/)?/(?:[\w.@%+=-]+/)+[\w.@%+=-]*")
"""A path of at least two names, or a URL."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate chain and its private key, as PEM."""

    certificate: bytes
    key: bytes


class SqlServer:
    """Serves tables by Flight SQL; it runs from its creation to `shutdown`.

    tables: by name.  tokens: of clients that read; each request must have one of them, or one of a
    writer, as a bearer token; at least 16 characters.  writers: clients that may also write, with
    tokens of their own; None: all clients only read.  host: without tls, an address of this machine
    only.  port: 0 for a free one, which `port` then states.  Raises UserError for these, and for an
    address that cannot be bound.
    """

    def __init__(
        self,
        tables: Mapping[str, Table],
        *,
        tokens: Sequence[str],
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Tls | None = None,
        limits: QueryLimits | None = None,
        writers: Writers | None = None,
    ) -> None:
        _check(tokens, writers, host, tls)
        grpc = load_library("grpc", extra="server", needed_for="the Flight SQL server")
        limits = limits or QueryLimits()
        self._tables = {name.lower(): table for name, table in tables.items()}
        self._prepared = _PreparedStatements()
        self._tokens = [(token.encode(), None) for token in tokens] + [
            (token.encode(), name) for name, token in (writers.tokens if writers else {}).items()
        ]
        self._writes = None if writers is None else WriteRuns(tables, writers)
        self._queries = QueryPool(tables, limits)
        calls = limits.queries + (writers.limits.writes if writers else 0) + _OTHER_CALLS
        self._server = grpc.server(
            ThreadPoolExecutor(calls, thread_name_prefix="pyhudi-call"),
            interceptors=[_tokens(grpc, self._token)],
            options=[
                ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX + _FRAME_BYTES),
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=calls,
        )
        self._server.add_generic_rpc_handlers((_service(grpc, self),))
        scheme = "grpc" if tls is None else "grpc+tls"
        address = f"[{host}]" if ":" in host else host
        try:
            self.port: int = _bind(grpc, self._server, f"{address}:{port}", tls)
        except (RuntimeError, ValueError) as refused:
            self._close()
            raise UserError(
                "the server cannot listen", host=host, port=port, reason=str(refused)[:500]
            ) from refused
        self._server.start()
        self.url = f"{scheme}://{address}:{self.port}"

    def __enter__(self) -> SqlServer:
        return self

    def __exit__(self, *failed: object) -> None:
        self.shutdown()

    def serve(self) -> None:
        """Return when the server has ended."""
        self._server.wait_for_termination()

    def shutdown(self) -> None:
        """End the server, its queries and its writes."""
        stopped = self._server.stop(grace=0)
        self._close()
        stopped.wait()

    def _close(self) -> None:
        self._queries.close()
        if self._writes is not None:
            self._writes.close()

    def get_flight_info(self, request: bytes, context: Any) -> bytes:
        """Where the result of a command is read.  A write is run: drivers send any statement so,
        and some read no result; the number of its rows is the answer's."""
        descriptor = _descriptor(request)
        command = message_of(descriptor.command or b"")
        caller = self._caller(context)
        write = self._write_of(command, caller)
        if write is not None:
            rows = self._run(write, caller, context)
            return bytes(flight.FlightInfo(pa.schema([]), descriptor, [], rows, -1).serialize())
        schema, ticket = self._planned(command, descriptor.command, caller)
        endpoint = flight.FlightEndpoint(flight.Ticket(ticket), [])
        return bytes(flight.FlightInfo(schema, descriptor, [endpoint], -1, -1).serialize())

    def get_schema(self, request: bytes, context: Any) -> bytes:
        """The columns of the result of a command."""
        descriptor = _descriptor(request)
        command = message_of(descriptor.command or b"")
        caller = self._caller(context)
        if self._write_of(command, caller) is not None:
            return bytes(flight.SchemaResult(pa.schema([])).serialize())
        schema = self._planned(command, descriptor.command, caller)[0]
        return bytes(flight.SchemaResult(schema).serialize())

    def do_get(self, request: bytes, context: Any) -> Iterator[bytes]:
        """The rows of a result."""
        command = message_of(_parsed(flight.Ticket, request).ticket)
        if command.name in _METADATA:
            for metadata, body in _messages(_METADATA[command.name](self, command)):
                yield flight_data(metadata, body)
            return
        statement = self._statement(command, self._caller(context))
        parts = self._queries.rows(
            statement.query,
            statement.parameters,
            is_cancelled=lambda: not context.is_active(),
            on_unread=context.cancel,
        )
        with closing(parts):
            for metadata, body in parts:
                yield flight_data(metadata, body)

    def do_action(self, request: bytes, context: Any) -> Iterator[bytes]:
        """Make and close prepared statements."""
        action, caller = _parsed(flight.Action, request), self._caller(context)
        if action.type in _REFUSED:
            raise UserError(_REFUSED[action.type], action=action.type)
        body = message_of(action.body.to_pybytes())
        if action.type == "CreatePreparedStatement":
            if body.data(2):
                raise UserError(_NO_TRANSACTIONS)
            yield bytes(flight.Result(self._prepare(body.text(1) or "", caller)).serialize())
        elif action.type == "ClosePreparedStatement":
            self._prepared.discard(body.data(1) or b"", caller)
        else:
            raise UserError("the action is not supported", action=action.type[:100])

    def list_actions(self, request: bytes, context: Any) -> Iterator[bytes]:
        """The actions of `do_action`."""
        for name, meaning in (
            ("CreatePreparedStatement", b"make a prepared statement"),
            ("ClosePreparedStatement", b"close a prepared statement"),
        ):
            yield fields_bytes({1: name.encode(), 2: meaning})

    def do_put(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Bind the parameters of a prepared statement, or run a write."""
        descriptor, stream = _uploaded(requests)
        command, caller = message_of(descriptor.command or b""), self._caller(context)
        if command.name == "CommandPreparedStatementQuery":
            self._prepared.bind(command.data(1) or b"", stream, caller)
            return
        if self._writes is None:
            raise UserError("the server is read only", command=command.name[:100])
        if command.name == "CommandStatementUpdate":
            if command.data(2):
                raise UserError(_NO_TRANSACTIONS)
            write = Prepared(command.text(1) or "")
        elif command.name == "CommandPreparedStatementUpdate":
            write = self._prepared.get(command.data(1) or b"", caller)
            if stream:
                write = replace(write, parameters=stream)
        else:
            raise UserError(
                "the command is not supported",
                command=command.name[:100],
                hint="write by INSERT, UPDATE, DELETE and MERGE",
            )
        yield update_result(self._run(write, caller, context))

    def list_flights(self, request: bytes, context: Any) -> Iterator[bytes]:
        """Nothing: clients of Flight SQL request lists of tables instead."""
        return iter(())

    def handshake(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Nothing: the JDBC driver begins with a handshake, whose bearer token is verified, as that
        of each later request."""
        return iter(())

    def _token(self, metadata: Any) -> int | None:
        """The number of the token of a request, a writer's before others; None without one."""
        given = [
            text.removeprefix("Bearer ").encode()
            for name, text in metadata
            if name.lower() == "authorization"
            and isinstance(text, str)
            and text.startswith("Bearer ")
        ]
        equal = [
            [hmac.compare_digest(one, token) for one in given] for token, _ in self._tokens
        ]  # each is compared, so that the time tells nothing about the tokens
        found = [number for number, found in enumerate(equal) if True in found]
        return max(found, default=None)

    def _caller(self, context: Any) -> Caller:
        token = self._token(context.invocation_metadata())
        assert token is not None  # the request was let in
        return Caller(token, self._tokens[token][1], str(context.peer()))

    def _write_of(self, command: Message, caller: Caller) -> Prepared | None:
        """The write in a command of a query; None for a query, and where nothing is writable."""
        if self._writes is None or command.name not in _STATEMENTS:
            return None
        statement = self._statement(command, caller)
        return statement if is_write(statement.query) else None

    def _run(self, write: Prepared, caller: Caller, context: Any) -> int:
        assert self._writes is not None
        return self._writes.run(
            caller,
            write.query,
            write.parameters,
            is_cancelled=lambda: not context.is_active(),
        )

    def _planned(self, command: Message, text: bytes, caller: Caller) -> tuple[pa.Schema, bytes]:
        """The columns of a command's result, and the ticket for its rows."""
        if command.name in _METADATA:
            return _METADATA[command.name](self, command).schema, text
        statement = self._statement(command, caller)
        if command.name == "CommandStatementQuery":
            text = message_bytes("TicketStatementQuery", {1: statement.query.encode()})
        return self._schema(statement), text

    def _schema(self, statement: Prepared) -> pa.Schema:
        metadata = self._queries.schema(statement.query, statement.parameters)
        return pa.ipc.read_schema(pa.py_buffer(stream_message(metadata)))

    def _statement(self, command: Message, caller: Caller) -> Prepared:
        if command.name == "CommandStatementQuery" and command.data(2):
            raise UserError(_NO_TRANSACTIONS)
        if command.name in ("CommandStatementQuery", "TicketStatementQuery"):
            return Prepared(command.text(1) or "")
        if command.name == "CommandPreparedStatementQuery":
            return self._prepared.get(command.data(1) or b"", caller)
        raise UserError("the command is not supported", command=command.name[:100])

    def _prepare(self, query: str, caller: Caller) -> bytes:
        schema = pa.schema([])  # of a write none, by which drivers know it
        if self._writes is not None and is_write(query):
            count = self._writes.parameter_count(caller, query)
        else:
            count = self._queries.parameter_count(query)
            schema = schema if count else self._schema(Prepared(query))
        expected = pa.schema([pa.field(str(n + 1), pa.string()) for n in range(count)])
        handle = self._prepared.add(query, caller)
        return message_bytes(
            "ActionCreatePreparedStatementResult",
            {1: handle, 2: schema.serialize().to_pybytes(), 3: expected.serialize().to_pybytes()},
        )

    def _table_rows(self, command: Message) -> pa.Table:
        return catalog.tables_of(
            self._tables,
            command.text(1),
            command.text(2),
            command.text(3),
            command.texts(4),
            with_schema=command.flag(5),
        )


_METADATA: Final[Mapping[str, Callable[[SqlServer, Message], pa.Table]]] = {
    "CommandGetCatalogs": lambda server, command: catalog.catalogs(),
    "CommandGetDbSchemas": lambda server, command: catalog.db_schemas(
        command.text(1), command.text(2)
    ),
    "CommandGetTables": lambda server, command: server._table_rows(command),
    "CommandGetTableTypes": lambda server, command: catalog.table_types(),
    "CommandGetSqlInfo": lambda server, command: catalog.sql_info(
        command.numbers(1), read_only=server._writes is None
    ),
}
_STATEMENTS: Final = frozenset({"CommandStatementQuery", "CommandPreparedStatementQuery"})
_NO_TRANSACTIONS: Final = "the server has no transactions: each statement is committed as it ends"
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("BeginTransaction", "EndTransaction", "BeginSavepoint", "EndSavepoint"), _NO_TRANSACTIONS
    ),
    "CreatePreparedSubstraitPlan": "the server runs statements of SQL, no plans",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared statement.  parameters: an Arrow stream; None until the client binds them.
    token: of the client that made it."""

    query: str
    parameters: bytes | None = None
    token: int | None = None

    @property
    def size(self) -> int:
        """Its bytes in memory."""
        return len(self.query) * 4 + len(self.parameters or b"") + 200


class _PreparedStatements:
    """The newest prepared statements by handle, up to `_PREPARED_BYTES_MAX`.  Safe for threads.

    A client finds only statements that were made with its token.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Prepared] = OrderedDict()
        self._guard = threading.Lock()
        self._size = 0

    def get(self, handle: bytes, caller: Caller) -> Prepared:
        with self._guard:
            found = self._known.get(handle)
        if found is None or found.token != caller.token:
            raise UserError("unknown prepared statement", hint="prepare it again")
        return found

    def add(self, query: str, caller: Caller) -> bytes:
        handle = secrets.token_bytes(16)
        self._put(handle, Prepared(query, token=caller.token))
        return handle

    def bind(self, handle: bytes, parameters: bytes, caller: Caller) -> None:
        self._put(handle, replace(self.get(handle, caller), parameters=parameters))

    def discard(self, handle: bytes, caller: Caller) -> None:
        with self._guard:
            found = self._known.get(handle)
            if found is not None and found.token == caller.token:
                self._remove(handle)

    def _put(self, handle: bytes, statement: Prepared) -> None:
        with self._guard:
            self._remove(handle)
            self._known[handle] = statement
            self._size += statement.size
            while self._size > _PREPARED_BYTES_MAX and len(self._known) > 1:
                self._remove(next(iter(self._known)))

    def _remove(self, handle: bytes) -> None:
        removed = self._known.pop(handle, None)
        self._size -= removed.size if removed else 0


def _service(grpc: Any, server: SqlServer) -> Any:
    """The calls of Flight that the server answers; others are unimplemented."""
    single = grpc.unary_unary_rpc_method_handler
    stream = grpc.unary_stream_rpc_method_handler
    streams = grpc.stream_stream_rpc_method_handler
    handlers = {
        "GetFlightInfo": single(_single(grpc, server.get_flight_info)),
        "GetSchema": single(_single(grpc, server.get_schema)),
        "DoGet": stream(_stream(grpc, server.do_get)),
        "DoAction": stream(_stream(grpc, server.do_action)),
        "ListActions": stream(_stream(grpc, server.list_actions)),
        "ListFlights": stream(_stream(grpc, server.list_flights)),
        "DoPut": streams(_stream(grpc, server.do_put)),
        "Handshake": streams(_stream(grpc, server.handshake)),
    }
    return grpc.method_handlers_generic_handler(_SERVICE, handlers)


def _single(grpc: Any, call: Callable[..., bytes]) -> Callable[..., bytes]:
    def answer(request: Any, context: Any) -> bytes:
        with _Statuses(grpc, context):
            return call(request, context)
        raise AssertionError("the call was aborted")

    return answer


def _stream(grpc: Any, call: Callable[..., Iterator[bytes]]) -> Callable[..., Iterator[bytes]]:
    def answer(request: Any, context: Any) -> Iterator[bytes]:
        with _Statuses(grpc, context):
            yield from call(request, context)

    return answer


def public_text(text: str) -> str:
    """The text of an error for clients: without the frames of Python that DuckDB and Arrow add, and
    without places on the server."""
    return _PLACE.sub("(a file of the server)", _FRAMES.split(text, maxsplit=1)[0].rstrip())


class _Statuses:
    """Ends a call with an error as a status of gRPC, without traceback or places on the server."""

    def __init__(self, grpc: Any, context: Any) -> None:
        self._codes = grpc.StatusCode
        self._left = grpc.RpcError
        self._context = context

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, (GeneratorExit, self._left)):
            return
        if isinstance(error, DeniedError):
            self._context.abort(self._codes.PERMISSION_DENIED, public_text(str(error)))
        if isinstance(error, UserError):
            self._context.abort(self._codes.INVALID_ARGUMENT, public_text(str(error)))
        if isinstance(error, PyhudiError):
            text = public_text(f"{error.code}: {error.what}")
            self._context.abort(self._codes.INTERNAL, text)
        _log.error("a call of the Flight SQL server failed", exc_info=error)
        self._context.abort(self._codes.INTERNAL, "an internal error; see the server's log")


def _bind(grpc: Any, server: Any, address: str, tls: Tls | None) -> int:
    """The port.  Raises RuntimeError or ValueError if the address or the certificate is refused."""
    if tls is None:
        port = server.add_insecure_port(address)
    else:
        pairs = [(tls.key, tls.certificate)]
        port = server.add_secure_port(address, grpc.ssl_server_credentials(pairs))
    if not port:
        raise RuntimeError("the address or the certificate is not usable")
    return int(port)


def _tokens(grpc: Any, token_of: Callable[[Any], int | None]) -> Any:
    """Rejects requests without a token, before it reads their messages."""

    def refuse(request: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "the request has no valid bearer token")

    # Of a stream no message is read before the handler runs.
    refusal = grpc.stream_stream_rpc_method_handler(refuse)

    class Tokens(grpc.ServerInterceptor):  # type: ignore[misc]
        def intercept_service(self, proceed: Any, details: Any) -> Any:
            is_known = token_of(details.invocation_metadata) is not None
            return proceed(details) if is_known else refusal

    return Tokens()


def _uploaded(requests: Iterator[bytes]) -> tuple[Any, bytes]:
    """The descriptor of an upload, and its Arrow stream.  Raises UserError if it is too long."""
    descriptor, parts, size = None, [], 0
    for request in requests:
        found, part = flight_data_of(request)
        descriptor = found if descriptor is None else descriptor
        size += len(part)
        if size > MESSAGE_BYTES_MAX:
            raise UserError("the parameters are too long", bytes=size)
        parts.append(part)
    return _descriptor(descriptor or b""), b"".join(parts)


def _messages(rows: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """The messages of an Arrow stream of rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
        body = message.body
        yield message.metadata.to_pybytes(), b"" if body is None else body.to_pybytes()


def _descriptor(data: bytes) -> Any:
    return _parsed(flight.FlightDescriptor, data)


def _parsed(kind: Any, data: bytes) -> Any:
    """A message of Flight.  Raises UserError for a damaged one."""
    try:
        return kind.deserialize(data)
    except (pa.ArrowException, ValueError) as damaged:
        raise UserError("the message is damaged", message=kind.__name__) from damaged


def _check(tokens: Sequence[str], writers: Writers | None, host: str, tls: Tls | None) -> None:
    of_writers = list(writers.tokens.values()) if writers is not None else []
    every = [*tokens, *of_writers]
    if isinstance(tokens, str) or not every or min(map(len, every)) < _TOKEN_CHARS_MIN:
        raise UserError("tokens have at least 16 characters", hint="secrets.token_urlsafe()")
    if len(set(every)) < len(tokens) + len(of_writers):
        raise UserError(
            "two clients have one token",
            hint="give each its own; a token of a reader never writes",
        )
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if tls is None and not is_local:
        raise UserError(
            "a server that other machines reach needs TLS", host=host, hint="pass a certificate"
        )
