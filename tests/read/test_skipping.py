"""Files left out by what the metadata table knows: answers are equal with skipping on and off."""

from __future__ import annotations

import datetime as dt
import itertools
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import strategies as st

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import parse_options
from pyhudi.read.arrow_filter import arrow_tree
from pyhudi.read.predicate import And, Column
from pyhudi.read.skipping.file_slices import can_pass
from pyhudi.read.skipping.filter_values import required_values
from tests.support.examples import UNSHRUNK, examples
from tests.support.fixtures import fixtures

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "small": (pa.int32(), [-5, 0, 7]),
    "big": (pa.int64(), [-(1 << 60), 0, 3, 1 << 60]),
    "single": (pa.float32(), [-1.5, 0.0, NAN, 2.5]),
    "double": (pa.float64(), [-1.5, -0.0, NAN, float("inf")]),
    "text": (pa.string(), ["", "a", "ab", "zz" * 40, "\uff21", "😀"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff\xff"]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2026, 1, 1)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1960, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC)],
    ),
    "price": (pa.decimal128(12, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("99999.99")]),
}
SCHEMA = pa.schema({"id": pa.string(), **{name: kind for name, (kind, _) in VALUES.items()}})
STATS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.parquet.small.file.limit": "0",
}
names = itertools.count()

cells = {
    name: st.one_of(st.none(), st.sampled_from(values)) for name, (_, values) in VALUES.items()
}
batches = st.lists(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.fixed_dictionaries(cells), min_size=1, max_size=3
    ),
    min_size=1,
    max_size=3,
)
OPERATORS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


@st.composite
def filters(draw: st.DrawFn) -> pc.Expression:
    found = None
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(["id", *VALUES]))
        kind = SCHEMA.field(name).type
        pool = list("abz") if name == "id" else VALUES[name][1]
        value = pa.scalar(draw(st.sampled_from(pool)), kind)
        shape = draw(st.sampled_from(["compare", "in", "null", "valid", "not"]))
        column = pc.field(name)
        one = {
            "compare": getattr(pc, draw(st.sampled_from(OPERATORS)))(column, value),
            "in": column.isin(pa.array([value, None] if draw(st.booleans()) else [value], kind)),
            "null": column.is_null(),
            "valid": column.is_valid(),
            "not": ~(column <= value),
        }[shape]
        if found is None:
            found = one
        else:
            found = found & one if draw(st.booleans()) else found | one
    return found


def table_of(kind: str, steps: list[dict[str, dict[str, Any]]]) -> Table:
    table = pyhudi.create_table(
        f"memory://skip{next(names)}", SCHEMA, record_key="id", table_type=kind, options=STATS
    )
    for rows in steps:
        table.upsert(pa.Table.from_pylist([{"id": k, **row} for k, row in rows.items()], SCHEMA))
    return table


