"""Connections to a Hive Metastore by Thrift: releases 3.1 and 4.0, without SASL and without TLS.

thriftpy2 reads `hive_thrift.thrift`, the part of the interface that a sync and a lock need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pyhudi.errors import CatalogError
from pyhudi.libraries import load_library

_TIMEOUT_MILLIS: Final = 600_000
"""For one request, as hive.metastore.client.socket.timeout: a batch of partitions takes minutes on
a busy metastore."""
_CONNECT_MILLIS: Final = 60_000
_PLAIN: Final = (
    "if the server requires TLS (metastore.use.SSL) or Kerberos (metastore.sasl.enabled): "
    "these are not supported"
)


@cache
def interface() -> Any:
    """The structures and the service of `hive_thrift.thrift`.  Raises UserError without
    thriftpy2."""
    thriftpy2 = load_library("thriftpy2", extra="hive", needed_for="the Hive Metastore")
    path = Path(__file__).with_suffix(".thrift")
    return thriftpy2.load(str(path), module_name="pyhudi_hive_metastore_thrift")


def connect(host: str, port: int, *, timeout_millis: int = _TIMEOUT_MILLIS) -> Any:
    """A client of the metastore.  Raises CatalogError."""
    service = interface().ThriftHiveMetastore
    thrift, transport = import_module("thriftpy2.thrift"), import_module("thriftpy2.transport")
    protocol = import_module("thriftpy2.protocol").TCyBinaryProtocolFactory()
    try:
        socket = transport.TSocket(
            host,
            port,
            socket_timeout=timeout_millis,
            connect_timeout=min(timeout_millis, _CONNECT_MILLIS),
        )
        buffered = transport.TCyBufferedTransportFactory().get_transport(socket)
        buffered.open()
        return thrift.TClient(service, protocol.get_protocol(buffered))
    except (thrift.TException, OSError) as error:
        raise CatalogError(
            "the Hive Metastore cannot be reached",
            catalog=f"thrift://{host}:{port}",
            reason=getattr(error, "message", None) or str(error),
            hint="check that it runs, and its address in the options",
        ) from error


def connect_any(
    servers: Sequence[tuple[str, int]], *, timeout_millis: int = _TIMEOUT_MILLIS
) -> Any:
    """A client of the first server that accepts a connection.  Raises CatalogError."""
    for host, port in servers[:-1]:
        try:
            return connect(host, port, timeout_millis=timeout_millis)
        except CatalogError:
            continue
    return connect(*servers[-1], timeout_millis=timeout_millis)


def answer_of(
    request: Callable[[], Any],
    *,
    url: str,
    unless: str = "",
    is_first: bool = False,
    table: str | None = None,
) -> Any:
    """The answer of a request; None if it is the exception `unless`.  Raises CatalogError.

    is_first: nothing has been answered on the connection yet, so that a server of another
    protocol is a possible reason.
    """
    known = interface()
    thrift = import_module("thriftpy2.thrift")
    failures = import_module("thriftpy2.protocol.cybin")
    try:
        return request()
    except (thrift.TException, failures.ProtocolError, OSError) as error:
        kind = type(error)
        if kind.__name__ == unless:
            return None
        why = getattr(error, "message", None) or str(error) or kind.__name__
        is_answer = kind.__module__ == known.__name__ or kind is thrift.TApplicationException
        raise CatalogError(
            "the Hive Metastore failed",
            catalog=url,
            reason=_first_line(why),
            table=table,
            hint=_PLAIN if is_first and not is_answer else None,
        ) from error


def _first_line(text: object) -> str:
    return str(text).strip().partition("\n")[0]
