"""Tables on an object store that are so small that one listing has all their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.object_store import ObjectStoreFileSystem
from pyhudi.table.properties import TableType
from tests.crash.test_every_stop import OPTIONS, before, rows
from tests.support.filesystems import tree
from tests.support.object_stores import fresh_s3, shared_s3


class Interrupted(ObjectStoreFileSystem):
    """A store on which others do something once, after one of the listings that a reader makes."""

    meanwhile: Callable[[], None] | None = None
    listings = 0

    def pages(self, folder: str = "") -> Iterator[list[FileInfo]]:
        listed = list(super().pages(folder))
        self.listings -= 1
        if self.meanwhile is not None and self.listings < 0:
            act, self.meanwhile = self.meanwhile, None
            act()
        yield from listed


def opened(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS), engine=LocalEngine(1))


def undo_and_write(fs: FileSystem, ts: int) -> None:
    """The list of rolled-back instants is replaced, then rows are written."""
    table = opened(fs)
    table.rollback(str(table.upsert(rows(range(2), ts)).instant))
    table.upsert(rows(range(6), ts + 1))


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_follower_passes_over_no_rows_that_were_written_after_a_listing(
    kind: TableType, version: int
) -> None:
    fs, ts, met = fresh_s3(), 10, 0
    for path, content in tree(before(kind, version)).items():
        fs.create(path, content)
    undo_and_write(fs, ts)
    for number in range(4):
        since, ts = opened(fs).position(), ts + 10
        reader = Interrupted(fs.url, shared_s3().options)
        reader.meanwhile, reader.listings = partial(undo_and_write, fs, ts), number
        table, found = opened(reader), set()
        for _ in range(6):
            until = table.position()
            if until > since:
                found |= set(table.changes(since, until).to_arrow()["ts"].to_pylist())
                since = until
        met += reader.meanwhile is None
        assert reader.meanwhile is not None or found == {ts + 1}, number
    assert met
