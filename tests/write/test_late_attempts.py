"""An attempt of a task that outlives its write leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from pyhudi.errors import Overtaken, OvertakenError
from tests.support.engines import Remembering
from tests.write.test_merging import KINDS, added, create, prices, rows


def data_files(path: Path) -> set[str]:
    return {p.name for part in "xy" for p in (path / "t" / part).glob("*") if p.is_file()}


@KINDS
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_an_attempt_that_ends_after_the_commit_is_not_merged(
    tmp_path: Path, kind: str, enabled: str
) -> None:
    create(tmp_path, kind, merge=added).upsert(rows(("a", 1, "x", 1.0), ("b", 1, "y", 5.0)))
    engine = Remembering("write")
    table = pyhudi.open_table(
        tmp_path / "t", merge=added, engine=engine, options={"hoodie.metadata.enable": enabled}
    )
    table.upsert(rows(("a", 2, "x", 10.0)))
    assert engine.late
    there = data_files(tmp_path)
    for attempt in list(engine.late):
        lost = attempt()
        assert isinstance(lost, Overtaken) and "has ended" in str(lost.error)
    assert data_files(tmp_path) == there
    for listed in ("true", "false"):
        again = pyhudi.open_table(
            tmp_path / "t", merge=added, options={"hoodie.metadata.enable": listed}
        )
        assert prices(again) == {"a": 11.0, "b": 5.0}


def test_an_attempt_of_a_compaction_that_ends_after_it_is_not_read(tmp_path: Path) -> None:
    create(tmp_path, "mor", merge=added).upsert(rows(("a", 1, "x", 1.0)))
    engine = Remembering("compact")
    table = pyhudi.open_table(tmp_path / "t", merge=added, engine=engine)
    table.upsert(rows(("a", 2, "x", 10.0)))
    table.compact()
    there = data_files(tmp_path)
    for attempt in list(engine.late):
        with pytest.raises(OvertakenError, match="has ended"):
            attempt()
    assert engine.late and data_files(tmp_path) == there
    assert prices(table) == {"a": 11.0}
