"""A table's own files: its properties and the names in its timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

METADATA_SWITCHES = {
    "record_index": ("record.index", "global.record.level.index"),
    "column_stats": ("index.column.stats",),
    "bloom_filters": ("index.bloom.filter",),
}


def properties(path: str) -> dict[str, str]:
    """hoodie.properties as a dict; empty where there is no table."""
    file = Path(path, ".hoodie", "hoodie.properties")
    lines = file.read_text("latin-1").splitlines() if file.exists() else []
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key: re.sub(r"\\([\\:=])", r"\1", value) for key, value in pairs}


def metadata_partitions(path: str) -> list[str]:
    listed = properties(path).get("hoodie.table.metadata.partitions", "")
    return [name for name in listed.split(",") if name]


def instants(path: str) -> set[str]:
    """Names of the files in the timeline."""
    folders = (Path(path, ".hoodie"), Path(path, ".hoodie", "timeline"))
    files = (file for folder in folders if folder.is_dir() for file in folder.iterdir())
    return {file.name for file in files if file.name[0].isdigit()}


def writer_options(path: str, version: str) -> dict[str, str]:
    """Options with which a Java writer leaves the table as it is.

    1.x upgrades a table by default, and every writer drops the metadata partitions that its
    options do not enable.  A new table is of version 6.
    """
    known = properties(path)
    options = {}
    if not version.startswith("0."):
        options["hoodie.write.table.version"] = known.get("hoodie.table.version", "6")
        options["hoodie.write.auto.upgrade"] = "false"
    if known:
        listed = metadata_partitions(path)
        options["hoodie.metadata.enable"] = str("files" in listed).lower()
        for name, keys in METADATA_SWITCHES.items():
            for key in keys:
                options[f"hoodie.metadata.{key}.enable"] = str(name in listed).lower()
    return options


@contextmanager
def unchanged_properties(path: str) -> Iterator[None]:
    """Restore hoodie.properties and its checksum file when the block ends."""
    folder = Path(path, ".hoodie")
    files = [folder / "hoodie.properties", folder / ".hoodie.properties.crc"]
    saved = {file: file.read_bytes() if file.exists() else None for file in files}
    try:
        yield
    finally:
        for file, data in saved.items():
            if data is None:
                file.unlink(missing_ok=True)
            else:
                file.write_bytes(data)
