"""Tables of old versions that pyhudi has upgraded, read by Apache Hudi."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from tests.interop.same_rows import differences
from tests.support.apache_hudi import ApacheHudi
from tests.support.foreign import foreign_table

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.parametrize("name", ["mor_v3", "mor_v4", "mor_v5"])
def test_apache_hudi_reads_an_upgraded_table(name: str, tmp_path: Path, apache: ApacheHudi) -> None:
    root = foreign_table(name, tmp_path)
    table = pyhudi.open_table(root, options={"hoodie.index.type": "SIMPLE"})
    table.upgrade(6)
    assert differences(root, apache) == []
    table.upsert(table.scan(with_meta=False).to_arrow().slice(0, 2))
    assert differences(root, apache) == []
    assert table.config.version == 6
