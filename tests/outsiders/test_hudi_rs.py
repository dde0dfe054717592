"""Tables of hudi-rs and the rows that its tests state.

From apache/hudi-rs, commit 0910ca7d: names of its tables, and the facts of crates/core/tests,
crates/datafusion/tests and crates/test.  15 of its 47 tables are in tests/golden; Apache Hudi 1.2.0
agrees about every commit of all but those of Lance files.  The long form, `make long-outsiders`,
reads those in the folder $PYHUDI_HUDI_RS_TABLES: crates/test/data of a clone of that repository.
"""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.records import COMMIT_TIME
from tests.support.fixtures import fixtures
from tests.support.foreign import row_counts

LONG = (pytest.mark.slow, pytest.mark.outsiders)
SAMPLES = ("complexkeygen_hivestyle", "nonpartitioned", "simplekeygen_nonhivestyle")
NO_META = "simplekeygen_hivestyle_no_metafields"
ACTIVE = {(1, False), (2, False), (3, True), (4, True)}
FARES = {("rider-E", 93.5), ("rider-I", 41.06), ("rider-G", 43.4), ("rider-J", 17.85),
         ("rider-F", 34.15)}  # fmt: skip


def typed(kind: str, *numbers: int) -> set[tuple[str, str]]:
    return {(f"TXN-{number:03}", kind) for number in numbers}


REVERSED = typed("reversal", 1)
BY_DAY = REVERSED | typed("debit", 1, 2, 3, 5) | typed("transfer", 6)
PARTITIONED = REVERSED | typed("transfer", 3) | typed("debit", 7, 8, *range(11, 19))
WHOLE = REVERSED | typed("transfer", 3, 10) | typed("debit", 4, *range(6, 10), *range(11, 17))
ROWS: dict[str, tuple[int, set[Any]]] = {
    **{f"cow_{v}_{name}": (4, ACTIVE) for v in ("v6", "v8") for name in (*SAMPLES, NO_META)},
    **{f"mor_parquet_v6_{name}": (4, ACTIVE) for name in (*SAMPLES, NO_META)},
    "cow_v6_timebasedkeygen_nonhivestyle": (4, ACTIVE),
    **dict.fromkeys(("cow_v6_empty", "cow_v8_empty", "mor_parquet_v6_empty"), (0, set())),
    **{
        f"{kind}_v6_simplekeygen_nonhivestyle_overwritetable": (1, {(4, False)})
        for kind in ("cow", "mor_parquet")
    },
    "mor_parquet_v6_nonpartitioned_rollback": (3, {(1, True), (2, True), (3, True)}),
    "mor_avro_v9_nonpartitioned_rollback": (4, typed("debit", 1, 2, 3)),
    "cow_v9_timebasedkeygen_epochmillis": (6, BY_DAY),
    "cow_v9_timebasedkeygen_unixtimestamp": (6, BY_DAY),
    "cow_v9_timebasedkeygen_nonhivestyle": (
        5,
        REVERSED | typed("debit", 1, 3, 5) | typed("transfer", 4),
    ),
    "mor_avro_v9_timebasedkeygen_nonhivestyle": (
        6,
        REVERSED | typed("debit", 1, 3, 5, 6) | typed("transfer", 4),
    ),
    **{
        f"{kind}_v9_txns_{by}_{meta}": (14, WHOLE) if by == "nonpart" else (12, PARTITIONED)
        for kind in ("cow", "mor_avro")
        for by in ("complex", "nonpart", "simple")
        for meta in ("meta", "nometa")
    },
    **{
        f"{kind}_v9_txns_simple_overwrite": (3, typed("debit", 101, 102, 103))
        for kind in ("cow", "mor_avro")
    },
    "mor_avro_v6_trips_8i1u": (
        8,
        FARES | {("rider-A", 19.1), ("rider-C", 27.7), ("rider-D", 25.0)},
    ),
    "mor_avro_v6_trips_8i3d": (5, FARES),
    "mor_avro_v8_trips_8i3u1d": (
        6,
        {("rider-A", 0.0), ("rider-C", 27.7), ("rider-D", 33.9), ("rider-E", 93.5),
         ("rider-G", 0.0), ("rider-I", 41.06)},
    ),
}  # fmt: skip
"""Of each table the number of rows and what they are: `id`, `isActive`; `rider`, `fare`; `txn_id`,
`txn_type`."""
LANCE = (
    *(f"cow_v9_{name}" for name in ("lance_nonpartitioned", "lance_txns_nonpart")),
    *("cow_v9_lance_txns_simple", "cow_v9_trips_lance"),
    *("mor_avro_v9_lance_nonhivestyle", "mor_avro_v9_trips_lance"),
)
COLUMNS = (("rider", "fare"), ("txn_id", "txn_type"), ("id", "isActive"))


