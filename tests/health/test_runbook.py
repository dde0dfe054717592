"""The commands of docs/operations/runbook.md, each in the state that its section is for."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import pyhudi
from pyhudi.api.table import Table
from pyhudi.cli.app import commands
from pyhudi.engine import LocalEngine
from pyhudi.options import Options
from pyhudi.storage.local import LocalFileSystem
from tests.support.filesystems import Crash, CrashingFileSystem
from tests.support.planted import plant

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "runbook.md"
ROWS = pa.table({"id": ["a", "b"], "city": ["sf", "la"], "v": [1, 2]})


def sections() -> dict[str, list[str]]:
    """Title -> the commands of its shell blocks."""
    parts = PAGE.read_text("utf-8").split("\n## ")[1:]
    found = {}
    for part in parts:
        blocks = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
        found[part.splitlines()[0]] = [line for b in blocks for line in b.splitlines() if line]
    return {title: lines for title, lines in found.items() if lines}


@contextmanager
def crashed(path: Path) -> Iterator[None]:
    fs = CrashingFileSystem(LocalFileSystem(path), stop=12)
    with pytest.raises(Crash):
        Table(fs, options=Options(), engine=LocalEngine(1)).upsert(ROWS)
    yield


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """A table whose lock another process holds."""
    code = (
        "import sys\n"
        "from pyhudi.storage.local import LocalFileSystem\n"
        "from pyhudi.storage.locks.table_lock import TableLock\n"
        f"with TableLock(LocalFileSystem({str(path)!r}), purpose='upsert'):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.stdin.close()


@contextmanager
def sound(path: Path) -> Iterator[None]:
    yield


@contextmanager
def compaction_pending(path: Path) -> Iterator[None]:
    pyhudi.open_table(path).upsert(ROWS)
    assert pyhudi.open_table(path).schedule_compaction()
    yield


@contextmanager
def many_logs(path: Path) -> Iterator[None]:
    for _ in range(5):
        pyhudi.open_table(path).upsert(ROWS)
    yield


@contextmanager
def pinned(path: Path) -> Iterator[None]:
    table = pyhudi.open_table(path)
    table.savepoint("release")
    with table.pin_snapshot():
        yield


@contextmanager
def wrong_index(path: Path) -> Iterator[None]:
    plant(LocalFileSystem(path), {"a": ("la", "0" * 8 + "-0000-0000-0000-" + "0" * 12 + "-0")})
    yield


@contextmanager
def missing_file(path: Path) -> Iterator[None]:
    next(path.glob("sf/*.parquet")).unlink()
    yield


State = Callable[[Path], AbstractContextManager[None]]
STATES: dict[str, tuple[State, dict[str, tuple[int, str]]]] = {
    "Daily checks": (sound, {
        "pyhudi doctor events": (0, "no problems found"),
        "pyhudi services run events --dry-run": (0, "compaction: not due"),
    }),
    "A writer crashed": (crashed, {"pyhudi locks events": (0, "is_running=False")}),
    "Writes wait or fail with LOCK": (locked, {"pyhudi locks events": (0, "purpose=upsert")}),
    "Writes fail with WRITE_CONFLICT": (compaction_pending, {
        "pyhudi compaction list events": (0, "requested"),
        "pyhudi compaction run events": (0, "log files"),
    }),
    "Reads became slow": (many_logs, {
        "pyhudi table sizes events": (0, "log"),
        "pyhudi services run events --dry-run": (0, "compaction: due"),
    }),
    "Storage grows": (pinned, {
        "pyhudi clean run events --dry-run": (0, "dry run"),
        "pyhudi savepoint show events": (0, "release"),
        "pyhudi clean pins events": (0, "True"),
    }),
    "The index is wrong": (wrong_index, {
        "pyhudi index verify events": (3, "a"),
        "pyhudi index repair events": (0, "put     │ 1"),
    }),
    "A file is damaged or missing": (missing_file, {
        "pyhudi doctor events": (3, "a file that a commit wrote is missing"),
        "pyhudi repair events --dry-run": (3, "allow_loss"),
    }),
}  # fmt: skip
"""Section -> the state of its table, and exit code and a part of the output of each command."""


def test_every_section_with_commands_has_a_state() -> None:
    assert {t: set(lines) for t, lines in sections().items()} == {
        title: set(expected) for title, (_, expected) in STATES.items()
    }


@pytest.mark.parametrize("title", STATES)
def test_the_commands_of_a_section_work_in_its_state(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = pyhudi.create_table(
        "events", ROWS, record_key="id", partition_by="city", table_type="mor"
    )
    table.insert(ROWS)
    state, expected = STATES[title]
    with state(tmp_path / "events"):
        for line in sections()[title]:
            words = shlex.split(line)
            assert words.pop(0) == "pyhudi"
            done = CliRunner(env={"COLUMNS": "200"}).invoke(commands, words)
            code, part = expected[line]
            assert (done.exit_code, part in done.output) == (code, True), done.output
