"""Every command with wrong values: a typed error, the right exit code, and nothing created.

Commands and their parameters are discovered from click, so a new command is walked too; a
parameter for which no wrong value is listed here fails the walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.cli.app import commands, run

FAILURE, USAGE, PROBLEMS = 1, 2, 3
FINE = {  # what makes every other parameter of a command a right one
    "path": "table",
    "file": "file",
    "keys": "a",
    "instant": "20200101000000000",
    "index_kind": "bloom_filters",
    "index_name": "record_index",
    "since": "000",
    "a": "20200101000000000",
    "key": "a",
    "checkpoint": "17",
    "tables_file": "tables.toml",
    "source": "rows.parquet",
    "option_name": "hoodie.table.name",
    "other": "table",
    "target": "copied",
}
NUMBERS = ("0", "-1", "-9223372036854775809", "x", "", "1e400", "nan", "inf")
BY_NAME: dict[str, tuple[tuple[str, int], ...]] = {
    "path": (
        ("missing", FAILURE),
        ("missing/below", FAILURE),
        ("folder", FAILURE),
        ("text.txt", FAILURE),
        ("table/.hoodie/hoodie.properties", FAILURE),
        ("", USAGE),
        ("nope://bucket/table", USAGE),
        ("s3://", USAGE),
    ),
    "file": (("missing", USAGE), ("folder", USAGE), ("text.txt", FAILURE), ("empty", FAILURE)),
    "instant": (
        ("", USAGE),
        ("nope", USAGE),
        ("-1", USAGE),
        ("../../etc", USAGE),
        ("20990101000000000", USAGE),
    ),
    "as_of": (("", USAGE), ("nope", USAGE), ("2026-13-45", USAGE)),
    "options": (
        ("nonsense", USAGE),
        ("=1", USAGE),
        ("hoodie.nonsense=1", USAGE),
        ("hoodie.cleaner.commits.retained=many", USAGE),
    ),
    "storage": (("nonsense", USAGE), ("=1", USAGE)),
    "words": (("select", USAGE), ("no statement", USAGE), ("", USAGE)),
    "script_file": (("missing", USAGE), ("folder", USAGE), ("text.txt", USAGE), ("empty", USAGE)),
    "parameters": (("nonsense", USAGE), ("=1", USAGE)),
    "props": (("missing", USAGE), ("folder", USAGE), ("text.txt", USAGE)),
    "sort_by": (("nowhere", USAGE), ("", USAGE)),
    "partitions": (("nowhere", USAGE), ("../elsewhere", USAGE)),
    "record_key": (("nowhere", USAGE), ("", USAGE)),
    "partition_by": (("nowhere", USAGE), ("", USAGE)),
    "ordering": (("nowhere", USAGE), ("", USAGE)),
    "like": (("missing", USAGE), ("folder", USAGE), ("text.txt", USAGE), ("empty", USAGE)),
    "index": (("nope", USAGE), ("", USAGE)),
    "index_name": (("nope", USAGE), ("", USAGE), ("files", USAGE)),
    "columns": (("id", USAGE), ("", USAGE)),
    "name": (("mine", USAGE), ("", USAGE)),
    "expression": (("lower", USAGE), ("", USAGE)),
    "arguments": (("nonsense", USAGE), ("=1", USAGE), ("a=1", USAGE)),
    "kind": (("nope", USAGE), ("", USAGE)),
    "table_name": (("", USAGE),),
    "selected": (("nowhere", USAGE), ("", USAGE)),
    "where": (("nowhere = 1", USAGE), ("((", USAGE), ("", USAGE)),
    "output": (("folder", USAGE), ("missing/rows.csv", USAGE)),
    "a": (("", USAGE), ("nope", USAGE)),
    "b": (("", USAGE), ("nope", USAGE)),
    "source": (("missing", USAGE), ("folder", USAGE), ("text.txt", USAGE), ("empty", USAGE)),
    "record_keys": (("", USAGE),),
    "whole_partitions": (("", USAGE),),
    "option_name": (("hoodie.nonsense", USAGE), ("", USAGE)),
    "table_path": (("missing", FAILURE), ("folder", FAILURE)),
    "unset": (("", USAGE), ("hoodie.table.version", USAGE)),
    "properties": (("nonsense", USAGE), ("=1", USAGE), ("hoodie.table.type=x", USAGE)),
    "since": (("", USAGE), ("nope", USAGE)),
    "until": (("", USAGE), ("nope", USAGE)),
    "other": (("missing", FAILURE), ("folder", FAILURE), ("", USAGE)),
    "interval": tuple((number, USAGE) for number in NUMBERS),
    "every": tuple((number, USAGE) for number in NUMBERS),
    "keep": (("text.txt", USAGE), ("text.txt/below", USAGE), ("folder", USAGE)),
    "others": (("nonsense", USAGE), ("=1", USAGE), ("x=missing", FAILURE), ("table=table", USAGE)),
    "host": (("0.0.0.0", USAGE), ("", USAGE), ("example.org", USAGE)),
    "token_file": (("missing", USAGE), ("folder", USAGE), ("empty", USAGE), ("text.txt", USAGE)),
    "writable": (("nowhere", USAGE), ("", USAGE)),
    "writer_file": (("missing", USAGE), ("folder", USAGE), ("empty", USAGE), ("text.txt", USAGE)),
    "audit": (("missing/audit.log", USAGE), ("folder", USAGE)),
    "certificate": (("missing", USAGE), ("folder", USAGE), ("text.txt", USAGE)),
    "private_key": (("missing", USAGE), ("folder", USAGE), ("text.txt", USAGE)),
    "max_seconds": tuple((number, USAGE) for number in NUMBERS),
    "max_write_seconds": tuple((number, USAGE) for number in NUMBERS),
    "max_memory": (("lots", USAGE), ("0MB", USAGE), ("", USAGE)),
    "stop_after": tuple((number, USAGE) for number in NUMBERS),
    "buckets": (("100000001", USAGE),),
    "source_class": (("Nowhere", USAGE), ("", USAGE)),
    "target": (("", USAGE), ("folder", USAGE), ("nope://bucket/table", USAGE)),
    "to_storage": (("nonsense", USAGE), ("=1", USAGE)),
    "target_base_path": (("missing", USAGE), ("", USAGE)),
    "target_table": (("", USAGE),),
    "hoodie_conf": (("nonsense", USAGE), ("=1", USAGE), ("hoodie.streamer.nonsense=1", USAGE)),
    "source_ordering_field": (("", USAGE),),
    "checkpoint": (("", USAGE),),
    "ignore_checkpoint": (("", USAGE),),
    "transformer_class": (("Nowhere", USAGE), ("", USAGE)),
    "schemaprovider_class": (("Nowhere", USAGE), ("", USAGE)),
    "payload_class": (("Nowhere", USAGE), ("", USAGE)),
    "bad_rows": (("", USAGE),),
    "health_file": (("missing/health.json", USAGE), ("", USAGE)),
    "http": (("nowhere", USAGE), ("127.0.0.1:70000", USAGE), ("", USAGE)),
    "retry_interval_seconds": tuple((number, USAGE) for number in NUMBERS),
    "tables_file": (("missing", USAGE), ("folder", USAGE), ("text.txt", USAGE), ("empty", USAGE)),
    "source_props": (("", USAGE),),
    "uri": (("nope", USAGE), ("", USAGE)),
    "database": (("", USAGE),),
    "table": (("", USAGE),),
    "region": (("", USAGE),),
}
IN_NEW_TABLES: dict[str, tuple[tuple[str, int], ...]] = {
    "path": (("", USAGE), ("nope://bucket/table", USAGE), ("s3://", USAGE)),
}
FINE_OPTIONS = {"output": "--output=report.html", "to": "--to=6", "like": "--like=rows.parquet"}
"""Options that a command requires, with a value that is right."""
WITHOUT_WRONG_VALUES = {"keys", "key", "comment", "contains"}
FLAGS = ("--dry-run", "--json", "--yes", "--allow-loss")


def leaves(
    command: click.Command = commands, name: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for word, below in sorted(command.commands.items()):
            yield from leaves(below, (*name, word))
    else:
        yield name, command


def wrong_values(name: tuple[str, ...], parameter: click.Parameter) -> tuple[tuple[str, int], ...]:
    """Values the parameter cannot have, each with the exit code it is to give."""
    named = BY_NAME.get(parameter.name or "", ())
    if name in (("table", "create"), ("bench",)):
        named = IN_NEW_TABLES.get(parameter.name or "", named)
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return ()
    if isinstance(parameter.type, click.Choice):
        return (*named, ("nope", USAGE), ("", USAGE))
    kinds = (click.types.IntParamType, click.types.FloatParamType)
    if isinstance(parameter.type, kinds) or isinstance(parameter.default, int | float):
        return (*named, *((number, USAGE) for number in NUMBERS))
    return named


def call(
    name: tuple[str, ...],
    command: click.Command,
    wrong: click.Parameter,
    value: str,
    flags: tuple[str, ...] = (),
) -> list[str]:
    """The words of a command line on which one parameter alone is wrong.  flags: those of them
    that the command has are given."""
    known = {word for parameter in command.params for word in parameter.opts}
    words = [*name, *(flag for flag in flags if flag in known)]
    positions = [p for p in command.params if isinstance(p, click.Argument)]
    if isinstance(wrong, click.Option):
        words.append(f"{wrong.opts[0]}={value}")
    words += [
        FINE_OPTIONS[other.name or ""]
        for other in command.params
        if isinstance(other, click.Option) and other.required and other is not wrong
    ]
    words.append("--")
    for parameter in positions:
        if parameter is wrong:
            words.append(value)
        elif parameter.required:
            words.append(FINE[parameter.name or ""])
    return words


CASES = [
    pytest.param(
        name, command, parameter, value, code, id=f"{' '.join(name)}-{parameter.name}={value}"
    )
    for name, command in leaves()
    for parameter in command.params
    for value, code in wrong_values(name, parameter)
]


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, a folder that is none, a text file, and an empty file."""
    folder = tmp_path_factory.mktemp("wrong")
    rows = pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [1, 1]})
    made = pyhudi.create_table(
        folder / "table", rows.schema, record_key="id", partition_by="city", ordering="ts",
        table_type="mor",
    )  # fmt: skip
    made.bulk_insert(rows)
    made.upsert(rows)
    (folder / "folder").mkdir()
    (folder / "folder" / "notes.txt").write_text("no table here\n")
    (folder / "text.txt").write_text("no table here\n" * 100)
    (folder / "empty").write_bytes(b"")
    (folder / "tables.toml").write_text("[tables.x]\n")
    pq.write_table(rows, folder / "rows.parquet")
    return folder