def stored() -> Mapping[str, Path]:
    return {path.stem: path for path in (fixtures() / "tables").glob("*.zip")}


def fetched() -> Mapping[str, Path]:
    """The archives of the whole collection, by table type, log format and name."""
    root = Path(os.environ["PYHUDI_HUDI_RS_TABLES"])
    return {"_".join(p.relative_to(root).with_suffix("").parts[1:]): p for p in root.rglob("*.zip")}


def unpacked(name: str, folder: Path) -> Path:
    with zipfile.ZipFile((stored() if name in stored() else fetched())[name]) as file:
        file.extractall(folder)
    roots = (p.parent for p in folder.rglob(".hoodie") if "__MACOSX" not in p.parts)
    return min(roots, key=lambda p: len(p.parts))


def each(names: Iterable[str]) -> list[Any]:
    return [pytest.param(n, marks=() if n in stored() else LONG, id=n) for n in names]


def facts(rows: pa.Table) -> tuple[int, set[Any]]:
    names = next(names for names in COLUMNS if set(names) <= set(rows.column_names))
    return rows.num_rows, set(zip(*(rows[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("name", each(ROWS))
def test_the_newest_rows_are_those_of_its_tests(name: str, tmp_path: Path) -> None:
    table = pyhudi.open_table(unpacked(name, tmp_path))
    assert facts(table.scan().to_arrow()) == ROWS[name]
    assert not table.doctor().findings


@pytest.mark.covering(1, most=5)
@pytest.mark.parametrize("name", each(name for name in ROWS if "no_metafields" not in name))
def test_changes_are_rows_of_the_snapshot_at_their_end(name: str, tmp_path: Path) -> None:
    """Between all pairs of commits, whose ends are completion times from version 8 on; but for
    columns whose type changed later, which have the newest type in changes."""
    table = pyhudi.open_table(unpacked(name, tmp_path))
    ends = [("000", "000")] + [(i.completed_at or i.time, i.time) for i in table.timeline.commits]
    times = {time: end for end, time in ends}
    for (since, _), (until, at) in combinations(sorted(ends), 2):
        rows = table.scan(as_of=at).to_arrow()
        inside = [since < times[time] <= until for time in rows[COMMIT_TIME].to_pylist()]
        expected = rows.filter(pa.array(inside, pa.bool_()))
        found = table.changes(since, until).to_arrow()
        names = [n for n in rows.column_names if rows.schema.field(n) == found.schema.field(n)]
        assert row_counts(found, names) == row_counts(expected, names), (since, until)


@pytest.mark.parametrize("name", each(LANCE))
def test_lance_files_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(pyhudi.UnsupportedTableError, match="base files of format LANCE"):
        pyhudi.open_table(unpacked(name, tmp_path))


@pytest.mark.parametrize(
    ("name", "where", "keys"),
    [
        (
            "cow_v6_complexkeygen_hivestyle",
            (pc.field("byteField") >= 10)
            & (pc.field("byteField") < 20)
            & (pc.field("shortField") != 100),
            [1, 3],
        ),
        ("mor_parquet_v6_simplekeygen_nonhivestyle", pc.field("byteField") == 10, [1, 3]),
        ("cow_v8_simplekeygen_nonhivestyle", "byteField = 10", [1, 3]),
    ],
)
def test_partition_filters_select_rows_and_partitions(
    name: str, where: Any, keys: list[int], tmp_path: Path
) -> None:
    scan = pyhudi.open_table(unpacked(name, tmp_path)).scan(["id"], where)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == keys
    assert scan.plan.partitions_read < scan.plan.partition_count


def test_read_optimized_rows_lack_updates_in_logs(tmp_path: Path) -> None:
    table = pyhudi.open_table(unpacked("mor_parquet_v6_nonpartitioned", tmp_path))
    found = table.scan(mode="read_optimized").to_arrow()
    assert facts(found) == (4, ACTIVE - {(1, False)} | {(1, True)})


@pytest.mark.parametrize("name", each(stored()))
def test_hudi_rs_reads_the_same_rows(name: str, tmp_path: Path) -> None:
    hudi = pytest.importorskip("hudi")
    root = unpacked(name, tmp_path)
    batches = hudi.HudiTableBuilder.from_base_uri(str(root)).build().read()
    found = pyhudi.open_table(root).scan().to_arrow()
    expected = pa.Table.from_batches(batches) if batches else found.schema.empty_table()
    names = expected.column_names
    assert set(names) <= set(found.column_names)
    assert row_counts(found, names) == row_counts(expected, names)


def test_no_stored_table_is_left_out() -> None:
    assert Counter(name in stored() for name in ROWS) == {True: 15, False: 26}
