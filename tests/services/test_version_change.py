"""Upgrade and downgrade between versions 6, 8 and 9: the rows stay; all are written."""

from __future__ import annotations

from collections import Counter

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from tests.support.foreign import row_counts
from tests.support.golden import golden_names, golden_table

OPTIONS = {"hoodie.index.type": "SIMPLE"}


def opened(fs: FileSystem, **more: str) -> Table:
    return Table(fs, options=parse_options({**OPTIONS, **more}), engine=LocalEngine(1))


def rows(table: Table) -> Counter[str]:
    found = table.scan().to_arrow()
    return row_counts(found, [n for n in found.column_names if n != "_hoodie_file_name"])


WRITABLE = [name for name in golden_names() if name != "mor_utc_virtualkeys"]
"""That table has no meta columns."""


@pytest.mark.parametrize("name", WRITABLE)
def test_a_golden_table_keeps_its_rows_up_and_down(name: str) -> None:
    fs = golden_table(name)
    before, listed = rows(opened(fs)), opened(fs).config.metadata_partitions
    for to in (8, 9):
        report = opened(fs).upgrade(to)
        table = opened(fs)
        assert table.config.version == to == report.to_version
        assert rows(table) == before, to
        assert table.config.metadata_partitions == listed
        assert not table.metadata.verify().findings
    for to in (8, 6):
        opened(fs).downgrade(to)
        table = opened(fs)
        assert table.config.version == to
        assert rows(table) == before, to
        assert table.config.metadata_partitions == listed
        assert not (table.doctor() if to == 6 else table.metadata.verify()).findings
