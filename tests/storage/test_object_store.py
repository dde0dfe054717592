"""Object stores: leases, puts answered late, requests counted, tables from end to end."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from obstore.store import MemoryStore

import pyhudi
from pyhudi._native.hfile.block_cache import BlockCache
from pyhudi.errors import LockError, StorageError, UserError
from pyhudi.metadata import hfile_slices
from pyhudi.read.scan_plan import ScanPlan
from pyhudi.storage import listing_snapshot, object_store
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.listing_snapshot import WalkedObjectStore
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.locks.monotonic_clock import ending_within
from pyhudi.storage.locks.table_lock import LOCK, TableLock, check_lock
from pyhudi.storage.object_store import ObjectStoreFileSystem
from pyhudi.storage.spill import FetchedTables, FileStaging
from pyhudi.storage.url_resolver import locate
from tests.support.object_stores import (
    S3Server,
    environment_of,
    fresh_s3,
    object_store_in_memory,
    shared_s3,
)

pytest.importorskip("obstore", reason="obstore is not installed")

SCHEMA = pa.schema({"id": pa.string(), "city": pa.string(), "v": pa.int64()})


def rows(*found: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in found], SCHEMA)


@pytest.fixture
def s3() -> S3Server:
    return shared_s3()


class Register:
    """A LeaseObject in memory whose answers can be lost."""

    def __init__(self) -> None:
        self.held: tuple[bytes, int] | None = None
        self.count = 0
        self.broken = False

    def read(self) -> tuple[bytes, Any] | None:
        self._check()
        return self.held

    def modified(self) -> float | None:
        return None

    def write(self, content: bytes, version: Any) -> Any | None:
        self._check()
        if (self.held and self.held[1]) != version:
            return None
        self.count += 1
        self.held = (content, self.count)
        return self.count

    def _check(self) -> None:
        if self.broken:
            raise StorageError("cut off", retryable=True)


def test_a_crashed_holder_is_followed_after_one_lease() -> None:
    register = Register()
    crashed = LeaseMutex(register, "t", lease_seconds=0.2)
    assert crashed.acquire(0)
    crashed._ended.set()  # as a process that stopped: nobody renews
    heir = LeaseMutex(register, "t", lease_seconds=0.2)
    assert not heir.acquire(0.05)
    assert heir.acquire(2)
    assert crashed.is_lost and not heir.is_lost
    assert heir.token == crashed.token + 1 and not crashed.confirm() and heir.confirm()
    crashed.release()
    assert not LeaseMutex(register, "t").acquire(0)
    heir.release()
    assert LeaseMutex(register, "t").acquire(0)


def test_a_living_holder_is_not_followed() -> None:
    register = Register()
    holder = LeaseMutex(register, "u", lease_seconds=0.2)
    assert holder.acquire(0)
    assert not LeaseMutex(register, "u", lease_seconds=0.2).acquire(0.7)
    assert not holder.is_lost
    holder.release()


def test_a_holder_cut_off_learns_that_it_has_lost_the_lock() -> None:
    register = Register()
    holder = LeaseMutex(register, "v", lease_seconds=0.15)
    assert holder.acquire(0)
    register.broken = True
    time.sleep(0.3)
    assert holder.is_lost
    register.broken = False
    holder.release()


def test_a_lock_is_confirmed_by_an_answer_of_the_store_alone() -> None:
    """Without one, another process may have taken the lock while this one stood still."""
    register = Register()
    holder = LeaseMutex(register, "c", lease_seconds=60)
    assert holder.acquire(0) and holder.confirm()
    register.broken = True
    assert not holder.is_lost and holder.confirm() is False
    register.broken = False
    assert holder.confirm()
    holder.release()


def test_one_of_many_takers_of_a_silent_lock_wins() -> None:
    register = Register()
    register.write(b'{"holder": "dead"}', None)
    won: list[int] = []

    def take(number: int) -> None:
        mutex = LeaseMutex(register, f"w{number}", lease_seconds=0.1)
        if mutex.acquire(0.35):
            won.append(number)
            time.sleep(0.4)

    threads = [threading.Thread(target=take, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_the_lock_object_stays_and_no_process_holds_it(s3: S3Server) -> None:
    fs = fresh_s3()
    for token in (1, 2):
        with TableLock(fs, purpose="test"):
            assert json.loads(fs.read(LOCK))["token"] == token
            assert not pickle.loads(pickle.dumps(fs)).mutex(LOCK).acquire(0)
            check_lock(fs)
        assert json.loads(fs.read(LOCK))["holder"] == ""


def test_a_put_that_was_sent_twice_counts_once() -> None:
    """The store answers "exists already" to the second of two equal puts; the first was ours."""
    fs = object_store_in_memory()

    class Late:
        """The library, with a put that happens twice."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def put(self, *args: Any, **options: Any) -> Any:
            self._inner.put(*args, **options)
            return self._inner.put(*args, **options)

    import pyhudi.storage.object_store as module

    inner = module._library()
    module._library = lambda: Late(inner)  # type: ignore[assignment]
    try:
        assert fs.create("a", b"") is True
    finally:
        module._library = lambda: inner  # type: ignore[assignment]
    assert fs.create("a", b"") is False


