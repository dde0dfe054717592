"""Entries of ranges that follow each other: deleted ones end, tight ones replace, others widen."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import UnsupportedTableError
from pyhudi.metadata.file_stats.partition_ranges import widened
from pyhudi.metadata.file_stats.value_types import value_type
from pyhudi.metadata.payloads import decode_ranges, encode_ranges, ranges_type, transcode
from pyhudi.metadata.record_schema import RECORDS_V6, RECORDS_V9
from tests.metadata.test_ranges import entry

SCHEMA = pa.schema({"id": pa.string(), "v": pa.int64(), "w": pa.float64()})
SEEDS = int(os.environ.get("PYHUDI_RANGE_SEEDS", "150"))
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "LongWrapper": (pa.int64(), lambda pick: pick.randrange(-50, 50)),
    "DoubleWrapper": (pa.float64(), lambda pick: pick.choice([-1.5, 0.25, 9.0, 1e300])),
    "StringWrapper": (pa.string(), lambda pick: pick.choice(["", "a", "ä", "zz", "Z"])),
    "BooleanWrapper": (pa.bool_(), lambda pick: pick.random() < 0.5),
}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("partitioned", [True, False])
def test_a_merge_on_read_table_with_statistics_accepts_any_number_of_commits(
    tmp_path: Path, version: int, partitioned: bool
) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "2",
    }
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", table_type="mor", version=version, options=options,
        partition_by="w" if partitioned else None,
    )  # fmt: skip
    expected = {}
    for n in range(16):
        rows = {f"k{n % 3}": n, f"k{n % 5}": -n}
        ids, values = list(rows), list(rows.values())
        table.upsert(pa.table([ids, values, [0.5] * len(ids)], schema=SCHEMA))
        expected.update(rows)
    opened = pyhudi.open_table(path)
    found = opened.scan(["id", "v"]).to_arrow()
    assert dict(zip(*(column.to_pylist() for column in found), strict=True)) == expected
    for value in range(-16, 16):
        where = opened.scan(["id"], f"v = {value}").to_arrow()[0].to_pylist()
        assert sorted(where) == sorted(k for k, v in expected.items() if v == value)
    assert not opened.metadata.verify().findings
    assert path.joinpath(".hoodie/metadata/.hoodie/timeline").is_dir()
    compactions = [*path.glob(".hoodie/metadata/.hoodie/timeline/*.commit")]
    assert len(compactions) >= 3


def record(pick: random.Random, name: str, wrapper: str, version: int) -> dict[str, Any]:
    kind, value = KINDS[wrapper]
    typed = value_type(kind)
    assert typed is not None
    low, high = sorted([value(pick), value(pick)])
    made: dict[str, Any] = entry(
        wrapper, low, high, (typed.ordinal, None) if version > 1 else None
    )  # fmt: skip
    nulls = pick.randrange(3)
    made |= {"fileName": name, "columnName": wrapper, "nullCount": nulls, "valueCount": 5}
    if pick.random() < 0.1:
        made |= {"minValue": None, "maxValue": None, "nullCount": 5}
    made["isDeleted"] = pick.random() < 0.1
    made["isTightBound"] = version > 1 and pick.random() < 0.15
    return made


def in_turn(older: dict[str, Any] | None, newer: dict[str, Any] | None) -> dict[str, Any] | None:
    """As Apache Hudi merges two entries of one key."""
    if newer is None or older is None or newer["isDeleted"] or newer["isTightBound"]:
        return newer
    if older["isDeleted"]:
        return newer
    both = [older, newer]
    sides = {}
    for side, extreme in (("minValue", min), ("maxValue", max)):
        known = [next(iter(each[side].values()))["value"] for each in both if each[side]]
        sides[side] = {older["columnName"]: {"value": extreme(known)}} if known else None
    counts = {name: older[name] + newer[name] for name in ("valueCount", "nullCount")}
    return {**newer, **sides, **counts}


def bare(row: dict[str, Any] | None) -> Any:
    if row is None:
        return None
    sides = []
    for side in ("minValue", "maxValue"):
        values = [each["value"] for each in (row[side] or {}).values() if each is not None]
        sides.append(values[0] if values else None)
    return (
        row["fileName"],
        row["columnName"],
        *sides,
        row["valueCount"],
        row["nullCount"],
        bool(row["isDeleted"]),
    )


@pytest.mark.parametrize("count", [50, pytest.param(SEEDS, marks=pytest.mark.long)])
@pytest.mark.parametrize("version", [1, 2])
def test_entries_merge_in_turn_as_one_after_the_other(version: int, count: int) -> None:
    schema = RECORDS_V6.stored if version == 1 else RECORDS_V9.stored
    for seed in range(count):
        pick = random.Random(seed)
        names = [f".f{n}_1.log.1_0" for n in range(pick.randrange(1, 6))]
        rows: list[tuple[str, dict[str, Any] | None]] = []
        expected: dict[str, Any] = {}
        for _ in range(pick.randrange(25)):
            name, wrapper = pick.choice(names), pick.choice(list(KINDS))
            key = f"{wrapper}{name}"
            made = None if pick.random() < 0.15 else record(pick, name, wrapper, version)
            rows.append((key, made))
            expected[key] = in_turn(expected.get(key), made)
        entries = pa.array([made for _, made in rows], ranges_type())
        values = encode_ranges(entries, RECORDS_V9.stored)
        values = transcode(
            values, RECORDS_V9.stored, ["ColumnStatsMetadata"], path="p", target=schema
        )
        alive = pa.array([made is not None for _, made in rows], pa.bool_())
        nothing = pa.nulls(len(values), values.type)
        values = pa.array(
            [v if ok else None for v, ok in zip(values.to_pylist(), alive.to_pylist(), strict=True)]
            or nothing,
            values.type,
        )
        keys = pa.array([key.encode() for key, _ in rows], pa.binary())
        found_keys, found = widened(keys, values, schema, path="column_stats")
        got = decode_ranges(found, schema, path="p").to_pylist()
        assert found_keys.to_pylist() == sorted(key.encode() for key in expected)
        for key, row in zip(found_keys.to_pylist(), got, strict=True):
            assert bare(row) == bare(expected[key.decode()]), (seed, key)


def test_ranges_of_types_without_a_common_type_are_refused() -> None:
    rows = [entry("LongWrapper", 1, 2, (4, None)), entry("StringWrapper", "a", "b", (7, None))]
    values = encode_ranges(pa.array(rows, ranges_type()), RECORDS_V9.stored)
    with pytest.raises(UnsupportedTableError, match="cannot be combined"):
        widened(pa.array([b"k", b"k"]), values, RECORDS_V9.stored, path="column_stats")
