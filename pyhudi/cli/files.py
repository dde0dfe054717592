"""`pyhudi hfile`, `pyhudi log`: inspection of single files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from pyhudi import HFileReader
from pyhudi.cli.output import as_json, plain, show
from pyhudi.cli.values import COUNT
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.formats.delete_block import decode_deletes
from pyhudi.formats.log_block import data_batches, read_content
from pyhudi.formats.log_file import BlockKind, LogBlock, read_blocks
from pyhudi.storage.filesystem import RandomAccess
from pyhudi.storage.local import LocalFile

limit = click.option("--limit", type=COUNT, default=20, show_default=True, help="Entries to show.")


@click.group()
def hfile() -> None:
    """Inspect HFiles (sorted key-value files)."""


@hfile.command("dump")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@limit
@as_json
def hfile_dump(file: str, limit: int, as_json: bool) -> None:
    """Show file info and the first entries."""
    with HFileReader(file) as reader:
        facts = {
            "entries": reader.entry_count,
            **{plain(k): plain(v)[:200] for k, v in sorted(reader.metadata.items())},
        }
        entries = list(itertools.islice(_entries(reader), limit))
    if as_json:
        show({"info": facts, "entries": entries}, as_json=True)
        return
    show(facts, as_json=False, title=file)
    show(entries, as_json=False)


def _entries(reader: HFileReader) -> Iterator[dict[str, str]]:
    for batch in reader.scan():
        for row in batch.to_pylist():
            yield {"key": plain(row["key"]), "value": plain(row["value"])}


@hfile.command("lookup")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("keys", nargs=-1, required=True)
@as_json
def hfile_lookup(file: str, keys: tuple[str, ...], as_json: bool) -> None:
    """Show the value of each KEY."""
    with HFileReader(file) as reader:
        values = reader.get_many([key.encode() for key in keys]).to_pylist()
    rows = [
        {"key": key, "value": None if value is None else plain(value)}
        for key, value in zip(keys, values, strict=True)
    ]
    show(rows, as_json=as_json)


@click.group()
def log() -> None:
    """Inspect log files of merge-on-read tables and of the metadata table."""


@log.command("dump")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--rows", is_flag=True, help="Show the contents of the blocks.")
@limit
@as_json
def log_dump(file: str, rows: bool, limit: int, as_json: bool) -> None:
    """Show the blocks and, with --rows, their first records and deletes."""
    with closing(LocalFile(file)) as opened:
        blocks = read_blocks(opened, path=file)
        if not blocks and not isinstance(parse_data_file(Path(file).name), LogFileName):
            raise CorruptFileError("a log file must begin with #HUDI#", path=file)
        found = [
            _block(b) | ({"rows": _rows(b, opened, file, limit)} if rows else {}) for b in blocks
        ]
    show(found, as_json=as_json, title=file)


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