def rows_of(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@examples(4, 25, UNSHRUNK, steps=batches, wheres=st.lists(filters(), min_size=4, max_size=4))
def test_answers_are_equal_with_skipping_on_and_off(
    kind: str, steps: list[Any], wheres: list[pc.Expression]
) -> None:
    table = table_of(kind, steps)
    plain = Table(
        table._fs,
        options=parse_options({"hoodie.enable.data.skipping": "false"}),
        engine=LocalEngine(1),
    )
    whole = plain.scan(with_meta=False).to_arrow()
    first = table.timeline.commits.first
    for where in wheres:
        expected = rows_of(whole.filter(where))
        assert rows_of(table.scan(where=where, with_meta=False).to_arrow()) == expected
        assert rows_of(plain.scan(where=where, with_meta=False).to_arrow()) == expected
        assert first is not None
        for options in ({"as_of": first.time}, {"mode": "read_optimized"}):
            one = table.scan(where=where, **options).to_arrow()
            other = plain.scan(where=where, **options).to_arrow()
            assert rows_of(one) == rows_of(other)


def spread(table_type: str = "cow", version: int = 9, **options: str) -> Table:
    """Ten file groups of one key each; column small is the key's number."""
    table = pyhudi.create_table(
        f"memory://skip{next(names)}", SCHEMA, record_key="id", options={**STATS, **options},
        table_type=table_type, version=version,
    )  # fmt: skip
    for number in range(10):
        row = {"id": f"k{number}", "small": number, "text": f"t{number}" if number else None}
        table.upsert(pa.Table.from_pylist([row], SCHEMA))
    return table


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (pc.field("small") == 3, 1),
        (pc.field("small") >= 7, 3),
        (pc.scalar(7) > pc.field("small"), 7),
        ((pc.field("small") < 2) | (pc.field("small") > 8), 3),
        ((pc.field("small") < 5) & (pc.field("text") > "t2"), 2),
        (pc.field("small").isin([1, 5, 70]), 2),
        (pc.field("text").is_null(), 1),
        (pc.field("text").is_valid(), 9),
        (pc.field("small") == 70, 0),
        (pc.field("small") * 2 == 6, 10),
        (~(pc.field("small") == 3), 10),
    ],
)
def test_files_are_ruled_out_by_their_ranges(where: pc.Expression, left: int) -> None:
    scan = spread().scan(["id"], where)
    assert len(scan.tasks) == left
    if left < 10:
        assert scan.explain().skipped_by == {"column statistics": 10 - left}
        assert f"skipped     {10 - left} slices by the column statistics" in str(scan.explain())
    assert scan.count() == scan.to_arrow().num_rows


@pytest.mark.parametrize("version", [6, 8, 9])
def test_keys_go_to_the_record_index(version: int) -> None:
    table = spread(version=version)
    scan = table.scan(["id"], pc.field("id").isin(["k3", "k8"]))
    assert scan.explain().skipped_by == {"record index": 8}
    assert sorted(scan.to_arrow()["id"].to_pylist()) == ["k3", "k8"]
    assert len(table.scan(["id"], pc.field("_hoodie_record_key") == "k5").tasks) == 1
    assert table.scan(["id"], pc.field("id") == "none").count() == 0


def test_a_key_that_the_index_does_not_know_is_looked_for_in_the_files() -> None:
    """Apache Hudi 0.15.0 leaves keys out of the index that a log deleted and that came again."""
    for kind, skipped in (("mor", None), ("cow", 9)):
        table = spread(kind)
        for missing in ("none", "k99"):
            scan = table.scan(["id"], pc.field("id").isin(["k3", missing]))
            assert scan.explain().skipped_by.get("record index") == skipped
            assert scan.to_arrow()["id"].to_pylist() == ["k3"]


def test_keys_go_to_bloom_filters_where_an_old_snapshot_is_read() -> None:
    table = spread()
    last = table.timeline.commits.last
    assert last is not None
    scan = table.scan(["id"], pc.field("id") == "k4", as_of=last.time)
    assert scan.explain().skipped_by == {"bloom filters": 9}
    assert scan.to_arrow()["id"].to_pylist() == ["k4"]


def test_a_filter_with_an_empty_key_reads_all_files_that_have_bloom_filters() -> None:
    table = spread()
    last = table.timeline.commits.last
    assert last is not None
    for keys, found in (["", "k4"], ["k4"]), ([""], []):
        scan = table.scan(["id"], pc.field("id").isin(keys), as_of=last.time)
        assert scan.explain().skipped_by.get("bloom filters") is None
        assert scan.to_arrow()["id"].to_pylist() == found


def test_a_table_gets_its_facts_when_requested_later() -> None:
    name = f"memory://skip{next(names)}"
    table = pyhudi.create_table(name, SCHEMA, record_key="id")
    for number in range(3):
        table.bulk_insert(pa.Table.from_pylist([{"id": f"k{number}", "small": number}], SCHEMA))
    again = pyhudi.open_table(name, options=STATS)
    assert len(again.scan(where=pc.field("small") == 1).tasks) == 3
    again.bulk_insert(pa.Table.from_pylist([{"id": "k3", "small": 3}], SCHEMA))
    assert len(again.scan(where=pc.field("small") == 1).tasks) == 1
    assert len(again.scan(where=pc.field("small") == 3).tasks) == 1


