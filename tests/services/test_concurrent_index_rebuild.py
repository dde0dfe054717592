"""`index.rebuild()` while others write: it reads again, or waits, and does not fail."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.index.maintenance.rebuild import Progress

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("part", pa.string())])
OPTIONS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}


def rows(count: int, value: int) -> pa.Table:
    ids = [f"k{n}" for n in range(count)]
    return pa.table([ids, [value] * count, [f"p{n}" for n in range(count)]], schema=SCHEMA)


@pytest.mark.parametrize("kind", ["mor", pytest.param("cow", marks=pytest.mark.slow)])
def test_files_that_are_cleaned_while_their_keys_are_read_do_not_end_a_rebuild(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", table_type=kind, options=OPTIONS
    )
    table.upsert(rows(40, 0))  # a partition is a task, and there are several waves of them
    seen: list[str] = []

    def meanwhile(progress: Progress) -> None:
        seen.append(progress.phase)
        if len(seen) > 1:
            return
        other = pyhudi.open_table(path, options=OPTIONS)
        for value in range(1, 4 if kind == "cow" else 3):
            other.upsert(rows(40 + value, value))
            if kind == "mor":
                other.compact()
        other.clean()

    done = table.index.rebuild(progress=meanwhile)
    assert done.entries == (43 if kind == "cow" else 42)
    assert pyhudi.open_table(path).index.verify().is_exact


def test_a_rebuild_waits_for_the_write_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(path, SCHEMA, record_key="id", options=OPTIONS)
    table.upsert(rows(5, 0))
    stop, errors = threading.Event(), list[Exception]()

    def write() -> None:
        value = 0
        while not stop.is_set():
            value += 1
            try:
                pyhudi.open_table(path, options=OPTIONS).upsert(rows(8, value))
            except pyhudi.PyhudiError as error:
                errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    until = time.monotonic() + 20
    try:
        for _ in range(4):
            table.index.rebuild()
            assert time.monotonic() < until
    finally:
        stop.set()
        writer.join()
    assert not errors
    again = pyhudi.open_table(path)
    assert again.index.verify().is_exact and len(again.scan().to_arrow()) == 8
