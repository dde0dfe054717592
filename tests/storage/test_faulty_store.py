"""A store that refuses, answers late or not at all: each request is tried again or a typed error,
and whatever the store did meanwhile, one writer wins and the table is whole."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import PyhudiError, StorageError
from pyhudi.options import parse_options
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.locks.monotonic_clock import ending_within
from pyhudi.storage.object_store import ObjectStoreFileSystem, _Lease
from tests.support.faulty import Fault, Proxy, faulty
from tests.support.object_stores import shared_s3

pytest.importorskip("obstore", reason="obstore is not installed")

SCHEMA = pa.schema({"id": pa.string(), "v": pa.int64()})
_NAMES = itertools.count()
_RETRIES = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=5),
    "backoff": {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(seconds=0.05)},
}


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with faulty(shared_s3().options["endpoint"]) as found:
        yield found


@pytest.fixture
def options(proxy: Proxy) -> dict[str, object]:
    proxy.faults.clear()
    return {
        **shared_s3().options, "endpoint": proxy.endpoint, "timeout": "0.5s",
        "retry_config": _RETRIES,
    }  # fmt: skip


@pytest.fixture
def fs(options: dict[str, object]) -> ObjectStoreFileSystem:
    return ObjectStoreFileSystem(f"s3://bucket/faulty/{next(_NAMES)}", options)


PASSING = {
    "409 before": Fault("PUT", "/f", status=409),
    "500 before": Fault("PUT", "/f", status=500),
    "503 before": Fault("PUT", "/f", status=503, times=2),
    "cut before": Fault("PUT", "/f"),
    "500 after": Fault("PUT", "/f", status=500, done=True),
    "503 after": Fault("PUT", "/f", status=503, done=True),
    "cut after": Fault("PUT", "/f", done=True),
    "late": Fault("PUT", "/f", done=True, delay_seconds=1),
}


def fresh(fault: Fault) -> Fault:
    return Fault(**vars(fault))


@pytest.mark.parametrize("what", PASSING)
def test_a_create_that_meets_a_passing_fault_is_done_once(
    fs: ObjectStoreFileSystem, proxy: Proxy, what: str
) -> None:
    proxy.faults.append(fresh(PASSING[what]))
    assert fs.create("f", b"mine") is True
    assert fs.read("f") == b"mine" and fs.create("f", b"other") is False
    assert not any(fault.times for fault in proxy.faults)


@pytest.mark.parametrize("what", PASSING)
def test_a_create_that_meets_a_fault_does_not_win_over_another(
    fs: ObjectStoreFileSystem, proxy: Proxy, what: str
) -> None:
    assert fs.create("f", b"first")
    proxy.faults.append(fresh(PASSING[what]))
    assert fs.create("f", b"second") is False
    assert fs.read("f") == b"first"


def test_a_412_without_an_object_is_retried(fs: ObjectStoreFileSystem, proxy: Proxy) -> None:
    proxy.faults.append(Fault("PUT", "/f", status=412))
    assert fs.create("f", b"mine") is True
    proxy.faults.append(Fault("PUT", "/g", status=412, times=100))
    with pytest.raises(StorageError) as caught:
        fs.create("g", b"mine")
    assert caught.value.retryable and not fs.exists("g")


@pytest.mark.parametrize("status", [500, 503, 409, None])
def test_a_store_that_goes_on_failing_is_a_storage_error(
    fs: ObjectStoreFileSystem, proxy: Proxy, status: int | None
) -> None:
    fs.create("f", b"0123456789")
    for method in ("GET", "PUT"):
        proxy.faults.append(Fault(method, "/f", status=status, times=100))
    for act in (lambda: fs.read("f"), lambda: fs.replace("f", b"1"), lambda: fs.create("f2", b"")):
        with pytest.raises(StorageError) as caught:
            act()
        assert caught.value.retryable or status == 409
    proxy.faults.clear()
    assert fs.read("f") == b"0123456789"


@pytest.mark.parametrize("what", ["cut short", "503", "late"])
def test_a_read_that_meets_a_passing_fault_is_tried_again(
    fs: ObjectStoreFileSystem, proxy: Proxy, what: str
) -> None:
    data = bytes(range(256)) * 8
    fs.create("f", data)
    fault = {"cut short": Fault("GET", "/f", cut=10), "503": Fault("GET", "/f", status=503)}
    proxy.faults.append(fault.get(what, Fault("GET", "/f", delay_seconds=1)))
    assert fs.open("f").read_at(100, 1000) == data[100:1100]
    proxy.faults.append(fresh(fault.get(what, Fault("GET", "/f", delay_seconds=1))))
    assert fs.read("f") == data


def test_a_listing_that_breaks_off_is_requested_again(
    fs: ObjectStoreFileSystem, proxy: Proxy
) -> None:
    fs.create("p/f", b"1")
    for fault in (Fault("GET", "list-type", cut=20), Fault("GET", "list-type", status=503)):
        proxy.faults.append(fault)
        assert [info.path for info in fs.below()] == ["p/f"] and fault.times == 0


def rows(*found: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in found], SCHEMA)


AT = (".pyhudi.lock", ".commit", ".parquet", ".commit.requested", ".inflight", "deltacommit")
ANSWERS = [(409, False), (503, False), (None, False), (500, True), (None, True)]


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(list(itertools.product(AT[:2], ANSWERS[-1:])), id="few"),
        pytest.param(list(itertools.product(AT, ANSWERS)), id="all", marks=pytest.mark.slow),
    ],
)
def test_a_write_ends_whole_or_with_an_error_and_nothing(
    options: dict[str, object], proxy: Proxy, cases: list[tuple[str, tuple[int | None, bool]]]
) -> None:
    options["timeout"] = "10s"
    url = f"s3://bucket/faulty/{next(_NAMES)}"
    table = pyhudi.create_table(url, SCHEMA, record_key="id", storage_options=options)
    table.upsert(rows(("a", 0)))
    acknowledged = {"a": 0}
    for number, (part, (status, done)) in enumerate(cases):
        for times in (1, 100):  # passing, and lasting for this write
            proxy.faults[:] = [Fault("PUT", part, status=status, done=done, times=times)]
            key = f"{number}:{times}"
            try:
                table.upsert(rows((key, number)))
                acknowledged[key] = number
            except PyhudiError:
                assert times > 1, part
            proxy.faults.clear()
            again = pyhudi.open_table(url, storage_options=shared_s3().options)
            found = again.scan(["id", "v"]).to_arrow().to_pylist()
            assert {row["id"]: row["v"] for row in found} == acknowledged, part
            assert again.lookup([key]).column("found").to_pylist() == [key in acknowledged]


@pytest.mark.parametrize("fault", ["503", "never answered", "cut"])
def test_a_put_that_must_end_in_time_does(
    proxy: Proxy, options: dict[str, object], fault: str
) -> None:
    """With the client's own patience it would go on for minutes."""
    patient = {k: v for k, v in options.items() if k not in ("timeout", "retry_config")}
    fs = ObjectStoreFileSystem(f"s3://bucket/faulty/{next(_NAMES)}", patient)
    kinds = {"503": Fault("PUT", "/f", status=503), "cut": Fault("PUT", "/f")}
    proxy.faults.append(kinds.get(fault, Fault("PUT", "/f", held_seconds=20)))
    proxy.faults[0].times = 1000
    for seconds in (1, 3):
        began = time.monotonic()
        with ending_within(seconds), pytest.raises(StorageError) as caught:
            fs.create("f", b"mine")
        assert time.monotonic() - began < seconds + 0.5 and caught.value.retryable
    proxy.faults.clear()


