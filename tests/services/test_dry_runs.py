"""Every service verb has a dry run, which says what would happen and changes nothing."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.health_methods import CareVerbs, MetadataCare, TableServices
from pyhudi.api.index_methods import TableIndex
from pyhudi.api.service_methods import ServiceVerbs
from pyhudi.cli.app import commands, run

ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [1, 1]})
READERS = {
    "pin_snapshot", "pinned_snapshots", "savepoints", "archived_timeline", "doctor",
    "metadata", "services", "pending", "without_inline_services",
    "verify", "lookup", "explain", "entries", "stats", "compare", "list", "report", "gauges",
}  # fmt: skip
"""Verbs that change nothing of the table."""
SERVING = {"start", "run_enabled"}
"""Verbs that run services next to a writer; `services.run(dry_run=True)` states what is due."""
ROOMS = (ServiceVerbs, CareVerbs, TableServices, MetadataCare, TableIndex)
VERBS = [
    pytest.param(verb, id=f"{room.__name__}.{name}")
    for room in ROOMS
    for name, verb in vars(room).items()
    if not name.startswith("_") and callable(verb) and name not in READERS | SERVING
]
CHANGING = (
    "clean run", "clustering run", "clustering schedule", "clustering unschedule",
    "compaction logs", "compaction run", "compaction schedule", "compaction unschedule",
    "index create", "index drop", "index rebuild", "index repair", "metadata rebuild", "repair",
    "restore run", "rollback run", "savepoint create", "savepoint delete", "services run",
    "table drop", "table set", "table upgrade", "timeline archive", "ttl run",
)  # fmt: skip
READING = {
    "clean pins", "savepoint show", "clustering list", "clustering show", "compaction list",
    "compaction show",
}  # fmt: skip
NOUNS = {"clean", "clustering", "compaction", "restore", "rollback", "savepoint", "services", "ttl"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_service_verb_has_a_dry_run(verb: Any) -> None:
    parameter = inspect.signature(verb).parameters.get("dry_run")
    assert parameter is not None and parameter.default is False
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY


def test_a_service_command_has_a_dry_run() -> None:
    for noun, group in commands.commands.items():
        for verb in group.commands if isinstance(group, click.Group) else ():
            name = f"{noun} {verb}"
            if noun in NOUNS and name not in READING:
                assert name in CHANGING
    for name in CHANGING:
        found: click.Command = commands
        for word in name.split():
            assert isinstance(found, click.Group)
            found = found.commands[word]
        assert any("--dry-run" in parameter.opts for parameter in found.params), name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A merge-on-read table with a compaction and a clustering pending, and a savepoint."""
    made = pyhudi.create_table(
        tmp_path / "t", ROWS.schema, record_key="id", partition_by="city", ordering="ts",
        table_type="mor",
    )  # fmt: skip
    made.bulk_insert(ROWS)
    made.savepoint("before")
    made.upsert(ROWS.slice(0, 1))
    assert made.schedule_compaction()
    assert made.schedule_clustering("ts", partitions="y")
    made.upsert(ROWS.slice(0, 1))
    return tmp_path / "t"


def files(path: Path) -> dict[str, bytes]:
    """Content by name, without the signature of the lock's last holder."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and ".pyhudi.lock" not in file.name
    }


@pytest.mark.parametrize("name", CHANGING)
def test_a_dry_run_changes_nothing(
    name: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pyhudi.open_table(path)
    instants = {
        "compaction unschedule": table.timeline.pending.instants[0].time,
        "clustering unschedule": table.timeline.pending.instants[1].time,
        "restore run": table.timeline.commits.instants[0].time,
        "rollback run": table.timeline.commits.instants[-1].time,
        "savepoint delete": table.savepoints()[0].instant,
    }
    words = [*name.split(), str(path), *([instants[name]] if name in instants else [])]
    if name == "ttl run":
        words += ["--option", "hoodie.partition.ttl.strategy.days.retain=1"]
    words += {
        "index create": ["column_stats"],
        "index drop": ["record_index"],
        "table set": ["owner=ana"],
    }.get(name, [])
    before = files(path)
    with pytest.raises(SystemExit) as ended:
        run([*words, "--dry-run", "--json"])
    output = capsys.readouterr()
    refused = name in ("rollback run", "compaction unschedule", "restore run", "table upgrade")
    assert ended.value.code in ((0, 2, 4) if refused else (0,)), output.err
    if ended.value.code == 0:
        assert isinstance(json.loads(output.out), dict)
    assert files(path) == before


def test_what_a_dry_run_says_is_what_then_happens(path: Path) -> None:
    table = pyhudi.open_table(path)
    preview = table.savepoint("second", dry_run=True)
    assert preview.dry_run and len(table.savepoints()) == 1
    made = table.savepoint("second")
    assert (preview.instant, preview.files, preview.partitions) == (
        made.instant,
        made.files,
        made.partitions,
    )
    released = table.delete_savepoint(made.instant, dry_run=True)
    assert released.dry_run and len(table.savepoints()) == 2
    assert table.delete_savepoint(made.instant).files == released.files
    assert len(table.savepoints()) == 1
    with pytest.raises(pyhudi.UserError, match="no savepoint"):
        table.delete_savepoint(made.instant, dry_run=True)
    table.compact()
    table.cluster()
    planned = table.schedule_clustering("ts", dry_run=True)
    assert planned.dry_run and planned.file_groups == 2 and not table.timeline.pending
