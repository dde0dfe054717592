"""Commits of layout 2 whose metadata is changed by a test."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro


def add_extra_metadata(root: Path, key: str, value: str) -> None:
    """Add one entry to `extraMetadata` of the table's newest completed commit."""
    commits = [
        path
        for path in (root / ".hoodie" / "timeline").iterdir()
        if "_" in path.name and path.suffix in (".commit", ".deltacommit", ".replacecommit")
    ]
    newest = max(commits)
    reader = fastavro.reader(io.BytesIO(newest.read_bytes()))
    assert reader.writer_schema is not None
    records = list(reader)
    records[0]["extraMetadata"][key] = value
    out = io.BytesIO()
    fastavro.writer(out, reader.writer_schema, records)
    newest.write_bytes(out.getvalue())
