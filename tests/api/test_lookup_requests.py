"""How often a look-up reads what stays the same: the table's properties, once a call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.filenames import PROPERTIES
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem

CALLS: dict[str, Callable[[Table], Any]] = {
    "lookup": lambda table: table.lookup(["k1", "none"]),
    "fetch": lambda table: table.fetch(["k1", "none"]),
    "index.lookup": lambda table: table.index.lookup(["k1", "none"]),
    "index.explain": lambda table: table.index.explain(["k1", "none"]),
}


class CountingFileSystem(LocalFileSystem):
    """The local disk, with the paths that are read whole."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.paths: list[str] = []

    def read(self, path: str) -> bytes:
        self.paths.append(path)
        return super().read(path)


@pytest.mark.parametrize("call", CALLS)
def test_a_look_up_reads_the_properties_once(tmp_path: Path, call: str) -> None:
    rows = pa.table({"id": ["k1", "k2"], "v": [1, 2]})
    pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id").insert(rows)
    fs = CountingFileSystem(tmp_path / "t")
    table = Table(fs, options=parse_options({}), engine=LocalEngine())
    fs.paths.clear()
    CALLS[call](table)
    assert fs.paths.count(PROPERTIES) == 1
