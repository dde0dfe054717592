"""Change data capture: what each commit changed is logged beside the base file it rewrote."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError
from pyhudi.filenames import TEMP
from pyhudi.formats.log_block import data_batches
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.read.table_snapshot import load_state
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.write.table_creation import NewTable
from tests.support.filesystems import every_stop, tree

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


def new_table(place: Path, kind: str = "cow", *, version: int = 9, **options: str) -> pyhudi.Table:
    return pyhudi.create_table(str(place), SCHEMA, record_key="id", partition_by="city",
                               ordering="ts", table_type=kind, version=version,
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


def newest(table: pyhudi.Table) -> str:
    """Where the changes after the last commit begin."""
    last = table.timeline.commits.last
    assert last is not None
    return str(last.completed_at or last.time)


VERSIONS = pytest.mark.parametrize("version", [6, 9])


@VERSIONS
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_changes_of_every_operation_are_captured(tmp_path: Path, kind: str, version: int) -> None:
    table = new_table(tmp_path / "t", kind, version=version)
    table.upsert(rows(("a", 1), ("b", 1), ("c", 1)))
    first = newest(table)
    assert changes(table) == [("i", "a", None, 1), ("i", "b", None, 1), ("i", "c", None, 1)]
    report = table.upsert(rows(("b", 2), ("d", 2), ("c", 0)))  # c is older: it loses
    second = newest(table)
    assert changes(table, first) == [("i", "d", None, 2), ("u", "b", 1, 2)]
    table.delete(keys=["a", "nobody"])
    third = newest(table)
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
        assert update["ts_ms"] == report.instant


@VERSIONS
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_changes_applied_in_their_order_make_the_table(
    tmp_path: Path, kind: str, version: int
) -> None:
    """A key whose file group is replaced, or that moves to another partition, is deleted from one
    group and inserted into another by the same commit."""
    moves = {"hoodie.record.index.update.partition.path": "true"}
    table = new_table(
        tmp_path, kind, version=version, **moves, **{"hoodie.clean.automatic": "false"}
    )
    table.upsert(rows(*((f"k{n}", 1) for n in range(6))))
    for ts in range(2, 8):
        table.insert_overwrite(rows(("k0", ts), (f"k{ts}", ts)))
        table.upsert(rows(("k10", ts), ("k11", ts), city="nyc" if ts % 2 else "la"))
    replica: dict[str, Any] = {}
    for change in table.capture("000").to_pylist():
        if change["op"] == "d":
            replica.pop(change["before"]["id"], None)
        else:
            replica[change["after"]["id"]] = change["after"]
    found = table.scan([field.name for field in SCHEMA]).to_arrow().to_pylist()
    assert replica == {row["id"]: row for row in found}


def test_a_group_merged_for_a_key_that_comes_back_logs_its_changes(tmp_path: Path) -> None:
    table = pyhudi.create_table(
        str(tmp_path / "t"), SCHEMA, record_key="id", partition_by="city", ordering="ts",
        table_type="mor", index="bloom", options=ENABLED,
    )  # fmt: skip
    table.upsert(rows(("a", 5), ("b", 5)))
    table.delete(keys=["a"])
    deleted = newest(table)
    table.upsert(rows(("a", 1), ("b", 6)))  # an older row, which the delete in the logs would hide
    assert changes(table, deleted) == [("i", "a", None, 1), ("u", "b", 5, 6)]
    ((found),) = logged(tmp_path / "t")
    assert sorted(record["op"] for record in found) == ["i", "u"]


def test_the_commit_names_its_logs_and_the_metadata_table_lists_them(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows(("a", 1)))
    table.upsert(rows(("a", 2)))
    (log,) = logs(tmp_path / "t")
    expected = {str(log.relative_to(tmp_path / "t")): log.stat().st_size}
    assert last_stat(tmp_path / "t").cdc_sizes == expected
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


@pytest.mark.parametrize("version", [6, 9])
def test_a_repair_leaves_the_logs_where_they_are(tmp_path: Path, version: int) -> None:
    table = new_table(tmp_path / "t", version=version)
    table.upsert(rows(("a", 1)))
    table.upsert(rows(("a", 2)))
    before = logs(tmp_path)
    assert before and not table.doctor().findings
    table.repair()
    assert logs(tmp_path) == before


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


MODES = pytest.mark.parametrize("mode", ["DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"])


@MODES
@pytest.mark.parametrize("version", [8, 9])
def test_a_compaction_logs_the_changes_that_it_merges(
    tmp_path: Path, mode: str, version: int
) -> None:
    table = new_table(tmp_path / "t", "mor", version=version, **{MODE: mode})
    table.upsert(rows(("a", 1), ("b", 1), ("c", 1), ("d", 1)))
    table.upsert(rows(("a", 2), ("b", 1)))  # b is the same row again
    table.delete(keys=["c"])
    expected = changes(table)
    assert logs(tmp_path / "t") == []
    report = table.compact()
    (log,) = logs(tmp_path / "t")
    assert f"_{report.instants[0]}.log.1_" in log.name
    found = {r["op"]: r for r in logged(tmp_path / "t")[0]}
    assert set(found) == {"u", "d"}
    if mode == "DATA_BEFORE_AFTER":
        assert found["u"]["before"] == rows(("a", 1)).to_pylist()[0]
        assert found["u"]["after"] == rows(("a", 2)).to_pylist()[0]
        assert found["d"]["before"] == rows(("c", 1)).to_pylist()[0]
    else:
        assert {op: r["record_key"] for op, r in found.items()} == {"u": "a", "d": "c"}
    stat = last_stat(tmp_path / "t")
    assert dict(stat.cdc_sizes or {}) == {f"sf/{log.name}": log.stat().st_size}
    assert (stat.insert_count, stat.update_count, stat.delete_count) == (0, 2, 1)
    assert changes(table) == expected
    assert not table.metadata.verify().findings


def test_a_compaction_of_version_6_logs_no_changes(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "mor", version=6)
    table.upsert(rows(("a", 1)))
    table.upsert(rows(("a", 2)))
    table.compact()
    assert logs(tmp_path / "t") == []


def last_stat(place: Path) -> WriteStat:
    """The only write stat of the last commit."""
    state = load_state(LocalFileSystem(place), parse_options({}).read)
    last = state.timeline.commits.last
    assert last is not None
    (stat,) = state.log.commit(last).stats
    return stat


@pytest.mark.parametrize("version", [8, 9])
def test_the_stat_of_a_log_names_its_slice(tmp_path: Path, version: int) -> None:
    table = new_table(tmp_path / "t", "mor", version=version)
    first = str(table.upsert(rows(("a", 1))).instant)
    table.upsert(rows(("a", 2)))
    earlier = last_stat(tmp_path / "t").log_files
    assert len(earlier) == 1
    table.upsert(rows(("a", 3)))
    stat = last_stat(tmp_path / "t")
    assert stat.previous_instant == first
    assert stat.base_file.endswith(f"_{first}.parquet")
    assert stat.log_files == (*earlier, stat.file_name) and stat.cdc_sizes is None
    plain = pyhudi.create_table(str(tmp_path / "u"), SCHEMA, record_key="id", ordering="ts",
                                table_type="mor", version=version)  # fmt: skip
    plain.upsert(rows(("a", 1)))
    report = plain.upsert(rows(("a", 2)))
    stat = last_stat(tmp_path / "u")
    assert (stat.previous_instant, stat.base_file, stat.log_files[:-1]) == (report.instant, "", ())


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_crashed_write_leaves_no_log_after_its_rollback(tmp_path: Path, kind: str) -> None:
    fs = MemoryFileSystem()
    parsed = parse_options({**ENABLED, "hoodie.write.table.version": "9"})
    keys: tuple[tuple[str, ...], ...] = (("id",), ("city",), ("ts",))
    create(fs, NewTable(SCHEMA, "t", TableType[TYPES[kind]], *keys, parsed))
    open_table(fs).upsert(rows(("a", 1)))
    if kind == "mor":
        open_table(fs).upsert(rows(("a", 2)))

    def act(disk: FileSystem) -> None:
        table = open_table(disk)
        table.compact() if kind == "mor" else table.upsert(rows(("a", 3)))

    stops = 0
    for stop in every_stop(fs, act):
        left = {path for path in tree(stop.fs) if path.endswith(".cdc")}
        if stop.died_at is None:
            assert len(left) == 1 and not open_table(stop.fs).metadata.verify().findings
            continue
        table = open_table(stop.fs)
        instants = {p.split("_")[1].split(".")[0] for p in left} & pending(table)
        for path in left:
            if instants:
                assert any(m.endswith(f"{path}.marker.CREATE") for m in tree(stop.fs, TEMP))
        act(stop.fs)  # a compaction is rolled back when its plan runs again
        after = {path for path in tree(stop.fs) if path.endswith(".cdc")}
        assert not instants or not after & left
        stops += bool(instants)
    assert stops > 1


TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


def open_table(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(ENABLED), engine=LocalEngine(1))


def pending(table: Table) -> set[str]:
    return {str(instant.time) for instant in table.timeline.pending}
