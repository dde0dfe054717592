"""What a write report shows of itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.write.write_report import WriteReport


def test_the_repr_is_a_table_of_what_happened() -> None:
    report = WriteReport(
        "upsert", "20260101000000000", inserted=3, files=1, seconds={"tag": 0.1, "write": 0.2},
        index="record: of the table", notes=("column added to the table: x",),
    )  # fmt: skip
    assert repr(report).splitlines() == [
        "WriteReport: upsert",
        "  instant   20260101000000000",
        "  inserted  3",
        "  files     1",
        "  seconds   300 ms",
        "  index     record: of the table",
        "  notes     column added to the table: x",
    ]


def test_the_repr_says_that_a_write_is_not_published(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "n": [1]})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id")
    assert "  published      False" in repr(table.upsert(rows, publish=False))


@pytest.mark.parametrize("index", ["record", "global_simple", "simple"])
def test_a_note_counts_rows_whose_record_is_in_another_partition(
    index: Literal["record", "global_simple", "simple"], tmp_path: Path
) -> None:
    rows = pa.table({"id": ["a", "b", "c"], "p": ["x", "x", "y"]})
    stays = {"hoodie.simple.index.update.partition.path": "false"}
    table = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", partition_by="p", index=index, options=stays
    )
    assert table.insert(rows).notes == ()
    notes = table.upsert(pa.table({"id": ["a", "b", "d"], "p": ["y", "x", "y"]})).notes
    if index == "simple":  # the key is another record there
        assert notes == ()
    else:
        assert [
            note.rsplit(": ", 1)[1] for note in notes if "partition of their record" in note
        ] == ["1"]
    moving = {"hoodie.record.index.update.partition.path": "true"}
    moving |= {"hoodie.simple.index.update.partition.path": "true"}
    assert table.with_options(moving).upsert(pa.table({"id": ["b"], "p": ["y"]})).notes == ()


def _columns(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


OPERATIONS: dict[str, Callable[[pyhudi.Table, bool], WriteReport]] = {
    "upsert": lambda t, dry: t.upsert(
        _columns(id=["b", "c", "e"], part=["x", "x", "x"], ts=[2, 2, 2]), dry_run=dry
    ),
    "move": lambda t, dry: t.upsert(
        _columns(id=["b", "f"], part=["z", "z"], ts=[2, 2]), dry_run=dry
    ),
    "unchanged": lambda t, dry: t.upsert(
        _columns(id=["a", "b"], part=["x", "x"], ts=[1, 2]), skip_unchanged=True, dry_run=dry
    ),
    "insert": lambda t, dry: t.insert(_columns(id=["g"], part=["x"], ts=[2]), dry_run=dry),
    "bulk_insert": lambda t, dry: t.bulk_insert(
        _columns(id=["g"], part=["x"], ts=[2]), dry_run=dry
    ),
    "delete": lambda t, dry: t.delete(keys=["a", "none"], dry_run=dry),
    "delete where": lambda t, dry: t.delete(where="part = 'y'", dry_run=dry),
    "update": lambda t, dry: t.update({"ts": 9}, where="part = 'x'", dry_run=dry),
    "merge": lambda t, dry: (
        t.merge(_columns(id=["a", "b", "h"], part=["x", "x", "x"], ts=[3, 3, 3]))
        .when_matched_delete(where="source.id = 'a'")
        .when_matched_update()
        .when_not_matched_insert()
        .execute(dry_run=dry)
    ),
    "overwrite": lambda t, dry: t.insert_overwrite(
        _columns(id=["k"], part=["x"], ts=[2]), dry_run=dry
    ),
    "drop": lambda t, dry: t.delete_partitions(["y"], dry_run=dry),
}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_plan_has_the_numbers_of_the_write(
    tmp_path: Path, name: str, table_type: Literal["cow", "mor"]
) -> None:
    rows = _columns(id=["a", "b", "c", "d"], part=["x", "x", "x", "y"], ts=[1, 1, 1, 1])
    table = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", partition_by="part", ordering="ts",
        table_type=table_type,
    )  # fmt: skip
    table.insert(rows)
    counts = ("inserted", "updated", "deleted", "unchanged", "missing_keys", "duplicates")
    planned, done = OPERATIONS[name](table, True), OPERATIONS[name](table, False)
    assert planned.dry_run and planned.instant is None and done.instant is not None
    assert [getattr(planned, c) for c in counts] == [getattr(done, c) for c in counts]
    assert sum(getattr(planned, c) for c in counts) > 0
