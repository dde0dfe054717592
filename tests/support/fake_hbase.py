"""A stand-in for HBase behind its Thrift gateway: the calls that the index makes, in memory.

It speaks the gateway's protocol on a socket, so the client is the real one.  Rows have versions by
time, a delete hides what is older, as in HBase.
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import happybase  # noqa: F401 - makes the module below
import Hbase_thrift as thrift
from thriftpy2.server import TThreadedServer
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TServerSocket

Cells = dict[bytes, bytes]


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


class FakeHBase:
    """Tables by name; rows by key.  down: whether every call fails.  cuts: how many of the next
    calls end their connection unanswered."""

    def __init__(self) -> None:
        self.tables: dict[bytes, dict[bytes, Cells]] = {}
        self.families: dict[bytes, list[bytes]] = {}
        self.calls: list[str] = []
        self.down = False
        self.cuts = 0
        self._lock = threading.Lock()
        self._scans: dict[int, Iterator[Any]] = {}
        self._numbers = itertools.count(1)

    def create(self, name: str, family: str = "_s") -> dict[bytes, Cells]:
        self.families[name.encode()] = [f"{family}:".encode()]
        return self.tables.setdefault(name.encode(), {})

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.cuts:
            self.cuts -= 1
            raise ConnectionResetError("cut")
        if self.down:
            raise thrift.IOError(message="the region server is gone")

    def getTableNames(self) -> list[bytes]:
        self._called("getTableNames")
        return list(self.tables)

    def createTable(self, tableName: Any, columnFamilies: Sequence[Any]) -> None:
        self._called("createTable")
        self.create(_bytes(tableName).decode(), _bytes(columnFamilies[0].name).decode()[:-1])

    def getColumnDescriptors(self, tableName: Any) -> dict[bytes, Any]:
        self._called("getColumnDescriptors")
        return {
            name: thrift.ColumnDescriptor(name=name) for name in self.families[_bytes(tableName)]
        }

    def getRowsWithColumns(
        self, tableName: Any, rows: Sequence[Any], columns: Sequence[Any], attributes: Any
    ) -> list[Any]:
        self._called("getRowsWithColumns")
        table, expected = self.tables[_bytes(tableName)], {_bytes(c) for c in columns}
        found = []
        with self._lock:
            for row in rows:
                cells = table.get(_bytes(row), {})
                stored = {c: thrift.TCell(value=v, timestamp=1) for c, v in cells.items()}
                stored = {c: cell for c, cell in stored.items() if c in expected}
                if stored:
                    found.append(thrift.TRowResult(row=_bytes(row), columns=stored))
        return found

    def scannerOpenWithScan(self, tableName: Any, scan: Any, attributes: Any) -> int:
        self._called("scannerOpenWithScan")
        table, expected = self.tables[_bytes(tableName)], {_bytes(c) for c in scan.columns}
        start = _bytes(scan.startRow or b"")
        with self._lock:
            rows = [(row, dict(table[row])) for row in sorted(table) if row >= start]
        number = next(self._numbers)
        self._scans[number] = iter(
            thrift.TRowResult(
                row=row,
                columns={
                    c: thrift.TCell(value=v, timestamp=1) for c, v in cells.items() if c in expected
                },
            )
            for row, cells in rows
        )
        return number

    def scannerGetList(self, id: int, nbRows: int) -> list[Any]:
        self._called("scannerGetList")
        return list(itertools.islice(self._scans[id], nbRows))

    def scannerClose(self, id: int) -> None:
        self._called("scannerClose")
        del self._scans[id]

    def mutateRows(self, tableName: Any, rowBatches: Sequence[Any], attributes: Any) -> None:
        self._called("mutateRows")
        table = self.tables[_bytes(tableName)]
        with self._lock:
            for batch in rowBatches:
                cells = table.setdefault(_bytes(batch.row), {})
                for mutation in batch.mutations:
                    if mutation.isDelete:
                        cells.pop(_bytes(mutation.column), None)
                    else:
                        cells[_bytes(mutation.column)] = _bytes(mutation.value)
                if not cells:
                    del table[_bytes(batch.row)]


class _Server(TThreadedServer):
    def handle(self, client: Any) -> None:
        with suppress(ConnectionResetError):
            super().handle(client)

    def serve(self) -> None:
        self.trans.listen()
        with suppress(OSError):  # of a socket that was closed
            while True:
                client = self.trans.accept()
                threading.Thread(target=self.handle, args=(client,), daemon=True).start()


@contextmanager
def fake_hbase() -> Iterator[tuple[FakeHBase, str]]:
    """One, and host:port of its gateway; ended with the block."""
    hbase = FakeHBase()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    transport = TServerSocket("127.0.0.1", port, client_timeout=None)
    server = _Server(TProcessor(thrift.Hbase, hbase), transport)
    threading.Thread(target=server.serve, daemon=True).start()
    for _ in itertools.repeat(None, 200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
            threading.Event().wait(0.01)
    try:
        yield hbase, f"127.0.0.1:{port}"
    finally:
        server.close()
        transport.close()