class ShortLease(ObjectStoreFileSystem):
    """An object store whose lock is a lease of two seconds."""

    def sub(self, folder: str) -> ObjectStoreFileSystem:
        return ShortLease(f"{self.url}/{folder}", self.options, bucket=self._buckets)

    def mutex(self, path: str) -> LeaseMutex:
        return LeaseMutex(_Lease(self, self._file(path)), f"{self.url}/{path}", lease_seconds=2)


@pytest.mark.parametrize("times", [1, 100])
def test_a_commit_that_the_store_does_late_counts_only_if_it_was_reported(
    options: dict[str, object], proxy: Proxy, times: int
) -> None:
    """The request to publish is held for longer than its lease, once or each time."""
    url, direct = f"s3://bucket/faulty/{next(_NAMES)}", shared_s3().options
    table = pyhudi.create_table(url, SCHEMA, record_key="id", storage_options=direct)
    table.upsert(rows(("0", 0)))
    store = ShortLease(url, {**direct, "endpoint": proxy.endpoint})
    slow = Table(store, options=parse_options({}), engine=LocalEngine(1))
    proxy.faults.append(Fault("PUT", ".commit", held_seconds=8, times=times, ends=True))
    try:
        stands = slow.upsert(rows(("a", 1))).published
    except StorageError:
        stands = False
    assert stands or times > 1
    expected = {"0": 0, **({"a": 1} if stands else {})}
    again = pyhudi.open_table(url, storage_options=direct)
    known = {str(i) for i in again.timeline.commits}
    assert {r["id"]: r["v"] for r in again.scan(["id", "v"]).to_arrow().to_pylist()} == expected
    while proxy.held:  # what was held is done by and by
        time.sleep(0.1)
    folder = again.config.layout.timeline_folder
    names = set(shared_s3().fs(url.partition("bucket/")[2]).names(folder))
    late = {n for n in names if n.endswith(".commit")} - known
    assert bool(late) is not stands
    again = pyhudi.open_table(url, storage_options=direct)
    assert {r["id"]: r["v"] for r in again.scan(["id", "v"]).to_arrow().to_pylist()} == expected
    again.upsert(rows(("b", 2)))
    assert not late & set(shared_s3().fs(url.partition("bucket/")[2]).names(folder))
    found = pyhudi.open_table(url, storage_options=direct).scan(["id", "v"]).to_arrow()
    assert {r["id"]: r["v"] for r in found.to_pylist()} == {**expected, "b": 2}