def test_a_small_file_comes_in_one_request(s3: S3Server) -> None:
    fs = fresh_s3()
    fs.create("f", b"0123456789")
    before = len(s3.requests)
    assert fs.open("f").read_at(3, 4) == b"3456"
    with fs.arrow_file("f") as file:
        assert file.size() == 10 and file.read() == b"0123456789"
    assert len(s3.requests) - before == 2


def test_a_large_file_is_read_in_ranges(s3: S3Server) -> None:
    fs = fresh_s3()
    data = bytes(range(256)) * 4096
    with fs.open_sink("f") as sink:
        sink.write(data)
    opened = fs.open("f")
    assert opened.size == len(data)
    assert opened.read_at(700_001, 1000) == data[700_001:701_001]
    assert fs.read_range("f", 5, 7) == data[5:12]
    with fs.arrow_file("f") as file:
        file.seek(1000)
        assert file.read(256) == data[1000:1256]
        assert file.read() == data[1256:]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_from_end_to_end(s3: S3Server, kind: str) -> None:
    url = f"s3://bucket/tables/{kind}"
    table = pyhudi.create_table(
        url, SCHEMA, record_key="id", partition_by="city", table_type=kind,
        storage_options=s3.options,
    )  # fmt: skip
    first = table.upsert(rows(("a", "sf", 1), ("b", "sf", 2), ("c", "nyc", 3)))
    table.upsert(rows(("b", "sf", 20), ("d", "nyc", 4)))
    table.delete(keys=["a"])
    again = pyhudi.open_table(url, storage_options=s3.options)
    found = again.scan(["id", "v"]).to_arrow().sort_by("id").to_pydict()
    assert found == {"id": ["b", "c", "d"], "v": [20, 3, 4]}
    assert again.scan(as_of=first.instant).count() == 3
    assert again.changes(first.completed_at or first.instant).count() == 2
    assert again.lookup(["a", "b"]).column("found").to_pylist() == [False, True]
    assert again.scan(where=pc.field("id") == "c").to_arrow()["v"].to_pylist() == [3]
    assert [r["change"] for r in again.history("b").to_pylist()] == ["insert", "update"]


def test_a_partition_with_a_newline_is_refused_before_anything_is_written(s3: S3Server) -> None:
    url = "s3://bucket/newline"
    table = pyhudi.create_table(
        url, SCHEMA, record_key="id", partition_by="city", storage_options=s3.options
    )
    before = [info.path for info in s3.fs("newline").below()]
    with pytest.raises(UserError, match="control characters") as caught:
        table.upsert(rows(("k1", "a", 1), ("k2", "x\ny", 2)))
    assert "urlencode" in str(caught.value)
    assert [info.path for info in s3.fs("newline").below()] == before


def test_a_newline_in_an_encoded_partition_is_stored(s3: S3Server) -> None:
    table = pyhudi.create_table(
        "s3://bucket/encoded", SCHEMA, record_key="id", partition_by="city",
        storage_options=s3.options,
        options={"hoodie.datasource.write.partitionpath.urlencode": "true"},
    )  # fmt: skip
    table.upsert(rows(("k2", "x\ny", 2)))
    assert table.partitions() == ["x%0Ay"]
    assert table.scan(["id", "city"]).to_arrow().to_pylist() == [{"id": "k2", "city": "x\ny"}]


