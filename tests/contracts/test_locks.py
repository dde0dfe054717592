"""What every lock must do, asked of each: one holder at a time, and a holder that lost it knows."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyhudi.errors import LockError, OptionError, StorageError
from pyhudi.options import LockProvider, LockRules, parse_options
from pyhudi.options.catalogs import servers
from pyhudi.storage.filesystem import FileSystem, Mutex
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.locks.hive_lock import HiveLockPlace, HiveMetastoreMutex
from pyhudi.storage.locks.hudi_lock_file import LockFileMutex
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.locks.numbered_lease import NumberedLease
from pyhudi.storage.locks.providers import provided
from pyhudi.storage.locks.table_lock import TableLock, check_lock
from pyhudi.storage.locks.zookeeper import ZooKeeperMutex, ZooKeeperPlace
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.storage.url_resolver import locate
from tests.support.fake_metastore import metastore, shared_metastore
from tests.support.object_stores import object_store_in_memory
from tests.support.query_engines import real_metastore
from tests.support.zookeeper import shared_zookeeper

KINDS = (
    "local", "memory", "object lease", "numbered lease", "lock file", "hive metastore",
    pytest.param("hive metastore 3", marks=[pytest.mark.catalogs, pytest.mark.slow]),
    pytest.param("zookeeper", marks=[pytest.mark.zookeeper, pytest.mark.slow]),
)  # fmt: skip
WITH_TOKENS = [k for k in KINDS if k not in ("local", "memory", "lock file")]
_NAMES = itertools.count()


@pytest.fixture(params=KINDS)
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Mutex]:
    """Makes mutexes that exclude each other, each as another process would."""
    disk, memory = LocalFileSystem(tmp_path), MemoryFileSystem()
    name = f"lock{next(_NAMES)}"
    match request.param:
        case "local":
            return lambda: disk.mutex("h/lock")
        case "memory":
            return lambda: memory.mutex("h/lock")
        case "object lease":
            pytest.importorskip("obstore", reason="obstore is not installed")
            store = object_store_in_memory()
            return lambda: store.mutex(f"h/{name}")
        case "numbered lease":
            return lambda: LeaseMutex(NumberedLease(memory, "h/lock"), name)
        case "lock file":
            return lambda: LockFileMutex(disk, "h/lock")
        case "hive metastore" | "hive metastore 3" as kind:
            uri = shared_metastore() if kind == "hive metastore" else real_metastore()
            lock_place = HiveLockPlace(servers(uri), "db", name)
            return lambda: HiveMetastoreMutex(lock_place)
        case _:
            place = ZooKeeperPlace(shared_zookeeper(), f"/locks/{name}", session_seconds=4)
            return lambda: ZooKeeperMutex(place)


def test_one_holds_it_until_it_is_released(another: Callable[[], Mutex]) -> None:
    one, other = another(), another()
    assert one.key == other.key
    assert one.acquire(0) and one.confirm()
    assert not other.acquire(0) and not other.acquire(0.05)
    one.release()
    assert other.acquire(0) and other.confirm()
    other.release()


def test_it_can_be_acquired_again_and_again(another: Callable[[], Mutex]) -> None:
    mutex = another()
    for _ in range(3):
        assert mutex.acquire(0) and mutex.confirm()
        mutex.release()


def test_one_who_waits_follows_the_holder(another: Callable[[], Mutex]) -> None:
    one, other, got = another(), another(), []
    assert one.acquire(0)
    waiting = threading.Thread(target=lambda: got.append(other.acquire(20)))
    waiting.start()
    time.sleep(0.05)
    assert not got
    one.release()
    waiting.join()
    assert got == [True]
    other.release()


def test_no_two_hold_it_at_a_time(another: Callable[[], Mutex]) -> None:
    inside, most, entered = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, entered
        for _ in range(2):
            mutex = another()
            if not mutex.acquire(20):
                continue
            inside += 1
            most, entered = max(most, inside), entered + 1
            time.sleep(0.002)
            inside -= 1
            mutex.release()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and entered == 6


def test_a_holder_signs_for_those_who_wait(another: Callable[[], Mutex]) -> None:
    one = another()
    assert one.acquire(0)
    one.sign('{"purpose": "mine"}')
    output = another().signature()
    assert "mine" in output or "pyhudi" in output  # a lock file says what it was created with
    one.release()


def robbed(mutex: Mutex, fs: FileSystem) -> None:
    """Take a held lock away behind its holder's back."""
    match mutex:
        case LeaseMutex():
            found = mutex._target.read()
            assert found and mutex._target.write(b'{"holder": "thief", "token": 9}', found[1])
        case LockFileMutex():
            fs.delete(["h/lock"])
            assert fs.create("h/lock", b"thief")
        case HiveMetastoreMutex():
            mutex._unlock(mutex.token)
            assert HiveMetastoreMutex(mutex._place).acquire(0)
        case ZooKeeperMutex():
            mutex._client.delete(f"{mutex._place.path}/{mutex._lock.node}")
        case _:
            fs.delete(["h/lock"])
            assert fs.create("h/lock", b"")


