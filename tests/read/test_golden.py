"""Tables written by Apache Hudi, at every instant, against the rows Apache Hudi read.

Where 0.15.0 and 1.2.0 read the same files differently, 1.2.0 counts.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.support.fixtures import fixtures
from tests.support.golden import golden_names

EXPECTED = re.compile(r"(snapshot|read_optimized|incremental)_(\d+|final)(?:_(\d+))?\.parquet$")

QUIRKS = ("mor_event_time", "kg_simple_urlencode")
"""Tables whose incremental files show quirks of Apache Hudi, as one of cow_cleaned_versions."""

REVIVED = ("mor_event_time", "snapshot_20261121070615004.parquet")
"""Read by 0.15.0, which lets an older row revive a later delete; 1.2.0 reads two rows less."""


def extracted(archive: Path, folder: Path) -> tuple[Path, Path]:
    """The table's root and the folder of expected rows."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    return folder / archive.stem, folder / "expected"


def row_set(table: pa.Table, columns: list[str]) -> Counter[str]:
    return Counter(repr(_plain(row)) for row in table.select(columns).to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        return value.isoformat()
    return value


def check(archive: Path, folder: Path) -> int:
    """Compare every read the archive holds; the number of tables of rows that were compared."""
    root, expected = extracted(archive, folder)
    at_end = json.loads((expected / "ops.json").read_text())["final"].get("as_of_at_end", {})
    table = pyhudi.open_table(root)
    count = 0
    for file in sorted(expected.glob("*.parquet")):
        match = EXPECTED.match(file.name)
        if match is None or skipped(archive.stem, match):
            continue
        newer = file.with_name(file.stem + ".read_by_1.2.0.parquet")
        target = pq.read_table(newer if newer.exists() else file)
        cleaned = match[1] == "snapshot" and at_end.get(match[2], "equal") != "equal"
        try:
            got = read(table, *match.groups())
        except pyhudi.SnapshotExpiredError:
            assert cleaned, file.name
            continue
        names = sorted(set(target.column_names) - ({"_hoodie_file_name"} if cleaned else set()))
        if table.config.is_merge_on_read and "_hoodie_file_name" in names:
            names.remove("_hoodie_file_name")
        assert set(got.column_names) == set(target.column_names), file.name
        assert row_set(like(got, target), names) == row_set(target, names), file.name
        count += 1
    return count


def skipped(name: str, match: re.Match[str]) -> bool:
    if (name, match[0]) == REVIVED:
        return True
    if match[1] != "incremental":
        return False
    return name.startswith(QUIRKS) or (name == "cow_cleaned_versions" and match[2] == "000")


def read(table: pyhudi.Table, kind: str, first: str, second: str | None) -> pa.Table:
    match kind:
        case "incremental":
            return table.changes(first, second).to_arrow()
        case "read_optimized":
            return table.scan(mode="read_optimized").to_arrow()
        case _:
            return table.scan(as_of=None if first == "final" else first).to_arrow()


def like(got: pa.Table, target: pa.Table) -> pa.Table:
    """Integer partition columns as text, where Apache Hudi 1.2.0 shows them so."""
    for index, name in enumerate(got.column_names):
        if pa.types.is_integer(got.schema.field(name).type) and pa.types.is_string(
            target.schema.field(name).type
        ):
            got = got.set_column(index, name, got[name].cast(pa.string()))
    return got


@pytest.mark.parametrize("name", golden_names())
def test_golden_tables_read_as_apache_hudi_reads_them(name: str, tmp_path: Path) -> None:
    assert check(fixtures() / "golden" / f"{name}.zip", tmp_path) >= 3


def test_no_golden_table_is_left_out() -> None:
    assert len(golden_names()) == 45


def test_an_older_row_does_not_revive_a_later_delete(tmp_path: Path) -> None:
    """As Apache Hudi 1.2.0 reads a table that 0.15.0 wrote: 24 rows, where 0.15.0 reads 26."""
    root, _ = extracted(fixtures() / "golden" / "mor_event_time.zip", tmp_path)
    assert pyhudi.open_table(root).scan(as_of="20261121070615004").count() == 24
