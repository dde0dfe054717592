"""`pyhudi.spark.sql` gives what the table of statements says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from tests.sql.cases import DELETES, INSERTS, MERGES, QUERIES, SOURCES, UPDATES, Case
from tests.sql.test_statements import stored, trips

OTHER = (
    "1.5 where id = 'a'",  # Spark casts as its store assignment does
    "7 % 4",  # decimal quotients
)
"""Statements of which Spark gives other values than DuckDB."""
CASES = [
    case
    for case in (*QUERIES, *UPDATES, *DELETES, *INSERTS, *MERGES)
    if case.ordered is None and not any(text in case.sql for text in OTHER)
]
FEW = 9


@pytest.mark.parametrize(
    "case",
    [
        case if number % FEW == 0 else pytest.param(case, marks=pytest.mark.slow)
        for number, case in enumerate(CASES)
    ],
    ids=lambda case: case.sql[:90],
)
def test_a_statement_gives_its_rows_on_spark(spark: Any, case: Case, tmp_path: Path) -> None:
    table = trips(tmp_path, "mor")
    before = stored(table)

    def runs() -> Any:
        found = hudi.sql(
            spark, case.sql, tables={"trips": table.path, **SOURCES},
            parameters=case.parameters, options=dict(case.options) or None,
        )  # fmt: skip
        return sorted(map(tuple, found.collect())) if case.rows is not None else found

    if case.error is not None:
        with pytest.raises(pyhudi.PyhudiError):
            runs()
        assert stored(table) == before
        return
    found = runs()
    if case.rows is not None:
        assert found == sorted(case.rows)
        return
    assert case.change is not None
    after = {**before, **{key: [row] for key, row in case.change.items() if row is not None}}
    for key in (key for key, row in case.change.items() if row is None):
        del after[key]
    assert stored(table) == after


def test_a_value_that_spark_cannot_cast_is_a_typed_error(spark: Any, tmp_path: Path) -> None:
    table = trips(tmp_path, "cow")
    before = stored(table)
    with pytest.raises(pyhudi.UserError, match=r"Spark cannot compute a value.*CAST"):
        hudi.sql(spark, "update trips set n = 'x' where id = 'a'", tables={"trips": table.path})
    assert stored(table) == before


def test_views_of_the_session_are_read(spark: Any, tmp_path: Path) -> None:
    table = trips(tmp_path, "cow")
    spark.range(3).createOrReplaceTempView("three")
    try:
        query = "select count(*) from trips cross join three"
        assert hudi.sql(spark, query, tables={"trips": table.path}).collect()[0][0] == 12
        with pytest.raises(pyhudi.UserError, match="cannot be written to"):
            hudi.sql(spark, "delete from three")
        assert not [t for t in spark.catalog.listTables() if t.name.startswith("__pyhudi")]
    finally:
        spark.catalog.dropTempView("three")
