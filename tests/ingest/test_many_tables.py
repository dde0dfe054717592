"""Many tables in one process: each is isolated, and the report has the state of each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.errors import OptionError
from pyhudi.ingest.many_tables import read_tables, run_tables
from pyhudi.ingest.status import IngestState, IngestStatus

FILE = """
[defaults]
source-class = "tests.support.row_sources:counting"
min-sync-interval-seconds = 0.01
[defaults.properties]
"hoodie.datasource.write.recordkey.field" = "id"
step = 2

[tables.first]
target-base-path = "{folder}/first"
[tables.first.properties]
stop = 6

[tables.second]
target-base-path = "{folder}/second"
props = "second.properties"
table-type = "MERGE_ON_READ"

[tables.broken]
target-base-path = "{folder}/broken"
source-class = "tests.ingest.test_many_tables:broken"
"""


class Broken:
    def read(self, *position: Any) -> None:
        raise OptionError("the source is broken")


def broken(properties: Any) -> Broken:
    return Broken()


def described(folder: Path, text: str = FILE) -> str:
    (folder / "second.properties").write_text("stop=4\n")
    path = folder / "tables.toml"
    path.write_text(text.format(folder=folder))
    return str(path)


def test_a_table_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    last = run_tables(read_tables(described(tmp_path)))
    assert {name: (state.state, state.rows) for name, state in last.items()} == {
        "first": (IngestState.STOPPED, 6),
        "second": (IngestState.STOPPED, 4),
        "broken": (IngestState.FAILED, 0),
    }
    assert "the source is broken" in (last["broken"].error or "")
    second = pyhudi.open_table(tmp_path / "second")
    assert (second.count(), second.config.name) == (4, "second")
    assert second.config.table_type.value == "MERGE_ON_READ"


def test_all_tables_end_when_they_are_stopped(tmp_path: Path) -> None:
    text = FILE.replace("[defaults]", "[defaults]\ncontinuous = true")
    ended = threading.Event()
    idle: set[str] = set()

    def receive(status: IngestStatus) -> None:
        if status.state in (IngestState.IDLE, IngestState.FAILED):
            idle.add(status.table)
        if len(idle) == 3:
            ended.set()

    tables = read_tables(described(tmp_path, text))
    last = run_tables(tables, stop=ended.is_set, on_status=[receive])
    assert [state.rows for state in last.values()] == [6, 4, 0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tables = 1",
        "[tables]\nx = 1",
        "[other]\nx = 1\n[tables.x]",
        "[tables.x]\nnonsense = 1",
        '[tables.x]\nsource-limit = "many"',
        '[tables.x]\ncontinuous = "yes"',
        '[tables.x]\nprops = "missing.properties"',
        "not toml",
    ],
)
def test_a_wrong_file_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "tables.toml").write_text(text)
    with pytest.raises(OptionError):
        read_tables(str(tmp_path / "tables.toml"))
