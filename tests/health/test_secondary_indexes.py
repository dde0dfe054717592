"""`table.metadata.verify` finds entries of secondary indexes that contradict the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.metadata.secondary_index.changes import EntryChanges
from pyhudi.metadata.secondary_index.key_format import HashedPart, groups_of
from pyhudi.metadata.secondary_index.records import log_blocks_of

ROWS = pa.table({"id": ["a", "b", "c"], "city": ["x", "y", None], "ts": [1, 1, 1]})
INDEX = "secondary_index_city"


def indexed(folder: Path, version: int, kind: str) -> Table:
    """Its index has a log that ends `x$a` and one that adds `z$a`."""
    table = pyhudi.create_table(
        folder, ROWS.schema, record_key="id", ordering="ts", version=version, table_type=kind,
        index="record",
    )  # fmt: skip
    table.upsert(ROWS)
    table.index.create("secondary", "city")
    table.upsert(pa.table({"id": ["a"], "city": ["z"], "ts": [2]}))
    return table


def plant(folder: Path, *, added: list[str], ended: list[str]) -> None:
    """Append changes to the log that added `z$a`, as its commit would have written them."""
    home = int(groups_of(pa.array(["z$a"]), 10, HashedPart.VALUE)[0])
    (log,) = (folder / ".hoodie/metadata" / INDEX).glob(f".*-{home:04}-0_20*.log.1_*")
    name = parse_data_file(log.name)
    assert isinstance(name, LogFileName)
    changes = EntryChanges(pa.array(added, pa.string()), pa.array(ended, pa.string()))
    with log.open("ab") as file:
        file.writelines(log_blocks_of(changes, INDEX, instant=name.instant))


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_index_that_fits_the_rows_has_no_findings(
    tmp_path: Path, kind: str, version: int
) -> None:
    table = indexed(tmp_path / "t", version, kind)
    table.delete(keys=["b"])
    assert not table.metadata.verify().findings


def test_missing_and_superfluous_entries_are_found_and_rebuilt(tmp_path: Path) -> None:
    table = indexed(tmp_path / "t", 9, "mor")
    plant(tmp_path / "t", added=["q$gone"], ended=["z$a"])
    found = table.metadata.verify().findings
    assert [(f.code, f.severity.value) for f in found] == [
        ("secondary-keys", "error"),
        ("secondary-keys", "warning"),
    ]
    assert "'z$a'" in found[0].why and "'q$gone'" in found[1].why
    assert not table.metadata.verify(keys=False).findings
    assert not table.metadata.rebuild().findings


def test_the_doctor_rebuilds_an_index_that_lacks_entries(tmp_path: Path) -> None:
    table = indexed(tmp_path / "t", 9, "cow")
    plant(tmp_path / "t", added=[], ended=["z$a"])
    table.repair()
    assert not table.metadata.verify().findings
    assert table.scan(where="city = 'z'").to_arrow().num_rows == 1


def test_an_index_of_dates_of_version_8_is_not_verified(tmp_path: Path) -> None:
    rows = ROWS.append_column("day", pa.array([1, 2, 3], pa.int32()).cast(pa.date32()))
    table = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", version=8, index="record"
    )
    table.upsert(rows)
    table.index.create("secondary", "day")
    (found,) = table.metadata.verify().findings
    assert (found.code, found.severity.value) == ("secondary-keys", "info")
    assert "not verified" in found.what
