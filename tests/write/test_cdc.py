"""Change data capture: what each commit changed is logged beside the base file it rewrote."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError
from pyhudi.formats.log_block import data_batches
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.storage.local import LocalFileSystem

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("amount", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.float64()), ("name", pa.string())])),
    ]
)
ENABLED = {"hoodie.table.cdc.enabled": "true"}
MODE = "hoodie.table.cdc.supplemental.logging.mode"
QUERIES = Path(__file__).parents[1] / "golden" / "queries"


def rows(*found: tuple[str, int], city: str = "sf") -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": key, "city": city, "ts": ts, "amount": ts, "tags": [key, None],
             "place": {"x": ts / 2, "name": key} if ts % 2 else None}
            for key, ts in found
        ],
        SCHEMA,
    )  # fmt: skip


def new_table(place: Path, kind: str = "cow", **options: str) -> pyhudi.Table:
    return pyhudi.create_table(str(place), SCHEMA, record_key="id", partition_by="city",
                               ordering="ts", table_type=kind,
                               options={**ENABLED, **options})  # fmt: skip


def logs(place: Path) -> list[Path]:
    return sorted(place.rglob("*.cdc"))


def logged(place: Path) -> list[list[dict[str, Any]]]:
    """The records of every CDC log, oldest log first."""
    fs = LocalFileSystem(place)
    found = []
    for path in sorted(logs(place), key=lambda p: p.name.split("_")[1]):
        name = str(path.relative_to(place))
        file = fs.open(name)
        (block,) = read_blocks(file, path=name)
        assert block.kind is BlockKind.CDC
        found.append(data_batches(block, file, path=name).to_pylist())
    return found


def changes(table: pyhudi.Table, since: str = "000") -> list[tuple[Any, ...]]:
    def ts(side: dict[str, Any] | None) -> Any:
        return side and side["ts"]

    found = table.capture(since).to_pylist()
    keys = [(r["before"] or r["after"])["id"] for r in found]
    return sorted((r["op"], key, ts(r["before"]), ts(r["after"])) for r, key in
                  zip(found, keys, strict=True))  # fmt: skip


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_changes_of_every_operation_are_captured(tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path / "t", kind)
    first = str(table.upsert(rows(("a", 1), ("b", 1), ("c", 1))).instant)
    assert changes(table) == [("i", "a", None, 1), ("i", "b", None, 1), ("i", "c", None, 1)]
    second = str(table.upsert(rows(("b", 2), ("d", 2), ("c", 0))).instant)  # c is older: it loses
    assert changes(table, first) == [("i", "d", None, 2), ("u", "b", 1, 2)]
    third = str(table.delete(keys=["a", "nobody"]).instant)
    assert changes(table, second) == [("d", "a", 1, None)]
    table.insert_overwrite(rows(("z", 4)))
    assert changes(table, third) == [
        ("d", "b", 2, None), ("d", "c", 1, None), ("d", "d", 2, None), ("i", "z", None, 4),
    ]  # fmt: skip
    if kind == "cow":
        assert [[r["op"] for r in log] for log in logged(tmp_path / "t")] == [["u", "i"], ["d"]]
        update = logged(tmp_path / "t")[0][0]
        assert update["before"] == rows(("b", 1)).to_pylist()[0]
        assert update["after"] == rows(("b", 2)).to_pylist()[0]
        assert update["ts_ms"] == second


def test_a_group_merged_for_a_key_that_comes_back_logs_its_changes(tmp_path: Path) -> None:
    table = pyhudi.create_table(
        str(tmp_path / "t"), SCHEMA, record_key="id", partition_by="city", ordering="ts",
        table_type="mor", index="bloom", options=ENABLED,
    )  # fmt: skip
    table.upsert(rows(("a", 5), ("b", 5)))
    table.delete(keys=["a"])
    deleted = str(table.timeline.commits.last.time)
    table.upsert(rows(("a", 1), ("b", 6)))  # an older row, which the delete in the logs would hide
    assert changes(table, deleted) == [("i", "a", None, 1), ("u", "b", 5, 6)]
    ((found),) = logged(tmp_path / "t")
    assert sorted(record["op"] for record in found) == ["i", "u"]


def test_the_commit_names_its_logs_and_the_metadata_table_lists_them(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows(("a", 1)))
    report = table.upsert(rows(("a", 2)))
    commit = json.loads((tmp_path / "t" / ".hoodie" / f"{report.instant}.commit").read_bytes())
    ((stat,),) = commit["partitionToWriteStats"].values()
    (log,) = logs(tmp_path / "t")
    assert stat["cdcStats"] == {str(log.relative_to(tmp_path / "t")): log.stat().st_size}
    assert not table.metadata.verify().findings
    assert not table.doctor().findings


@pytest.mark.parametrize(
    ("mode", "names"),
    [("OP_KEY_ONLY", ["op", "record_key"]), ("DATA_BEFORE", ["op", "record_key", "before"])],
)
def test_the_shorter_modes_log_less_and_report_the_same(
    tmp_path: Path, mode: str, names: list[str]
) -> None:
    table = new_table(tmp_path / "t", **{MODE: mode})
    first = str(table.upsert(rows(("a", 1), ("b", 1))).instant)
    table.upsert(rows(("b", 2), ("c", 2)))
    ((update, insert),) = logged(tmp_path / "t")
    assert list(update) == names and update["record_key"] == "b" and insert["op"] == "i"
    assert changes(table, first) == [("i", "c", None, 2), ("u", "b", 1, 2)]


def test_logs_are_cleaned_with_their_base_files(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", **{"hoodie.cleaner.commits.retained": "1"})
    for ts in range(1, 6):
        table.upsert(rows(("a", ts)))
    table.clean()
    stored = {path.name.split("_")[-1].split(".")[0] for path in (tmp_path / "t").rglob("*.parquet")
            if ".hoodie" not in path.parts}  # fmt: skip
    assert {path.name.split("_")[1].split(".")[0] for path in logs(tmp_path / "t")} <= stored
    assert len(logs(tmp_path / "t")) < 4
    assert not table.metadata.verify().findings


def test_a_rollback_takes_the_logs_too(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows(("a", 1)))
    report = table.upsert(rows(("a", 2)))
    table.rollback(str(report.instant))
    assert logs(tmp_path / "t") == [] and table.scan().to_arrow()["ts"].to_pylist() == [1]


def test_a_table_of_apache_hudi_that_captures_changes_is_written_on(tmp_path: Path) -> None:
    with zipfile.ZipFile(QUERIES / "cdc_cow_v6_both.zip") as file:
        file.extractall(tmp_path)
    table = pyhudi.open_table(tmp_path / "cdc_cow_v6_both", options={"hoodie.index.type": "BLOOM"})
    last = str(table.timeline.commits.last.time)
    before = table.scan(with_meta=False).to_arrow()
    changed = before.slice(0, 1).set_column(1, "ts", pa.array([10**6], pa.int64()))
    table.upsert(changed)
    (found,) = table.capture(last).to_pylist()
    assert found["op"] == "u"
    assert found["before"] == before.slice(0, 1).to_pylist()[0]
    assert found["after"] == changed.to_pylist()[0]


def test_a_mode_without_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="change data capture is not enabled"):
        pyhudi.create_table(str(tmp_path / "t"), SCHEMA, record_key="id",
                            options={MODE: "DATA_BEFORE"})  # fmt: skip
    table = new_table(tmp_path / "u")
    with pytest.raises(OptionError):
        pyhudi.open_table(str(tmp_path / "u"), options={"hoodie.table.cdc.enabled": "false"})
    assert table.config.cdc_enabled
