"""The first write into a table that pyhudi created and nobody has written to is by Apache Hudi."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from tests.interop.test_new_tables import batch, same_rows, upsert_by_java
from tests.merge.test_partial_modes import SCHEMA
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("apache", ["1.2.0"], indirect=True)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [8, 9])
def test_apache_hudi_writes_first(
    version: int, kind: str, tmp_path: Path, apache: ApacheHudi
) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", ordering="_event_lsn", table_type=kind, version=version
    )
    upsert_by_java(path, batch(["1 base 0"] * 3), apache, tmp_path)
    assert len(same_rows(path, apache)) == 3
    table.upsert(batch(["2 base 0"] * 5))
    assert len(same_rows(path, apache)) == 5
    apache.call("validate", path=str(path))
