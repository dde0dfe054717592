"""Writers of both packages on one table at one time, under a lock that both know."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import WriteConflictError
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.locks.table_lock import TableLock
from tests.support import zookeeper
from tests.support.apache_hudi import ApacheHudi
from tests.support.engines import Pausing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
THEIRS = {**OPTIMISTIC, "hoodie.index.type": "RECORD_INDEX", "hoodie.compact.inline": "false"}
JAVA_TURNS = 2
TABLES = pytest.mark.parametrize(
    ("version", "kind"), [(9, "mor"), (9, "cow"), (8, "mor"), (8, "cow")]
)
Hudi = Callable[[str], ApacheHudi]


def rows(part: str, numbers: range, ts: int) -> pa.Table:
    ids = [f"{part}{n}" for n in numbers]
    return pa.table([ids, [ts] * len(ids), [part] * len(ids)], schema=SCHEMA)


class Shared:
    """A table that both write, and the rows of the writes that succeeded."""

    def __init__(
        self, path: Path, hudi: ApacheHudi, *, version: int, kind: str, **lock: str
    ) -> None:
        self.path, self.hudi, self.lock = path, hudi, lock
        table = pyhudi.create_table(
            path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
            version=version,
        )  # fmt: skip
        first = pa.concat_tables([rows("a", range(20), 0), rows("b", range(20), 0)])
        table.bulk_insert(first)
        self.expected: dict[str, int] = {}
        self.put(first)

    def put(self, batch: pa.Table) -> None:
        self.expected.update({row["id"]: row["ts"] for row in batch.to_pylist()})

    def opened(self, *, engine: Any = None, **options: str) -> Table:
        parsed = parse_options({**OPTIMISTIC, **self.lock, **options})
        return Table(LocalFileSystem(self.path), options=parsed, engine=engine or LocalEngine(1))

    def their_write(self, batch: pa.Table) -> None:
        file = self.path.with_name("batch.parquet")
        pq.write_table(batch, file)
        self.hudi.call("write", path=str(self.path), rows=str(file), conf={**THEIRS, **self.lock})
        self.put(batch)

    def agree(self) -> None:
        table = pyhudi.open_table(self.path)
        found = table.scan(["id", "ts"]).to_arrow().to_pylist()
        assert {r["id"]: r["ts"] for r in found} == self.expected
        assert len(found) == len(self.expected)
        assert table.index.verify().is_exact and not table.metadata.verify().findings
        for metadata in ("on", "off"):
            got = self.hudi.read(self.path, mdt=metadata).to_pylist()
            assert {r["id"]: r["ts"] for r in got} == self.expected
            assert len(got) == len(self.expected)
        assert not self.hudi.call("validate", path=str(self.path)).get("problems")


@pytest.mark.parametrize(
    ("hudi", "version"), [("0.15.0", 6), ("1.2.0", 6), ("1.2.0", 8), ("1.2.0", 9)]
)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_writers_of_both_packages_lose_nothing(
    hudi: str, version: int, kind: str, tmp_path: Path, apache_hudi: Hudi
) -> None:
    """pyhudi upserts and compacts while Apache Hudi upserts other file groups."""
    shared = Shared(tmp_path / "t", apache_hudi(hudi), version=version, kind=kind)
    ended, raised, mine = threading.Event(), [], []

    def write() -> None:
        writer, turn = shared.opened(), 0
        try:
            while not ended.is_set():
                turn += 1
                batch = rows("a", range(turn, turn + 10), turn)
                writer.upsert(batch)
                mine.append(batch)
                if kind == "mor" and version > 6 and turn % 4 == 0:
                    writer.compact()
                ended.wait(0.3)  # Apache Hudi requests the lock file now and then, in no queue
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for turn in range(JAVA_TURNS):
            shared.their_write(rows("b", range(5 * turn, 5 * turn + 25), turn + 1))
    finally:
        ended.set()
        thread.join()
    assert not raised, raised
    assert len(mine) > 1
    for batch in mine:
        shared.put(batch)
    shared.agree()


@pytest.mark.parametrize("lock", ["file", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
@pytest.mark.parametrize(("hudi", "version"), [("0.15.0", 6), ("1.2.0", 9)])
def test_apache_hudi_waits_for_a_lock_that_pyhudi_holds(
    lock: str, hudi: str, version: int, tmp_path: Path, apache_hudi: Hudi
) -> None:
    given = {} if lock == "file" else zookeeper_options()
    shared = Shared(tmp_path / "t", apache_hudi(hudi), version=version, kind="cow", **given)
    shared.their_write(rows("b", range(3), 1))
    ended = threading.Event()

    def write() -> None:
        shared.their_write(rows("b", range(5), 2))
        ended.set()

    rules = parse_options({**OPTIMISTIC, **given}).write.lock
    with TableLock(LocalFileSystem(shared.path), purpose="hold", rules=rules):
        thread = threading.Thread(target=write)
        thread.start()
        assert not ended.wait(15)
    thread.join(120)
    assert ended.is_set()
    shared.opened().upsert(rows("a", range(3), 3))
    shared.put(rows("a", range(3), 3))
    shared.agree()


def zookeeper_options() -> dict[str, str]:
    """Of the lock of Apache Hudi on a ZooKeeper of this process."""
    address, prefix = zookeeper.shared_zookeeper(), "hoodie.write.lock."
    return {
        prefix + "provider": (
            "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        ),
        prefix + "zookeeper.url": address, prefix + "zookeeper.port": address.rpartition(":")[2],
        prefix + "zookeeper.base_path": "/hudi",
        prefix + "zookeeper.lock_key": secrets.token_hex(4),
    }  # fmt: skip


@TABLES
def test_our_write_meets_their_commit(
    version: int, kind: str, tmp_path: Path, apache_hudi: Hudi
) -> None:
    """Theirs to the same file groups is a conflict, to others is not; ours is written again."""
    shared = Shared(tmp_path / "t", apache_hudi("1.2.0"), version=version, kind=kind)

    def met_by(theirs: pa.Table, **options: str) -> Table:
        return shared.opened(engine=Pausing("write", lambda: shared.their_write(theirs)), **options)

    ours = rows("a", range(5, 10), 2)
    assert met_by(rows("b", range(10), 1)).upsert(ours).conflicts == 0
    shared.put(ours)
    shared.agree()
    ours = rows("a", range(5, 10), 4)
    assert met_by(rows("a", range(8), 3)).upsert(ours).conflicts == 1
    shared.put(ours)
    shared.agree()
    once = {"hoodie.write.num.retries.on.conflict.failures": "0"}
    with pytest.raises(WriteConflictError):
        met_by(rows("a", range(3, 8), 5), **once).upsert(rows("a", range(5), 6))
    shared.agree()


@TABLES
def test_their_write_meets_our_commit(
    version: int, kind: str, tmp_path: Path, apache_hudi: Hudi
) -> None:
    """Apache Hudi refuses its write; either rolls it back later."""
    shared = Shared(tmp_path / "t", apache_hudi("1.2.0"), version=version, kind=kind)
    shared.their_write(rows("b", range(5), 1))
    for turn in (2, 4):
        met = Interposed(shared, rows("a", range(10), turn + 1))
        with met, pytest.raises(AssertionError, match=r"ConcurrentModification|Conflict"):
            shared.their_write(rows("a", range(5, 15), turn))
        met.check()
        shared.agree()
    shared.their_write(rows("a", range(10, 20), 6))
    shared.agree()
    shared.opened().upsert(rows("b", range(3), 7))
    shared.put(rows("b", range(3), 7))
    shared.opened().clean()
    shared.agree()


class Interposed:
    """A write of ours as soon as Apache Hudi has begun one."""

    def __init__(self, shared: Shared, batch: pa.Table) -> None:
        self._shared, self._batch = shared, batch
        self._timeline = shared.path / ".hoodie" / "timeline"
        self._known = set(self._timeline.iterdir())
        self._thread = threading.Thread(target=self._write)
        self._conflicts: list[int] = []

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _write(self) -> None:
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            begun = set(self._timeline.iterdir()) - self._known
            if any(re.fullmatch(r"\d+(\.deltacommit)?\.inflight", file.name) for file in begun):
                break
            time.sleep(0.002)
        self._conflicts.append(self._shared.opened().upsert(self._batch).conflicts)
        self._shared.put(self._batch)

    def check(self) -> None:
        """Ours met no conflict: it ended before theirs."""
        assert self._conflicts == [0]
