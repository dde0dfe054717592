"""Files left out by what the metadata table knows: answers are equal with skipping on and off."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyhudi
from pyhudi.api import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import parse_options
from pyhudi.read.predicates import Call, Field, parse, values_of
from pyhudi.read.skipping import can_pass
from pyhudi.storage.memory import MemoryFileSystem
from tests.read.test_golden import extracted
from tests.support.avro_rows import fixtures
from tests.support.golden import golden_table

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "small": (pa.int32(), [-5, 0, 7]),
    "big": (pa.int64(), [-(1 << 60), 0, 3, 1 << 60]),
    "single": (pa.float32(), [-1.5, 0.0, NAN, 2.5]),
    "double": (pa.float64(), [-1.5, -0.0, NAN, float("inf")]),
    "text": (pa.string(), ["", "a", "ab", "zz" * 40, "Ａ", "😀"]),
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


def with_statistics(fs: Any) -> None:
    """List the statistics of every file in the metadata table, as Apache Hudi would."""
