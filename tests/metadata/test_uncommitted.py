"""Entries of the metadata table count once the data table's commit has completed."""

from __future__ import annotations

import pytest

from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.crash.test_every_stop import OPTIONS, SCHEMA, open_, rows
from tests.support.examples import stops
from tests.support.filesystems import every_stop


@stops(6)
@pytest.mark.parametrize("version", ["6", "9"])
def test_the_index_of_a_write_without_its_commit_locates_none_of_its_keys(
    version: str, one_in: int
) -> None:
    before = MemoryFileSystem()
    options = parse_options({**OPTIONS, "hoodie.write.table.version": version})
    kind = TableType.MERGE_ON_READ
    create(before, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options))
    open_(before).bulk_insert(rows(range(4), 1))
    known, new = [f"k{i}" for i in range(4)], [f"k{i}" for i in range(4, 8)]
    seen = set()
    for stop in every_stop(
        before, lambda fs: open_(fs).upsert(rows(range(2, 8), 2)), one_in=one_in
    ):
        table = open_(stop.fs)
        is_committed = len(table.timeline.commits) == 2
        seen.add(is_committed)
        found = table.index.lookup([*known, *new])["found"].to_pylist()
        assert found == [True] * 4 + [is_committed] * 4, str(stop)
        listed = {str(file.name) for each in table.file_slices() for file in each.files}
        whole = {i.name for part in ("p0", "p1") for i in stop.fs.children(part)}
        assert listed <= whole, str(stop)
    assert seen == {False, True}