# A lock in memory cannot be taken away.
@pytest.mark.parametrize("another", [k for k in KINDS if k != "memory"], indirect=True)
def test_a_holder_that_was_robbed_does_not_confirm(
    another: Callable[[], Mutex], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    mutex = another()
    assert mutex.acquire(0) and mutex.confirm()
    robbed(mutex, LocalFileSystem(tmp_path))
    assert not mutex.confirm()
    mutex.release()  # and leaves alone what is another's
    if not isinstance(mutex, ZooKeeperMutex) and type(mutex).__name__ != "LocalMutex":
        assert not another().acquire(0)


# A lock that ends with its process needs no token.
@pytest.mark.parametrize("another", WITH_TOKENS, indirect=True)
def test_fencing_tokens_grow(another: Callable[[], Mutex]) -> None:
    tokens = []
    for _ in range(3):
        mutex = another()
        assert mutex.acquire(0)
        tokens.append(mutex.token)
        mutex.release()
    assert tokens == sorted(set(tokens))


def test_a_lock_file_that_is_not_renewed_is_followed_after_its_expiry(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    fs.create("h/lock", b"of one who died")
    never = LockFileMutex(fs, "h/lock")
    assert not never.acquire(0.2)
    heir = LockFileMutex(fs, "h/lock", expire_seconds=0.15)
    assert not heir.acquire(0) and heir.acquire(3) and heir.confirm()
    time.sleep(0.2)
    assert not heir.confirm()  # Apache Hudi's writers would follow it now
    heir.release()


def test_a_table_lock_takes_the_lock_file_of_apache_hudi(tmp_path: Path) -> None:
    fs, rules = LocalFileSystem(tmp_path), LockRules(LockProvider.FILE)
    with TableLock(fs, rules=rules), TableLock(fs, rules=rules):
        assert fs.exists(".hoodie/lock")
        check_lock(fs)
        fs.delete([".hoodie/lock"])
        with pytest.raises(LockError, match="was lost"):
            check_lock(fs)
    check_lock(fs)
    fs.create(".hoodie/lock", b"a writer of Apache Hudi")
    with pytest.raises(LockError) as caught, TableLock(fs, rules=rules, wait_seconds=0.05):
        pass
    assert str(caught.value.facts["path"]).endswith(".hoodie/lock")
    assert caught.value.facts["purpose"] == "a writer of Apache Hudi"
    with TableLock(fs, wait_seconds=0):  # the own lock was left behind by nobody
        pass


def test_options_name_the_lock_of_apache_hudi(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path / "t")
    lock = "hoodie.write.lock."
    package = "org.apache.hudi.client.transaction.lock."

    def of(**given: str) -> Mutex | None:
        names = {lock + name.replace("__", "."): value for name, value in given.items()}
        return provided(fs, parse_options(names).write.lock)

    assert of() is None and of(provider=package + "InProcessLockProvider") is None
    found = of(provider=package + "FileSystemBasedLockProvider", filesystem__expire="2")
    assert isinstance(found, LockFileMutex) and found._expire_seconds == 120
    elsewhere = of(provider="FileSystemBasedLockProvider", filesystem__path=f"{tmp_path}/locks")
    assert elsewhere is not None and elsewhere.key == f"file:{tmp_path}/locks/lock"
    zookeeper = {"zookeeper__url": "zk:2181", "zookeeper__base_path": "/hudi"}
    found = of(
        provider=package + "ZookeeperBasedLockProvider", zookeeper__lock_key="t", **zookeeper
    )
    assert isinstance(found, ZooKeeperMutex) and found.key == "zookeeper:zk:2181/hudi/t"
    with pytest.raises(OptionError, match="lock_key"):
        of(provider="ZookeeperBasedLockProvider", **zookeeper)
    with pytest.raises(OptionError, match="port"):
        of(
            provider="ZookeeperBasedLockProvider", zookeeper__url="zk", zookeeper__port="2182",
            zookeeper__base_path="b", zookeeper__lock_key="t",
        )  # fmt: skip
    metastore = {"hivemetastore__uris": "thrift://hms,thrift://two:1", "hivemetastore__table": "T"}
    hive = "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"
    found = of(
        provider=hive, hivemetastore__database="db", heartbeat_interval_ms="500", **metastore
    )
    assert isinstance(found, HiveMetastoreMutex)
    assert found.key == "hive-metastore:thrift://hms:9083,two:1/db.t"
    assert found._place.heartbeat_seconds == 0.5
    with pytest.raises(OptionError, match="database"):
        of(provider=hive, **metastore)
    for interval in ("0", "5min"):
        with pytest.raises(OptionError, match="heartbeats"):
            of(
                provider=hive, hivemetastore__database="db", heartbeat_interval_ms=interval,
                **metastore,
            )  # fmt: skip
    with pytest.raises(OptionError):
        of(provider=package + "NoopLockProvider")
    with pytest.raises(OptionError, match="object stores"):
        far = locate("s3://bucket/x", storage_options={"skip_signature": True})
        provided(far, LockRules(LockProvider.FILE))


def test_a_zookeeper_that_does_not_answer_is_a_storage_error() -> None:
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    place = ZooKeeperPlace("127.0.0.1:1", "/x", connect_seconds=0.3)
    with pytest.raises(StorageError, match="does not answer") as caught:
        ZooKeeperMutex(place).acquire(0)
    assert caught.value.retryable


def test_a_metastore_that_does_not_answer_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match="does not lock") as caught:
        HiveMetastoreMutex(HiveLockPlace((("127.0.0.1", 1),), "db", "t")).acquire(0)
    assert caught.value.retryable and "address" in str(caught.value)


def test_a_holder_sends_heartbeats_to_the_metastore_and_knows_when_the_lock_was_removed() -> None:
    with metastore() as (uri, handler):
        place = HiveLockPlace(servers(uri), "db", "t", heartbeat_seconds=0.05)
        mutex = HiveMetastoreMutex(place)
        assert mutex.acquire(0)
        first = mutex.seconds_left()
        wait_for(lambda: handler.calls.count("heartbeat") > 2)
        assert 0 < first <= 300 and 299 < mutex.seconds_left() <= 300
        handler.locks.clear()  # as after metastore.txn.timeout
        wait_for(lambda: mutex.seconds_left() == 0)
        assert not mutex.confirm()
        mutex.release()


def test_a_request_that_waits_in_the_metastore_is_removed_at_the_end_of_the_wait() -> None:
    with metastore() as (uri, handler):
        place = HiveLockPlace(servers(uri), "db", "t")
        one, other = HiveMetastoreMutex(place), HiveMetastoreMutex(place)
        assert one.acquire(0) and not other.acquire(0.3)
        assert [number for number, _ in handler.locks] == [one.token]
        handler.fails["check_lock"] = 0
        with pytest.raises(StorageError, match="does not lock"):
            other.acquire(0.3)
        assert [number for number, _ in handler.locks] == [one.token]
        one.release()
        assert handler.locks == []


def test_a_table_lock_takes_the_lock_of_a_metastore(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    with metastore() as (uri, handler):
        rules = LockRules(
            LockProvider.HIVE_METASTORE, metastore_uris=uri, metastore_database="db",
            metastore_table="trips",
        )  # fmt: skip
        with TableLock(fs, rules=rules):
            assert len(handler.locks) == 1
            check_lock(fs)
            handler.locks.clear()
            with pytest.raises(LockError, match="was lost"):
                check_lock(fs)
        other = HiveMetastoreMutex(HiveLockPlace(servers(uri), "db", "trips"))
        assert other.acquire(0)
        with pytest.raises(LockError) as caught, TableLock(fs, rules=rules, wait_seconds=0.05):
            pass
        assert "pyhudi" in str(caught.value.facts["purpose"])
        other.release()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_lease_that_ended_is_not_confirmed_though_no_process_took_the_lock() -> None:
    """Another process may have watched it for the whole lease and be about to take it."""
    memory = MemoryFileSystem()
    mutex = LeaseMutex(NumberedLease(memory, "l"), f"l{next(_NAMES)}", lease_seconds=0.2)
    assert mutex.acquire(0) and mutex.confirm()
    mutex._ended.set()  # as a process that stood still: nobody renews
    before = memory.names("l")
    time.sleep(0.25)
    assert mutex.confirm() is False
    assert memory.names("l") == before  # and it has not renewed what it lost


def test_a_put_of_a_number_that_was_taken_and_removed_does_not_win() -> None:
    memory = MemoryFileSystem()
    lease = NumberedLease(memory, "l")
    first = lease.write(b"first", None)
    second = lease.write(b"second", first)
    third = lease.write(b"third", second)
    assert lease.write(b"late", first) is None  # the number after `first` is free once more
    assert lease.read() == (b"third", third)
    assert memory.names("l") == [f"{third:012d}"]


class Forgetful:
    """A store that puts whatever the condition."""

    def __init__(self) -> None:
        self.held: bytes | None = None

    def read(self) -> tuple[bytes, int] | None:
        return None if self.held is None else (self.held, 1)

    def write(self, content: bytes, version: int | None) -> int | None:
        self.held = content
        return 1


def test_a_store_that_passes_over_conditions_is_refused() -> None:
    with pytest.raises(StorageError, match="condition"):
        LeaseMutex(Forgetful(), f"forgetful{next(_NAMES)}").acquire(0)


@pytest.mark.slow
@pytest.mark.zookeeper
def test_the_end_of_a_session_frees_a_zookeeper_lock() -> None:
    place = ZooKeeperPlace(shared_zookeeper(), f"/locks/ended{next(_NAMES)}", session_seconds=1)
    crashed, heir = ZooKeeperMutex(place), ZooKeeperMutex(place)
    assert crashed.acquire(0)
    assert not heir.acquire(0)
    crashed._client.stop()  # as a process that ends: its node goes with its session
    assert heir.acquire(10) and heir.confirm() and not crashed.confirm()
    heir.release()
