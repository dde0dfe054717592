"""The Flight SQL server."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as flight

from pyhudi.api.table import Table
from pyhudi.errors import PyhudiError, UserError
from pyhudi.server import catalog
from pyhudi.server.messages import Message, message_bytes, message_of
from pyhudi.server.queries import Queries, QueryLimits

_PREPARED_MAX: Final = 1000
_TOKEN_CHARS_MIN: Final = 16


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate chain and its private key, as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A prepared statement.  parameters: None until the client binds them."""

    query: str
    parameters: tuple[Any, ...] | None = None


class SqlServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves tables by Flight SQL, read only; it runs from its creation to `shutdown`.

    tables: by name.  tokens: each request must have one of them, as a bearer token; at least 16
    characters.  host: without tls, an address of this machine only.  port: 0 for a free one, which
    `port` then states.  Raises UserError for these, and for an address that cannot be bound.
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
    ) -> None:
        _check(tokens, host, tls)
        self._queries = Queries(tables, limits or QueryLimits())
        self._prepared: OrderedDict[bytes, _Prepared] = OrderedDict()
        self._guard = threading.Lock()
        scheme = "grpc" if tls is None else "grpc+tls"
        address = f"[{host}]" if ":" in host else host
        try:
            super().__init__(
                f"{scheme}://{address}:{port}",
                tls_certificates=None if tls is None else [(tls.certificate, tls.key)],
                middleware={"token": _Tokens(tokens)},
                auth_handler=_Handshake(),
            )
        except (pa.ArrowException, OSError) as refused:
            self._queries.close()
            raise UserError(
                "the server cannot listen", host=host, port=port, reason=str(refused)[:500]
            ) from refused
        self.url = f"{scheme}://{address}:{self.port}"

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Where the result of a command is read."""
        with _answered():
            command = message_of(descriptor.command or b"")
            schema, ticket = self._planned(command, descriptor.command)
            endpoint = flight.FlightEndpoint(ticket, [])
            return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The columns of the result of a command."""
        with _answered():
            command = message_of(descriptor.command or b"")
            return flight.SchemaResult(self._planned(command, descriptor.command)[0])

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of a result."""
        with _answered():
            command = message_of(ticket.ticket)
            if command.name in _METADATA:
                return flight.RecordBatchStream(_METADATA[command.name](self, command))
            statement = self._statement(command)
            schema = self._queries.schema(statement.query, statement.parameters)
            return flight.GeneratorStream(schema, self._rows(statement, context))

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Make and close prepared statements."""
        with _answered():
            request = message_of(action.body.to_pybytes())
            if action.type == "CreatePreparedStatement":
                return iter([flight.Result(self._prepare(request.text(1) or ""))])
            if action.type == "ClosePreparedStatement":
                with self._guard:
                    self._prepared.pop(request.data(1) or b"", None)
                return iter(())
            raise UserError("the action is not supported", action=action.type[:100])

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """The actions of `do_action`."""
        return [
            ("CreatePreparedStatement", "make a prepared statement"),
            ("ClosePreparedStatement", "close a prepared statement"),
        ]

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Bind the parameters of a prepared statement."""
        with _answered():
            command = message_of(descriptor.command or b"")
            if command.name != "CommandPreparedStatementQuery":
                raise UserError("the server is read only", command=command.name[:100])
            handle = command.data(1) or b""
            statement = self._known(handle)
            found: list[tuple[Any, ...]] = []
            for chunk in reader:
                found += [tuple(row.values()) for row in chunk.data.slice(0, 2).to_pylist()]
                if len(found) > 1:
                    raise UserError("one row of parameters is supported")
            with self._guard:
                self._prepared[handle] = _Prepared(statement.query, found[0] if found else None)

    def shutdown(self) -> None:
        """End the server."""
        super().shutdown()
        self._queries.close()

    def _planned(self, command: Message, text: bytes) -> tuple[pa.Schema, Any]:
        """The columns of a command's result, and the ticket for its rows."""
        if command.name in _METADATA:
            return _METADATA[command.name](self, command).schema, flight.Ticket(text)
        statement = self._statement(command)
        if command.name == "CommandStatementQuery":
            text = message_bytes("TicketStatementQuery", {1: statement.query.encode()})
        schema = self._queries.schema(statement.query, statement.parameters)
        return schema, flight.Ticket(text)

    def _statement(self, command: Message) -> _Prepared:
        if command.name in ("CommandStatementQuery", "TicketStatementQuery"):
            return _Prepared(command.text(1) or "")
        if command.name == "CommandPreparedStatementQuery":
            return self._known(command.data(1) or b"")
        raise UserError("the command is not supported", command=command.name[:100])

    def _known(self, handle: bytes) -> _Prepared:
        with self._guard:
            found = self._prepared.get(handle)
        if found is None:
            raise UserError("unknown prepared statement", hint="prepare it again")
        return found

    def _prepare(self, query: str) -> bytes:
        count = self._queries.parameter_count(query)
        schema = pa.schema([]) if count else self._queries.schema(query)
        expected = pa.schema([pa.field(str(n + 1), pa.string()) for n in range(count)])
        handle = secrets.token_bytes(16)
        with self._guard:
            self._prepared[handle] = _Prepared(query)
            while len(self._prepared) > _PREPARED_MAX:
                self._prepared.popitem(last=False)
        return message_bytes(
            "ActionCreatePreparedStatementResult",
            {1: handle, 2: schema.serialize().to_pybytes(), 3: expected.serialize().to_pybytes()},
        )

    def _rows(self, statement: _Prepared, context: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a statement, until the call of the client ends or is cancelled."""
        with _answered():
            yield from self._queries.batches(
                statement.query, statement.parameters, is_cancelled=context.is_cancelled
            )

    def _tables(self, command: Message) -> pa.Table:
        return catalog.tables_of(
            self._queries.tables, command.text(1), command.text(2), command.text(3),
            command.texts(4), with_schema=command.flag(5),
        )  # fmt: skip


_METADATA: Final[Mapping[str, Callable[[SqlServer, Message], pa.Table]]] = {
    "CommandGetCatalogs": lambda server, command: catalog.catalogs(),
    "CommandGetDbSchemas": lambda server, command: catalog.db_schemas(
        command.text(1), command.text(2)
    ),
    "CommandGetTables": lambda server, command: server._tables(command),
    "CommandGetTableTypes": lambda server, command: catalog.table_types(),
    "CommandGetSqlInfo": lambda server, command: catalog.sql_info(command.numbers(1)),
}


class _Tokens(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Rejects requests without a token."""

    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__()
        self._tokens = [token.encode() for token in tokens]

    def start_call(self, info: Any, headers: Mapping[str, Sequence[Any]]) -> None:
        given = [
            text.removeprefix("Bearer ").encode()
            for name, texts in headers.items()
            if name.lower() == "authorization"
            for text in texts
            if isinstance(text, str) and text.startswith("Bearer ")
        ]
        known = [hmac.compare_digest(one, token) for one in given for token in self._tokens]
        if not any(known):
            raise flight.FlightUnauthenticatedError("the request has no valid bearer token")


class _Handshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Answers the handshake with which the JDBC driver begins.  `_Tokens` has verified its bearer
    token, and verifies that of each later request."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        return

    def is_valid(self, token: bytes) -> bytes:
        return b""


def _check(tokens: Sequence[str], host: str, tls: Tls | None) -> None:
    if isinstance(tokens, str) or not tokens or min(map(len, tokens)) < _TOKEN_CHARS_MIN:
        raise UserError("tokens have at least 16 characters", hint="secrets.token_urlsafe()")
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if tls is None and not is_local:
        raise UserError(
            "a server that other machines reach needs TLS", host=host, hint="pass a certificate"
        )


@contextmanager
def _answered() -> Iterator[None]:
    """Errors of pyhudi as errors of Flight, without the causes on the server."""
    try:
        yield
    except UserError as wrong:
        raise pa.ArrowInvalid(str(wrong)) from None
    except PyhudiError as failed:
        raise flight.FlightServerError(f"{failed.code}: {failed.what}") from None
