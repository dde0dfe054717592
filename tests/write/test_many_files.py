"""Writes to one partition cost what its files cost, however many files the table has."""

from __future__ import annotations

import os
import tracemalloc
import uuid
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())])
Kind = Literal["bloom", "simple"]
FEW, MANY = 2, 100
FILES = 50
"""In each partition."""
BYTES_PER_FILE_MAX = 100


def opened(path: Path, index: Kind) -> Table:
    options = {"hoodie.index.type": index.upper(), "hoodie.clean.automatic": "false"}
    return pyhudi.open_table(path, options=options)


def filled(path: Path, index: Kind, partitions: int) -> None:
    """A table of one file, linked under the names of many others that its listing then has."""
    made = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", index=index
    )
    made.insert(pa.table({"id": ["a"], "part": ["p0"], "ts": [1]}, SCHEMA))
    (source,) = (path / "p0").glob("*.parquet")
    mark = next((path / "p0").glob(".hoodie_partition_metadata*"))
    suffix = source.name.split("_", 1)[1]
    for number in range(partitions):
        folder = path / f"p{number}"
        folder.mkdir(exist_ok=True)
        if number:
            os.link(mark, folder / mark.name)
        for _ in range(FILES):
            os.link(source, folder / f"{uuid.uuid4()}-0_{suffix}")
    opened(path, index).metadata.rebuild()


def peak(path: Path, index: Kind, operation: str, part: str) -> int:
    """Bytes of Python objects that a write or read of one partition needs at most."""
    tracemalloc.start()
    try:
        table = opened(path, index)
        if operation == "upsert":
            table.upsert(pa.table({"id": ["b"], "part": [part], "ts": [2]}, SCHEMA))
        elif operation == "delete":
            table.delete(pa.table({"id": ["a"], "part": [part]}))
        else:
            assert table.scan(["id"], pc.field("part") == part).to_arrow().num_rows >= FILES
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("operation", ["scan", "upsert", "delete"])
@pytest.mark.parametrize("index", ["bloom", "simple"])
def test_memory_of_one_partition_does_not_grow_with_the_others(
    tmp_path: Path, index: Kind, operation: str
) -> None:
    for name, partitions in (("few", FEW), ("many", MANY)):
        filled(tmp_path / name, index, partitions)
    peak(tmp_path / "few", index, operation, "p0")  # imports, and caches of the process
    few, many = (peak(tmp_path / name, index, operation, "p1") for name in ("few", "many"))
    assert many - few < BYTES_PER_FILE_MAX * FILES * (MANY - FEW)
