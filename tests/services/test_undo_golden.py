"""Rollback, restore and archival on tables of Apache Hudi: rows are those of the instant."""

from __future__ import annotations

import pytest

from pyhudi.api import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import PyhudiError, UnsupportedTableError, UserError
from pyhudi.options import parse_options
from pyhudi.pipeline import check_table
from pyhudi.storage.memory import MemoryFileSystem
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


def writable(name: str) -> MemoryFileSystem:
    fs = golden_table(name)
    try:
        config = opened(fs).config
        check_table(config)
    except UnsupportedTableError as why:
        pytest.skip(f"not written by this package: {why}")
    return fs


@pytest.mark.slow
@pytest.mark.parametrize("name", golden_names())
@pytest.mark.parametrize("act", ["rollback", "restore", "archive"])
def test_apache_hudis_tables_are_taken_back_and_archived(name: str, act: str) -> None:
    fs = writable(name)
    commits = [i.time for i in opened(fs).timeline.commits]
    if len(commits) < 2:
        pytest.skip("one commit")
    to = commits[-1] if act == "archive" else commits[-2]
    try:
        want = snapshot(fs, to)
        if act == "rollback":
            opened(fs).rollback(commits[-1])
        elif act == "restore":
            opened(fs).restore(to)
        else:
            opened(fs).archive()
    except (UserError, PyhudiError) as why:
        pytest.skip(f"refused: {why}")
    assert snapshot(fs) == want
    assert snapshot(fs, listed=False) == want
    table = opened(fs)
    if "record_index" in table.config.metadata_partitions:
        assert table.index.verify().is_exact
