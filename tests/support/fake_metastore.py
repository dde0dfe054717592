"""A Hive Metastore in this process: the real protocol, with entries in memory.

tests/sync/test_metastores.py verifies that it answers as the real ones do.
"""

from __future__ import annotations

import atexit
import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.server import TThreadedServer
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TCyBufferedTransportFactory, TServerSocket

from pyhudi.storage.hive_thrift import interface

ESCAPED = {*map(chr, range(1, 32)), *"\"#%'*/:=?\\{[]^", "\x7f"}


def name_of(keys: list[Any], values: list[str]) -> str:
    """The name of a partition, as Hive escapes it."""

    def escape(text: str) -> str:
        return "".join(f"%{ord(c):02X}" if c in ESCAPED else c for c in text)

    return "/".join(f"{escape(k.name)}={escape(v)}" for k, v in zip(keys, values, strict=True))


def locked(request: Any) -> tuple[str, str]:
    """The database and the table that an exclusive lock of a table is about."""
    (component,) = request.component
    types = interface()
    assert (component.type, component.level) == (types.LockType.EXCLUSIVE, types.LockLevel.TABLE)
    return component.dbname.lower(), component.tablename.lower()


class Handler:
    """The calls of `hive_thrift.thrift`.  calls: names in order; fails: calls that fail."""

    def __init__(self) -> None:
        self.types = interface()
        self.databases: dict[str, Any] = {"default": self.types.Database(name="default")}
        self.tables: dict[tuple[str, str], Any] = {}
        self.partitions: dict[tuple[str, str], dict[str, Any]] = {}
        self.calls: list[str] = []
        self.sizes: list[int] = []
        self.fails: dict[str, int] = {}
        self.repeats = 1  # of each partition in an answer: 4.0.1 repeats them in small batches
        self.guard = threading.Lock()
        self.locks: list[tuple[int, Any]] = []  # ids and requests, as they came
        self.last_lock = 0

    def enter(self, call: str, size: int = 0) -> None:
        with self.guard:
            self.calls.append(call)
            self.sizes.append(size)
            left = self.fails.get(call)
            if left is not None:
                self.fails[call] = left - 1
                if left <= 0:
                    raise self.types.MetaException(message="the metastore is ill")

    def get_database(self, name: str) -> Any:
        self.enter("get_database")
        if name not in self.databases:
            raise self.types.NoSuchObjectException(message=name)
        return self.databases[name]

    def create_database(self, database: Any) -> None:
        self.enter("create_database")
        if database.name in self.databases:
            raise self.types.AlreadyExistsException(message=database.name)
        self.databases[database.name] = database

    def get_table_req(self, req: Any) -> Any:
        self.enter("get_table_req")
        return self.types.GetTableResult(table=copy.deepcopy(self._table(req.dbName, req.tblName)))

    def create_table(self, tbl: Any) -> None:
        self.enter("create_table")
        place = (tbl.dbName, tbl.tableName)
        if tbl.dbName not in self.databases:
            raise self.types.InvalidObjectException(message=tbl.dbName)
        if place in self.tables:
            raise self.types.AlreadyExistsException(message=tbl.tableName)
        tbl.parameters["transient_lastDdlTime"] = "0"
        self.tables[place], self.partitions[place] = tbl, {}

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        self.enter("alter_table")
        place = (dbname, tbl_name)
        self._table(*place)
        self.tables[place] = new_tbl
        if (environment_context.properties or {}).get("CASCADE") == "true":
            for each in self.partitions[place].values():
                each.sd.cols = copy.deepcopy(new_tbl.sd.cols)

    def drop_table(self, dbname: str, name: str, deleteData: bool) -> None:
        self.enter("drop_table")
        self._table(dbname, name)
        assert not deleteData
        del self.tables[dbname, name], self.partitions[dbname, name]

    def add_partitions_req(self, request: Any) -> Any:
        self.enter("add_partitions", len(request.parts))
        place = (request.dbName, request.tblName)
        keys = self._table(*place).partitionKeys
        for each in request.parts:
            if len(each.values) != len(keys):
                raise self.types.MetaException(message="Invalid partition key & values")
            name = name_of(keys, each.values)
            if name in self.partitions[place] and not request.ifNotExists:
                raise self.types.AlreadyExistsException(message=name)
            self.partitions[place].setdefault(name, each)
        return self.types.AddPartitionsResult()

    def get_partition_names(self, db_name: str, tbl_name: str, max_parts: int) -> list[str]:
        self.enter("get_partition_names")
        self._table(db_name, tbl_name)
        return sorted(self.partitions[db_name, tbl_name])

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: list[str]) -> list[Any]:
        self.enter("get_partitions", len(names))
        found = self.partitions[db_name, tbl_name]
        return [copy.deepcopy(found[n]) for n in names * self.repeats if n in found]

    def alter_partitions(self, db_name: str, tbl_name: str, new_parts: list[Any]) -> None:
        self.enter("alter_partitions", len(new_parts))
        keys = self._table(db_name, tbl_name).partitionKeys
        for each in new_parts:
            self.partitions[db_name, tbl_name][name_of(keys, each.values)] = each

    def drop_partitions_req(self, req: Any) -> Any:
        self.enter("drop_partitions", len(req.parts.names))
        assert not req.deleteData
        for name in req.parts.names:
            self.partitions[req.dbName, req.tblName].pop(name, None)
        return self.types.DropPartitionsResult()

    def lock(self, rqst: Any) -> Any:
        self.enter("lock")
        with self.guard:
            self.last_lock += 1
            self.locks.append((self.last_lock, rqst))
            return self._lock_response(self.last_lock)

    def check_lock(self, rqst: Any) -> Any:
        self.enter("check_lock")
        with self.guard:
            self._known_lock(rqst.lockid)
            return self._lock_response(rqst.lockid)

    def heartbeat(self, ids: Any) -> None:
        self.enter("heartbeat")
        with self.guard:
            self._known_lock(ids.lockid)

    def unlock(self, rqst: Any) -> None:
        self.enter("unlock")
        with self.guard:
            self._known_lock(rqst.lockid)
            self.locks = [each for each in self.locks if each[0] != rqst.lockid]

    def show_locks(self, rqst: Any) -> Any:
        self.enter("show_locks")
        with self.guard:
            found = [
                self.types.ShowLocksResponseElement(
                    lockid=number, dbname=rqst.dbname, tablename=rqst.tablename,
                    state=self._lock_response(number).state, type=request.component[0].type,
                    lastheartbeat=0, user=request.user, hostname=request.hostname,
                    agentInfo=request.agentInfo,
                )
                for number, request in self.locks
                if locked(request) == (rqst.dbname, rqst.tablename)
            ]  # fmt: skip
        return self.types.ShowLocksResponse(locks=found)

    def _known_lock(self, number: int) -> None:
        if all(known != number for known, _ in self.locks):
            raise self.types.NoSuchLockException(message=f"No such lock lockid:{number}")

    def _lock_response(self, number: int) -> Any:
        """Exclusive locks are granted in the order of their requests."""
        place = next(locked(request) for known, request in self.locks if known == number)
        first = next(known for known, request in self.locks if locked(request) == place)
        states = self.types.LockState
        state = states.ACQUIRED if first == number else states.WAITING
        return self.types.LockResponse(lockid=number, state=state)

    def _table(self, database: str, name: str) -> Any:
        found = self.tables.get((database, name))
        if found is None:
            raise self.types.NoSuchObjectException(message=f"{database}.{name}")
        return found


@contextmanager
def metastore() -> Iterator[tuple[str, Handler]]:
    """The URI of a metastore without tables, and its handler."""
    handler = Handler()
    socket = TServerSocket(host="127.0.0.1", port=0, client_timeout=60_000)
    socket.listen()
    port = socket.sock.getsockname()[1]
    socket.listen = lambda: None  # the server would bind it again
    server = TThreadedServer(
        TProcessor(interface().ThriftHiveMetastore, handler), socket,
        iprot_factory=TCyBinaryProtocolFactory(), itrans_factory=TCyBufferedTransportFactory(),
        daemon=True,
    )  # fmt: skip
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield f"thrift://127.0.0.1:{port}", handler
    finally:
        server.close()


@cache
def shared_metastore() -> str:
    """The URI of one metastore for the tests of this process, ended with it."""
    running = metastore()
    atexit.register(lambda: running.__exit__(None, None, None))
    return running.__enter__()[0]
