"""A table on Google's and Azure's stores: written, read, locked."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import LockError
from pyhudi.storage.locks.table_lock import LOCK, TableLock, check_lock
from pyhudi.storage.object_store import ObjectStoreFileSystem
from tests.support.azure import fresh_azure
from tests.support.gcs import fresh_gcs

SCHEMA = pa.schema({"id": pa.string(), "v": pa.int64()})


@pytest.fixture(
    params=[fresh_gcs, pytest.param(fresh_azure, marks=[pytest.mark.azure, pytest.mark.slow])],
    ids=["gs", "abfs"],
)
def fs(request: pytest.FixtureRequest) -> ObjectStoreFileSystem:
    make: Callable[[], ObjectStoreFileSystem] = request.param
    return make()


def rows(*found: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in found], SCHEMA)


def test_a_table_lives_there(fs: ObjectStoreFileSystem) -> None:
    pyhudi.create_table(
        fs.url, SCHEMA, record_key="id", table_type="mor", storage_options=fs.options
    )
    table = pyhudi.open_table(fs.url, storage_options=fs.options)
    first = table.upsert(rows(("a", 1), ("b", 2)))
    table.upsert(rows(("b", 20), ("c", 3)))
    table.delete(keys=["a"])
    table.compact()
    again = pyhudi.open_table(fs.url, storage_options=fs.options)
    found = again.scan(["id", "v"]).to_arrow().sort_by("id").to_pydict()
    assert found == {"id": ["b", "c"], "v": [20, 3]}
    assert again.scan(as_of=first.instant).count() == 2
    assert again.lookup(["a", "b"]).column("found").to_pylist() == [False, True]


def test_its_lock_is_a_lease_that_can_be_lost(fs: ObjectStoreFileSystem) -> None:
    with TableLock(fs):
        check_lock(fs)
        fs.replace(LOCK, b'{"holder": "another", "token": 7}')
        with pytest.raises(LockError, match="was lost"):
            check_lock(fs)
