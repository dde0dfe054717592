"""The blocks of docs/catalogs.md run, one after another, on a metastore and a Glue of this test."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from tests.support.callbacks import server, taking
from tests.support.fake_glue import empty_glue
from tests.support.fake_metastore import metastore
from tests.sync.cases import CITY, TRIPS, trip

PAGE = Path(__file__).parents[2] / "docs" / "catalogs.md"


def test_the_blocks_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    path = tmp_path / "trips"
    table = pyhudi.create_table(path, TRIPS, record_key="id", **CITY)
    table.upsert(pa.Table.from_pylist([trip(1)], TRIPS))
    rows = pa.Table.from_pylist([trip(2)], TRIPS)
    names = {"pyhudi": pyhudi, "table": table, "path": path, "rows": rows}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 7
    with metastore() as (uri, _), empty_glue(), taking() as taken:
        for block in blocks:
            text = block.replace("127.0.0.1:9083", uri.removeprefix("thrift://"))
            text = re.sub("http://127.0.0.1:(5000|8080)", server(), text)
            exec(compile(text, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    events = [each.message["job"]["name"] for each in taken if "job" in each.message]
    assert events == ["trips.upsert"] and "lake 3" in printed
    assert "synced with openlineage: pyhudi.trips.upsert" in printed
    assert "trips True 1" in printed and "synced with hive: lake.trips" in printed