@pytest.fixture
def here(stocked: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(stocked)
    return stocked


def inventory(folder: Path) -> dict[str, bytes | None]:
    """What lies there; signatures of the lock's last holder are not part of the table."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if ".pyhudi.lock" not in path.name
    }


def ended(words: list[str]) -> int:
    with pytest.raises(SystemExit) as stopped:
        run(words)
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


@pytest.mark.parametrize(("name", "command", "parameter", "value", "code"), CASES)
def test_a_wrong_value_is_a_typed_error_and_changes_nothing(
    name: tuple[str, ...],
    command: click.Command,
    parameter: click.Parameter,
    value: str,
    code: int,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = inventory(here)
    for flags in ((), FLAGS):
        assert ended(call(name, command, parameter, value, flags)) == code
        output = capsys.readouterr()
        assert output.err.startswith("error [")
        assert len(output.err.splitlines()) == 2
        assert not output.out
        assert inventory(here) == before


def test_every_parameter_that_can_be_wrong_is_walked() -> None:
    missed = [
        f"{' '.join(name)}: {parameter.name}"
        for name, command in leaves()
        for parameter in command.params
        if not (isinstance(parameter, click.Option) and parameter.is_flag)
        and parameter.name not in WITHOUT_WRONG_VALUES
        and not wrong_values(name, parameter)
    ]
    assert not missed, "list wrong values for: " + ", ".join(missed)
