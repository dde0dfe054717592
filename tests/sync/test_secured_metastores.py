"""Servers that require TLS or Kerberos: the error names these as a possible reason."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TMemoryBuffer

from pyhudi.errors import CatalogError, StorageError
from pyhudi.storage.locks.hive_lock import HiveLockPlace, HiveMetastoreMutex
from pyhudi.sync.hive_metastore import HiveMetastore
from tests.support.fake_metastore import metastore


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that answers each connection so, and closes it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted = listening.accept()[0]
                with contextlib.suppress(OSError), accepted:
                    answer(accepted)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def sasl(accepted: socket.socket) -> None:
    """As Thrift's server transport: the first byte is no status of a negotiation."""
    accepted.recv(5)
    why = b"Invalid status -128"
    accepted.sendall(b"\x04" + len(why).to_bytes(4, "big") + why)


def tls_of(folder: Path) -> Callable[[socket.socket], None]:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def answer(accepted: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLError):
            context.wrap_socket(accepted, server_side=True).close()

    return answer


@pytest.fixture(params=["tls", "sasl", "closes"])
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    if request.param == "tls" and shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    answers = {"sasl": sasl, "closes": lambda accepted: None}
    answer = tls_of(tmp_path) if request.param == "tls" else answers[request.param]
    with serving(answer) as found:
        yield found


def test_a_sync_names_tls_and_kerberos(port: int) -> None:
    catalog = HiveMetastore(f"thrift://127.0.0.1:{port}")
    for _ in range(2):
        with pytest.raises(CatalogError, match="failed") as caught:
            catalog.has_database("db")
        assert "TLS" in str(caught.value) and "Kerberos" in str(caught.value)


def test_a_lock_names_tls_and_kerberos(port: int) -> None:
    mutex = HiveMetastoreMutex(HiveLockPlace((("127.0.0.1", port),), "db", "t"))
    with pytest.raises(StorageError, match="does not lock") as caught:
        mutex.acquire(0)
    assert "TLS" in str(caught.value) and "Kerberos" in str(caught.value)


def fails_inside(accepted: socket.socket) -> None:
    """As a metastore whose catalog has no tables of locks."""
    accepted.recv(1000)
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.write_message_begin("lock", TMessageType.EXCEPTION, 0)
    TApplicationException(
        TApplicationException.INTERNAL_ERROR, "Internal error processing lock"
    ).write(protocol)
    accepted.sendall(buffer.getvalue())


def test_a_metastore_that_cannot_lock_says_what_it_needs() -> None:
    with serving(fails_inside) as port:
        mutex = HiveMetastoreMutex(HiveLockPlace((("127.0.0.1", port),), "db", "t"))
        with pytest.raises(StorageError, match="processing lock") as caught:
            mutex.acquire(0)
        assert "tables of Hive" in str(caught.value) and "TLS" not in str(caught.value)


def test_other_failures_do_not_name_them() -> None:
    with metastore() as (uri, handler):
        handler.fails["get_database"] = 0
        catalog = HiveMetastore(uri)
        with pytest.raises(CatalogError, match="ill") as caught:
            catalog.has_database("db")
        assert caught.value.hint is None