def opened_and_planned(s3: S3Server, url: str, monkeypatch: pytest.MonkeyPatch) -> ScanPlan:
    """The plan of a scan as a new process makes it; its requests are in the server's list."""
    monkeypatch.setattr(hfile_slices, "_OPENED", BlockCache(1 << 20))
    s3.requests.clear()
    return pyhudi.open_table(url, storage_options=s3.options).scan().explain()


@pytest.mark.parametrize("commits", [1, 4])
def test_open_and_plan_of_a_table_of_one_page_take_four_requests(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """A walk each for opening and planning, the properties, the newest commit: whatever the
    number of logs in the metadata table."""
    url = f"s3://bucket/tables/counted{commits}"
    table = pyhudi.create_table(
        url, SCHEMA, record_key="id", partition_by="city", storage_options=s3.options
    )
    for n in range(commits):
        table.upsert(rows(*((f"k{k}", f"c{k % 3}", n) for k in range(20))))
    plan = opened_and_planned(s3, url, monkeypatch)
    assert len(plan.tasks) == 3 and plan.listed_by == "the store"
    assert len(s3.requests) == 4, "\n".join(s3.requests)


@pytest.mark.parametrize("logs", [1, 2])
def test_open_and_plan_of_a_larger_table_take_five_requests_and_one_for_each_log(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, logs: int
) -> None:
    """Two walks, properties, newest commit, the base file of the listing and its logs: six when it
    is freshly compacted, as the commit that compacts it leaves one."""
    url = f"s3://bucket/tables/large{logs}"
    table = pyhudi.create_table(
        url, SCHEMA, record_key="id", partition_by="city", storage_options=s3.options
    )
    table = pyhudi.open_table(
        url, options={"hoodie.metadata.compact.max.delta.commits": "2"}, storage_options=s3.options
    )
    for n in range(1 + logs):
        table.upsert(rows(*((f"k{k}", f"c{k % 3}", n) for k in range(20))))
    monkeypatch.setattr(listing_snapshot, "PAGE", 5)  # as if the table filled many pages
    monkeypatch.setattr(object_store, "PAGE", 5)
    plan = opened_and_planned(s3, url, monkeypatch)
    assert len(plan.tasks) == 3 and plan.listed_by == "the metadata table"
    assert len(s3.requests) == 5 + logs, "\n".join(s3.requests)


@pytest.mark.parametrize("page", [1000, 4, 2, 1])
def test_a_walk_answers_as_the_store_does(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "PAGE", page)
    monkeypatch.setattr(listing_snapshot, "PAGE", page)
    fs = object_store_in_memory()
    for path in ("h/a", "h/b/c", "h/b/d/e", "ha/x", "z"):
        fs.create(path, path.encode())
    walk = WalkedObjectStore.of(fs, "h")
    assert walk.is_whole == (page == 1000)
    for folder in ("", "h", "h/b", "h/b/d", "h/none", "ha"):
        assert walk.children(folder) == fs.children(folder)
    assert walk.sub("h").children("b") == fs.sub("h").children("b")
    assert walk.sub("h/b").children() == fs.sub("h/b").children()
    assert walk.read("h/b/c") == walk.sub("h").read("b/c") == b"h/b/c"
    for path in ("h", "h/a", "h/b", "h/b/d/e", "h/n", "z"):
        assert walk.exists(path) == fs.exists(path)
    assert walk.tag("h/a") is not None and walk.tag("h/n") is None
    fs.create("h/late", b"")
    assert "h/late" not in [info.path for info in walk.children("h")]
    fs.create("-before", b"")  # in the way of the folder
    assert WalkedObjectStore.of(fs, "h").children("h") == fs.children("h")


@pytest.mark.parametrize("mode", ["single_writer", "optimistic_concurrency_control"])
def test_a_writer_that_lost_the_lock_does_not_publish(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    url = f"s3://bucket/tables/lost-{mode}"
    pyhudi.create_table(url, SCHEMA, record_key="id", storage_options=s3.options)
    options = {"hoodie.write.concurrency.mode": mode}
    table = pyhudi.open_table(url, options=options, storage_options=s3.options)
    table.upsert(rows(("a", "p", 1)))
    monkeypatch.setattr(LeaseMutex, "confirm", lambda self: False)
    with pytest.raises(LockError, match="lost"):
        table.upsert(rows(("b", "p", 2)))
    monkeypatch.undo()
    assert table.scan().count() == 1
    table.upsert(rows(("c", "p", 3)))
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == ["a", "c"]


def test_urls_of_object_stores_are_located(s3: S3Server) -> None:
    fs = locate("s3a://bucket/x/y/", storage_options=s3.options)
    assert isinstance(fs, ObjectStoreFileSystem) and fs.url == "s3a://bucket/x/y"
    twin = pickle.loads(pickle.dumps(fs.sub("z")))
    assert twin.url == "s3a://bucket/x/y/z"
    assert locate("gs://bucket/x", storage_options={"skip_signature": True}).url == "gs://bucket/x"
    with pytest.raises(UserError, match="object store"):
        locate("s3://bucket/x", storage_options={"no_such_option": "1"})
    with pytest.raises(UserError, match="not supported"):
        locate("ftp://host/x")


def test_a_store_that_denies_access_says_so(s3: S3Server) -> None:
    fs = ObjectStoreFileSystem("s3://no-such-bucket/x", s3.options)
    with pytest.raises(StorageError):
        fs.create("a", b"1")


def test_the_library_is_not_loaded_with_the_package() -> None:
    code = "import sys, pyhudi; pyhudi.open_table; print('obstore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_options_of_the_connection_in_the_environment_hold_under_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests with a time limit have other clients; they must allow HTTP likewise."""
    for name, value in environment_of(shared_s3()).items():
        monkeypatch.setenv(name, value)
    fs = ObjectStoreFileSystem("s3://bucket/from_the_environment")
    with ending_within(5):
        assert fs.create("a", b"1")
        assert fs.read("a") == b"1"


def test_a_staged_table_of_a_store_is_read_in_one_request() -> None:
    server = shared_s3()
    staging = FileStaging(server.fs("staged"), "f")
    table = pa.table({f"c{n}": pa.array(range(50_000), pa.int64()) for n in range(9)})
    staged = staging.put("rows", table)
    server.requests.clear()
    assert [staged.load() for _ in range(3)] == [table] * 3
    assert [request.split(" ")[0] for request in server.requests] == ["GET"]


def test_staged_tables_of_stores_are_bounded_in_memory() -> None:
    server = shared_s3()
    fs = server.fs("bounded")
    staging = FileStaging(fs, "f")
    tables = [pa.table({"a": pa.array([n] * 1000, pa.int64())}) for n in range(3)]
    paths = [staging.put("rows", table).path for table in tables]  # type: ignore[attr-defined]
    cache = FetchedTables(max_bytes=2 * tables[0].nbytes)
    server.requests.clear()
    for number in (0, 1, 0, 2, 0, 1):  # 2 takes the place of 1, the least recently used
        assert cache.table(fs, paths[number]) == tables[number]
    assert len(server.requests) == 4


@pytest.mark.parametrize(("scheme", "at_once"), [("s3", 1000), ("gs", 10)])
def test_who_loses_the_lock_between_deletes_deletes_no_more(
    scheme: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 deletes a thousand names by one request, other stores each by one of its own."""
    fs = ObjectStoreFileSystem(f"{scheme}://bucket/t", bucket=MemoryStore())
    names = [f"p/f{number:04}" for number in range(1500)]
    for name in names:
        fs.create(name, b"x")
    checks = 0

    def lost_after_the_first(fs: FileSystem, path: str) -> None:
        nonlocal checks
        checks += 1
        if checks > 1:
            raise LockError("the table's lock was lost during the write", path=path)

    monkeypatch.setattr("pyhudi.storage.object_store.check_fence", lost_after_the_first)
    with pytest.raises(LockError):
        fs.delete(names)
    assert len(fs.children("p")) == len(names) - at_once
