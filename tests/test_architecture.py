"""docs/architecture.md names the files that an upsert, a look-up and a compaction go through."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.engine import LocalEngine

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
MOST = {"An upsert": 25, "A look-up": 14, "A compaction": 14}
ROWS = pa.table({"id": ["a", "b"], "city": ["x", "x"], "at": [1, 1]})
LATER = pa.table({"id": ["b", "c"], "city": ["x", "x"], "at": [2, 2]})


def listed(chapter: str) -> list[str]:
    text = PAGE.read_text("utf-8").partition(f"## {chapter}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/.]+)`", text, re.MULTILINE)


def entered(work: Callable[[], Any]) -> set[str]:
    """Modules of the package with a function that ran, in this thread or one that was started."""
    found: set[str] = set()
    package = f"{ROOT / 'pyhudi'}/"

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            found.add(frame.f_code.co_filename.removeprefix(package))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


@pytest.mark.parametrize("chapter", MOST)
def test_the_way_of_an_operation_is_short_and_enters_each_file_once(chapter: str) -> None:
    names = listed(chapter)
    assert names
    assert len(names) <= MOST[chapter]
    assert len(set(names)) == len(names)
    assert not [name for name in names if not (ROOT / "pyhudi" / name).is_file()]


def test_operations_go_through_the_listed_files(tmp_path: Path) -> None:
    tables = {
        kind: pyhudi.create_table(
            tmp_path / kind, ROWS.schema, record_key="id", partition_by="city", ordering="at",
            table_type=kind, engine=LocalEngine(1),
        )
        for kind in ("cow", "mor")
    }  # fmt: skip
    for table in tables.values():
        table.insert(ROWS)
    mor = tables["mor"]
    upsert = {
        name for table in tables.values() for name in entered(lambda t=table: t.upsert(LATER))
    }
    assert not sorted(set(listed("An upsert")) - upsert)
    assert not sorted(
        set(listed("A look-up")) - entered(lambda: (mor.lookup(["a"]), mor.fetch(["a"])))
    )
    assert not sorted(set(listed("A compaction")) - entered(mor.compact))
