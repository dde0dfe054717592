"""Random SQL filters select the rows that a plain evaluation and DuckDB select, on every reader.

`FILTERS=20000 python -m pytest tests/read/test_generated_filters.py` is the long form.
"""

from __future__ import annotations

import operator
import os
import random
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.read.filters import as_predicate
from pyhudi.read.sql.sql_filter import as_filter
from tests.support.arrow_filter_cases import ArrowGenerator
from tests.support.filter_cases import FLOATS, SCHEMA, Case, Generator, random_rows

FILTERS = int(os.environ.get("FILTERS", "60"))
SEED = int(os.environ.get("SEED", "26"))


def cases(count: int, offset: int = 0) -> list[Case]:
    generator = Generator(SEED + offset)
    return [generator.case() for _ in range(count)]


def selected(case: Case, rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows if case.holds(row) is True)


def test_filters_select_what_a_plain_evaluation_and_duckdb_select() -> None:
    stored = random_rows(random.Random(SEED), 0, 150)
    rows = stored.to_pylist()
    compared = 0
    with duckdb.connect() as peer:
        peer.execute("set timezone = 'UTC'")
        peer.register("stored", stored)
        for case in cases(FILTERS):
            expected = selected(case, rows)
            found = stored.filter(as_filter(case.text, SCHEMA)).column("id").to_pylist()
            assert found == expected, case.text
            if case.peer is not None:
                query = f"select id from stored where {case.peer} order by id"
                try:
                    answer = [row for (row,) in peer.execute(query).fetchall()]
                except (duckdb.ConversionException, duckdb.OutOfRangeException):
                    continue  # a number beyond the range of the column's type, or of its decimals
                assert answer == expected, case.peer
                compared += 1
    assert compared > FILTERS / 2


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Tables with many small files and statistics of all columns, and their rows."""
    chance = random.Random(SEED)
    found = {}
    for version, kind in ((9, "cow"), (9, "mor"), (6, "mor")):
        path = tmp_path_factory.mktemp(f"{kind}{version}") / "t"
        table = pyhudi.create_table(
            path, SCHEMA, record_key="id", partition_by="p", table_type=kind, version=version,
            options={
                "hoodie.datasource.write.partitionpath.urlencode": "true",
                "hoodie.parquet.small.file.limit": "0",
                "hoodie.metadata.index.column.stats.enable": "true",
            },
        )  # fmt: skip
        for first in range(0, 90, 15):
            table.insert(random_rows(chance, first, 15))
        table.upsert(random_rows(chance, 10, 20))
        found[f"{kind}{version}"] = (table, table.scan().to_arrow().to_pylist())
    return found


def test_scans_with_statistics_select_what_the_evaluation_selects(tables: dict[str, Any]) -> None:
    for at, case in enumerate(cases(max(FILTERS // 16, 12), 1)):
        name = list(tables)[at % len(tables)]
        table, rows = tables[name]
        expected = selected(case, rows)
        for where in (case.text, as_filter(case.text, SCHEMA)):
            found = table.scan(["id"], where).to_arrow().column("id").to_pylist()
            assert sorted(found) == expected, (name, str(where))


def test_arrow_expressions_with_statistics_select_what_arrow_selects(
    tables: dict[str, Any],
) -> None:
    generator = ArrowGenerator(SEED)
    compared = skipped = 0
    for at in range(max(FILTERS // 4, 24)):
        where, name = generator.expression(), list(tables)[at % len(tables)]
        table, rows = tables[name]
        try:
            passing = pa.Table.from_pylist(rows, table.scan().schema).filter(where)
        except pa.ArrowException:  # a cast or a calculation has no result for a value
            continue
        scan = table.scan(["id"], where)
        found = scan.to_arrow().column("id").to_pylist()
        assert sorted(found) == sorted(passing.column("id").to_pylist()), (name, str(where))
        compared, skipped = compared + 1, skipped + bool(scan.plan.skipped_by)
    assert compared > FILTERS // 6 and skipped > compared // 6


def test_known_conditions_of_a_conjunction_skip_files(tables: dict[str, Any]) -> None:
    """Joined to conditions that are not analyzed, the others skip what they skip alone."""
    generator = ArrowGenerator(SEED + 5)
    compared = skipped = 0
    for at in range(max(FILTERS // 4, 24)):
        known, unknown = generator.expression(), generator.unknown()
        if as_predicate(known, SCHEMA).refused is not None:
            continue
        sides = [known, unknown, *([generator.unknown()] if at % 3 == 0 else [])]
        generator.chance.shuffle(sides)
        where = reduce(operator.and_, sides)
        assert as_predicate(where, SCHEMA).refused is not None, str(where)
        table, rows = tables[list(tables)[at % len(tables)]]
        try:
            passing = pa.Table.from_pylist(rows, table.scan().schema).filter(where)
        except pa.ArrowException:  # a cast or a calculation has no result for a value
            continue
        scan, alone = table.scan(["id"], where), table.scan(["id"], known)
        found = scan.to_arrow().column("id").to_pylist()
        assert sorted(found) == sorted(passing.column("id").to_pylist()), str(where)
        read = {task.slice.group for task in scan.plan.tasks}
        assert read <= {task.slice.group for task in alone.plan.tasks}, str(where)
        compared, skipped = compared + 1, skipped + bool(scan.plan.skipped_by)
    assert compared > FILTERS // 8 and skipped > compared // 8


def test_lazy_frames_select_what_polars_selects(tables: dict[str, Any]) -> None:
    """polars parses the text, hands it down as an expression of its own, and applies it again."""
    polars = pytest.importorskip("polars")
    import pyhudi.polars

    table, _ = tables["mor9"]
    memory = polars.DataFrame(table.scan(SCHEMA.names).to_arrow())
    frames = (pyhudi.polars.scan(table), pyhudi.polars.scan(table, reader="arrow"))
    compared = 0
    for at, case in enumerate(cases(max(FILTERS // 8, 24), 4)):
        try:
            condition = polars.sql_expr(case.text)
            expected = sorted(memory.filter(condition)["id"].to_list())
            memory.lazy().filter(condition).collect()  # its own lazy frames refuse `b and null`
        except polars.exceptions.PolarsError:
            continue
        frame = frames[at % 2 if not case.columns.intersection(FLOATS) else 1]
        found = frame.filter(condition).select("id").collect()["id"].to_list()
        assert sorted(found) == expected, case.text
        compared += 1
    assert compared > FILTERS // 20


def test_deletes_and_updates_change_what_the_evaluation_selects(tmp_path: Path) -> None:
    for at, case in enumerate(cases(max(FILTERS // 125, 4), 2)):
        stored = random_rows(random.Random(at), 0, 40)
        path = tmp_path / str(at)
        table = pyhudi.create_table(path, SCHEMA, record_key="id",
                                    table_type=["cow", "mor"][at % 2])  # fmt: skip
        table.bulk_insert(stored)
        required = selected(case, stored.to_pylist())
        table.update({"p": "'changed'"}, where=case.text)
        changed = table.scan(["id"], "p = 'changed'").to_arrow().column("id").to_pylist()
        assert sorted(changed) == required, case.text
        table.delete(where=case.text)
        left = sorted(table.scan(["id"]).to_arrow().column("id").to_pylist())
        assert left == sorted({*range(40)} - {*required}), case.text


def ids(answer: Any) -> list[int]:
    return sorted(value for batch in answer for value in batch.column(0).to_pylist())


def test_engines_select_what_the_evaluation_selects(tables: dict[str, Any]) -> None:
    """DuckDB and DataFusion with pyhudi as the reader, which hand their filters down to it, and
    with their own; theirs without conditions on floats, which statistics of files decide."""
    datafusion = pytest.importorskip("datafusion")
    import pyhudi.datafusion
    import pyhudi.duckdb

    table, rows = tables["mor9"]
    context = datafusion.SessionContext()
    with duckdb.connect() as peer:
        peer.execute("set timezone = 'UTC'")
        for reader in ("auto", "arrow"):
            pyhudi.duckdb.attach(peer, table, reader, reader=reader)
            pyhudi.datafusion.register(context, table, reader, reader=reader)
        memory = pa.Table.from_pylist(rows, table.scan().schema)
        context.register_record_batches("mem", [memory.to_batches()])
        for at, case in enumerate(cases(max(FILTERS // 16, 24), 3)):
            if case.peer is None:
                continue
            reader = "auto" if at % 2 and not case.columns.intersection(FLOATS) else "arrow"
            query = f"select id from {reader} where {case.peer}"
            try:
                found = sorted(row for (row,) in peer.execute(query).fetchall())
            except duckdb.ConversionException:
                continue
            assert found == selected(case, rows), (reader, case.peer)
            if case.zeros or "null" in case.peer or "escape" in case.peer:
                continue  # DataFusion tells zeros in lists apart, and fails for some nulls
            try:
                expected = ids(context.sql(f"select id from mem where {case.peer}").collect())
            except Exception:  # a function or literal that DataFusion lacks
                continue
            answer = ids(context.sql(f"select id from arrow where {case.peer}").collect())
            assert answer == expected, case.peer
