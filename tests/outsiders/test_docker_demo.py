"""The queries of Apache Hudi's Docker demo, with the answers its page gives.

From the page "Docker Demo" of hudi.apache.org: two batches of stock ticks of 2018-08-31 in one
partition, whose key is symbol and hour; the second holds the half hour from 10:30, so the row of
10:29 gives way to that of 10:59.  The rows of GOOG are the page's, those of MSFT are made up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from tests.outsiders.test_trino import answer

DAY = "2018/08/31"
FIRST = [("09:59:00", 6330, 1230.5, 1230.02), ("10:29:00", 3391, 1230.1899, 1230.085)]
LAST = ("10:59:00", 9021, 1227.1993, 1227.215)
GOOG = "symbol = 'GOOG'"
COLUMNS = ["ts", "volume", "open", "close"]


def ticks(rows: list[tuple[str, int, float, float]], symbols: tuple[str, ...]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "key": f"{symbol}_2018-08-31 {time[:2]}", "date": DAY, "symbol": symbol,
                "ts": f"2018-08-31 {time}", "volume": volume, "open": opened, "close": closed,
            }
            for symbol in symbols
            for time, volume, opened, closed in rows
        ]
    )  # fmt: skip


def answers(table: pyhudi.Table, **how: Any) -> list[tuple[Any, ...]]:
    rows = table.scan(COLUMNS, GOOG, **how).to_arrow().to_pylist()
    return sorted((row["ts"][11:], *list(row.values())[1:]) for row in rows)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_demo_gives_the_answers_of_its_page(kind: str, version: int, tmp_path: Path) -> None:
    first = ticks(FIRST, ("GOOG", "MSFT"))
    table = pyhudi.create_table(
        tmp_path, first.schema, record_key="key", partition_by="date", ordering="ts",
        table_type=kind, version=version, name=f"stock_ticks_{kind}",
    )  # fmt: skip
    table.upsert(first)
    greatest = "select symbol, max(ts) from t where symbol = 'GOOG' group by symbol"
    for expected in ("10:29:00", "10:59:00"):
        assert answer(table, greatest) == [("GOOG", f"2018-08-31 {expected}")]
        if expected == "10:29:00":
            assert answers(table) == FIRST
            since = table.position()
            table.upsert(ticks([LAST], ("GOOG",)))
    newest = [FIRST[0], LAST]
    assert answers(table) == newest
    assert answers(table, mode="read_optimized") == (newest if kind == "cow" else FIRST)
    changed = table.changes(since, columns=COLUMNS, where=GOOG).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in changed] == [("2018-08-31 10:59:00", *LAST[1:])]
    if kind == "mor":
        table.compact()
        assert answers(table, mode="read_optimized") == newest
    assert answers(table, as_of=table.timeline.commits.first.time) == FIRST
    assert [str(each) for each in table.partitions()] == [DAY]
