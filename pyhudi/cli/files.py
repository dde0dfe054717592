"""`pyhudi hfile`, `pyhudi log`: inspection of single files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from pyhudi import HFileReader
from pyhudi.cli.command import Answer, Call, Target, command
from pyhudi.cli.output import plain, show
from pyhudi.cli.values import limit_option
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.formats.delete_block import decode_deletes
from pyhudi.formats.log_block import data_batches, read_content
from pyhudi.formats.log_file import BlockKind, LogBlock, read_blocks
from pyhudi.storage.filesystem import RandomAccess
from pyhudi.storage.local import LocalFile

_limit = limit_option(20, "Entries to show.")


@click.group()
def hfile() -> None:
    """Inspect HFiles (sorted key-value files)."""


@command("dump", hfile, target=Target.NOTHING, example="hfile dump index.hfile --limit 5")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@_limit
def hfile_dump(call: Call, file: str, limit: int) -> Any:
    """Show file info and the first entries."""
    with HFileReader(file) as reader:
        facts = {
            "entries": reader.entry_count,
            **{plain(k): plain(v)[:200] for k, v in sorted(reader.metadata.items())},
        }
        entries = list(itertools.islice(_entries(reader), limit))
    if call.as_json:
        return {"info": facts, "entries": entries}
    show(facts, as_json=False, title=file)
    return entries


def _entries(reader: HFileReader) -> Iterator[dict[str, str]]:
    for batch in reader.scan():
        for row in batch.to_pylist():
            yield {"key": plain(row["key"]), "value": plain(row["value"])}


@command("lookup", hfile, target=Target.NOTHING, example="hfile lookup index.hfile trip-17")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("keys", nargs=-1, required=True)
def hfile_lookup(call: Call, file: str, keys: tuple[str, ...]) -> Any:
    """Show the value of each KEY."""
    with HFileReader(file) as reader:
        values = reader.get_many([key.encode() for key in keys]).to_pylist()
    return [
        {"key": key, "value": None if value is None else plain(value)}
        for key, value in zip(keys, values, strict=True)
    ]


@click.group()
def log() -> None:
    """Inspect log files of merge-on-read tables and of the metadata table."""


@command("dump", log, target=Target.NOTHING, example="log dump .f1_1.log.1_0-1-2 --rows")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--rows", is_flag=True, help="Show the contents of the blocks.")
@_limit
def log_dump(call: Call, file: str, rows: bool, limit: int) -> Any:
    """Show the blocks and, with --rows, their first records and deletes."""
    with closing(LocalFile(file)) as opened:
        blocks = read_blocks(opened, path=file)
        if not blocks and not isinstance(parse_data_file(Path(file).name), LogFileName):
            raise CorruptFileError("a log file must begin with #HUDI#", path=file)
        found = [
            _block(b) | ({"rows": _rows(b, opened, file, limit)} if rows else {}) for b in blocks
        ]
    return Answer(found, file)


def _block(block: LogBlock) -> dict[str, Any]:
    return {
        "kind": block.kind.name.lower(),
        "instant": block.instant,
        "target": block.target_instant,
        "offset": block.content_offset,
        "bytes": block.content_length,
    }


def _rows(block: LogBlock, file: RandomAccess, path: str, limit: int) -> list[dict[str, Any]]:
    match block.kind:
        case BlockKind.COMMAND | BlockKind.CORRUPT:
            return []
        case BlockKind.DELETE:
            found = decode_deletes(read_content(block, file), path=path)
        case _:
            found = data_batches(block, file, path=path)
    shown: list[dict[str, Any]] = found.slice(0, limit).to_pylist()
    return shown