@pytest.mark.parametrize(
    ("where", "values"),
    [
        (pc.field("id") == "a", ["a"]),
        (pc.scalar("a") == pc.field("id"), ["a"]),
        ((pc.field("id") == "a\"'\n\\") & (pc.field("small") > 1), ["a\"'\n\\"]),
        ((pc.field("id") == "a") | pc.field("id").isin(["b", "c"]), ["a", "b", "c"]),
        ((pc.field("id") == "a") | (pc.field("small") == 1), None),
        (~(pc.field("id") == "a"), None),
        (pc.field("small") == 1, None),
        (pc.field("x", "id") == "a", None),
        (pc.field("id") != "a", None),
    ],
)
def test_the_keys_of_a_filter(where: pc.Expression, values: list[str] | None) -> None:
    found = required_values(arrow_tree(where), ["id"], pa.string())
    assert (found and found.to_pylist()) == values


def test_a_filter_reads_as_a_tree() -> None:
    node = arrow_tree(pc.field("a").isin([1]) & pc.field("b"))
    assert isinstance(node, And) and node.sides[1] == Column(("b",))
    assert can_pass(node, {}, 2).tolist() == [True, True]


def tables_of_apache_hudi() -> list[str]:
    """Golden tables of version 6, and those of versions 8 and 9 with and without statistics."""
    folder = fixtures()
    newer = [p for v in ("8", "9") for p in (folder / "tables").glob(f"*_v{v}_*.zip")]
    return [
        f"{p.parent.name}/{p.name}" for p in sorted([*(folder / "golden").glob("*.zip"), *newer])
    ]


@pytest.mark.covering(1, most=8)
@pytest.mark.parametrize("name", tables_of_apache_hudi())
def test_tables_of_apache_hudi_give_equal_answers(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(fixtures() / name) as file:
        file.extractall(tmp_path)
    roots = [p.parent for p in tmp_path.rglob(".hoodie") if "__MACOSX" not in p.parts]
    table = pyhudi.open_table(min(roots, key=lambda p: len(p.parts)))
    whole = table.scan().to_arrow()
    for number, field in enumerate(whole.schema):
        values = whole.column(field.name).drop_null()
        if pa.types.is_nested(field.type) or not len(values):
            continue
        middle = values.take(pc.array_sort_indices(values.combine_chunks()))[len(values) // 2]
        column = pc.field(field.name)
        conditions = (column == middle, column > middle, column <= middle, column.is_null())
        for where in (conditions[number % 4], conditions[(number + 1) % 4]):
            assert rows_of(table.scan(where=where).to_arrow()) == rows_of(whole.filter(where))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("more", [{}, STATS], ids=["index", "index-stats-blooms"])
def test_a_key_column_is_not_the_record_key_where_a_function_makes_the_key(
    kind: str, more: dict[str, str]
) -> None:
    upper = pyhudi.PythonKeys(
        keys=lambda rows: pc.utf8_upper(rows.column("id")),
        paths=lambda rows: rows.column("text"),
        columns=("text",),
    )
    schema = pa.schema([("id", pa.string()), ("text", pa.string()), ("small", pa.int32())])
    url = f"memory://skip{next(names)}"
    table = pyhudi.create_table(
        url, schema, record_key="id", partition_by=upper, table_type=kind, options=more
    )
    rows = {"id": ["abc", "def", "ghi"], "text": ["x", "y", "x"], "small": [1, 2, 3]}
    table.upsert(pa.table(rows, schema))
    for opened in (table, pyhudi.open_table(url)):
        one = opened.scan(where=pc.field("id") == "abc").to_arrow()
        assert one.column("small").to_pylist() == [1]
        assert opened.scan(where=pc.field("id").isin(["abc", "def"])).count() == 2
        assert opened.scan(where=pc.field("_hoodie_record_key") == "ABC").count() == 1
    assert table.delete(where=pc.field("id") == "abc").deleted == 1
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == ["def", "ghi"]
