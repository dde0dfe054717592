"""Rollback, restore and archival on tables of Apache Hudi: rows are those of the instant."""

from __future__ import annotations

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import UnsupportedTableError
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.transaction.begin import check_table
from tests.support.golden import golden_names, golden_table

FEW = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}


def opened(fs: MemoryFileSystem) -> Table:
    return Table(fs, options=parse_options(FEW), engine=LocalEngine(1))


def snapshot(fs: MemoryFileSystem, as_of: str | None = None, listed: bool = True) -> list[str]:
    options = {**FEW, "hoodie.metadata.enable": str(listed).lower()}
    table = Table(fs, options=parse_options(options), engine=LocalEngine(1))
    columns = [
        c for c in table.schema.names if c.startswith("_hoodie") and c != "_hoodie_file_name"
    ]
    rows = table.scan(columns, as_of=as_of).to_arrow().to_pylist()
    return sorted(map(str, rows))


WITHOUT_META_COLUMNS = "mor_utc_virtualkeys"
ACTS = ["rollback", "restore", "archive"]


def test_a_table_without_meta_columns_is_not_written() -> None:
    with pytest.raises(UnsupportedTableError, match="without meta columns"):
        check_table(opened(golden_table(WITHOUT_META_COLUMNS)).config)


@pytest.mark.parametrize("name", [n for n in golden_names() if n != WITHOUT_META_COLUMNS])
@pytest.mark.parametrize("act", ACTS)
def test_apache_hudis_tables_are_undone_and_archived(name: str, act: str) -> None:
    undo_or_archive(golden_table(name), act)


def undo_or_archive(fs: MemoryFileSystem, act: str) -> None:
    """Act on the last commit; the rows are those of the commit that is then the last one."""
    commits = [i.time for i in opened(fs).timeline.commits]
    last, before = commits[-1], commits[-2]
    want = snapshot(fs, last if act == "archive" else before)
    match act:
        case "rollback":
            opened(fs).rollback(last)
        case "restore":
            opened(fs).restore(before)
        case _:
            opened(fs).archive()
    assert snapshot(fs) == want
    assert snapshot(fs, listed=False) == want
    table = opened(fs)
    assert (last in table.timeline.commits.times) == (act == "archive")
    if "record_index" in table.config.metadata_partitions:
        assert table.index.verify().is_exact
