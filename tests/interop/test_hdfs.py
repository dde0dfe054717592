"""A table's whole life on a real HDFS: written, merged, compacted, cleaned, read, two writers.

make long-hdfs    this, and the contracts of stores and locks on it
"""

from __future__ import annotations

import pickle
import threading

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import LockError, StorageError, UserError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.hdfs import HdfsFileSystem
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.locks.numbered_lease import NumberedLease
from pyhudi.storage.locks.table_lock import LOCK, TableLock, check_lock
from pyhudi.storage.url_resolver import locate
from tests.support.hdfs import Hdfs, fresh_hdfs, shared_hdfs

pytestmark = [pytest.mark.interop, pytest.mark.hdfs, pytest.mark.slow]

SCHEMA = pa.schema({"id": pa.string(), "city": pa.string(), "ts": pa.int64(), "v": pa.int64()})


def rows(*found: tuple[str, str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in found], SCHEMA)


@pytest.fixture
def server() -> Hdfs:
    return shared_hdfs()


def values(table: pyhudi.Table) -> dict[str, int]:
    found = table.scan(["id", "v"]).to_arrow().to_pylist()
    return {row["id"]: row["v"] for row in found}


def test_a_table_lives_on_hdfs(server: Hdfs) -> None:
    url = fresh_hdfs().url
    pyhudi.create_table(
        url, SCHEMA, record_key="id", partition_by="city", ordering="ts", table_type="mor",
        storage_options=server.options,
        options={"hoodie.metadata.record.index.min.filegroup.count": "1"},
    )  # fmt: skip
    table = pyhudi.open_table(url, storage_options=server.options)
    first = table.upsert(rows(("a", "sf", 1, 1), ("b", "sf", 1, 2), ("c", "ny", 1, 3)))
    table.upsert(rows(("b", "sf", 2, 20), ("d", "ny", 2, 4)))
    assert values(table) == {"a": 1, "b": 20, "c": 3, "d": 4}
    table.delete(keys=["a"])
    compacted = table.compact()
    assert compacted.file_groups >= 1 and values(table) == {"b": 20, "c": 3, "d": 4}
    optimistic = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    }
    shared = pyhudi.open_table(url, options=optimistic, storage_options=server.options)
    shared.upsert(rows(("c", "ny", 3, 30)))
    table.clean()
    again = pyhudi.open_table(url, storage_options=server.options)
    assert values(again) == {"b": 20, "c": 30, "d": 4}
    assert again.scan(as_of=first.instant).count() == 3
    assert again.lookup(["a", "b"]).column("found").to_pylist() == [False, True]
    assert again.fetch(["c"], columns=["v"]).column("v").to_pylist() == [30]
    assert not pickle.loads(pickle.dumps(locate(url, storage_options=server.options))).exists("x")


def test_two_writers_lose_no_update(server: Hdfs) -> None:
    fs = fresh_hdfs()
    fs.create("n", b"0")

    def count(own: FileSystem) -> None:
        for _ in range(2):
            with TableLock(own, wait_seconds=120):
                check_lock(own)
                own.replace("n", str(int(own.read("n")) + 1).encode())

    # The second as another process has it: locks of one process are queued before the store's.
    threads = [
        threading.Thread(target=count, args=(fs,)),
        threading.Thread(target=bare, args=(fs,)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fs.read("n") == b"4"


def bare(fs: FileSystem) -> None:
    for _ in range(2):
        mutex = LeaseMutex(NumberedLease(fs, LOCK), fs.url)
        assert mutex.acquire(120) and mutex.confirm()
        fs.replace("n", str(int(fs.read("n")) + 1).encode())
        mutex.release()


def test_the_holder_is_named_to_those_who_wait(server: Hdfs) -> None:
    fs = fresh_hdfs()
    mutex = LeaseMutex(NumberedLease(fs, LOCK), "elsewhere")
    assert mutex.acquire(0)
    mutex.sign('{"purpose": "compact", "host": "other"}')
    with pytest.raises(LockError) as caught, TableLock(fs, wait_seconds=0):
        pass
    assert caught.value.facts["purpose"] == "compact"
    mutex.release()


def test_a_rename_whose_answer_was_lost_counts_once(
    server: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    import requests

    fs = fresh_hdfs()
    session = fs._node._fsspec.session
    real, lost = session.request, []

    def request(method: str, url: str, **rest: object) -> object:
        answer = real(method, url, **rest)
        requested = rest.get("params")
        if isinstance(requested, dict) and requested["op"] == "RENAME" and not lost:
            lost.append(url)
            raise requests.ConnectionError("cut off after the request was done")
        return answer

    monkeypatch.setattr(session, "request", request)
    assert fs.create("a", b"1") is True and lost
    assert fs.create("a", b"2") is False
    assert [info.name for info in fs.children()] == ["a"]


def test_what_cannot_be_reached_is_reported() -> None:
    pytest.importorskip("requests", reason="requests is not installed")
    with pytest.raises(UserError, match="host"):
        locate("hdfs:///table")
    nowhere = HdfsFileSystem("hdfs://127.0.0.1:1/t", {"port": 1, "timeout": 0.5})
    with pytest.raises(StorageError, match="does not answer") as caught:
        nowhere.read("a")
    assert caught.value.retryable
