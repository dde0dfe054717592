"""Apache Hudi decodes every file that pyhudi writes beside the rows: the timeline and its archive,
log blocks, and the HFiles of the metadata table; it filters by our statistics and bloom filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.interop.test_apache_hudi import SCHEMA, rows
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = pytest.mark.interop

INDEXED = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.logfile.data.block.format": "avro",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "2",
}
EMPTY = {("commit", "REQUESTED"), ("deltacommit", "REQUESTED"), ("clean", "INFLIGHT"),
         ("rollback", "INFLIGHT"), ("savepoint", "INFLIGHT"), ("restore", "INFLIGHT"),
         ("compaction", "INFLIGHT"), ("logcompaction", "INFLIGHT"),
         ("replacecommit", "INFLIGHT"), ("replacecommit", "REQUESTED")}  # fmt: skip
"""Actions and states whose file may be empty."""


def lived_in(path: Path, version: int) -> pyhudi.Table:
    """A table with every action that pyhudi writes, its first commits archived."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="mor",
        version=version, options=INDEXED,
    )  # fmt: skip
    table.bulk_insert(rows(range(60), 1))
    for version in range(2, 6):
        table.upsert(rows(range(version, 30), version))
    table.compact()
    for version in range(7, 10):
        table.upsert(rows(range(version, 40), version))
    table.clean()
    table.archive()
    table.upsert(rows(range(50, 70), 11))
    table.savepoint("kept")
    table.delete(keys=[key for key in rows(range(40), 1)["id"].to_pylist() if key[-1] == "3"])
    table.upsert(rows(range(3), 12))
    table.rollback(table.timeline.commits.instants[-1].time)
    table.insert_overwrite(rows(range(0, 90, 3), 13))
    table.schedule_compaction()
    table.upsert(rows(range(1, 90, 3), 14))
    return table


def test_the_timeline_archive_logs_and_indexes_are_decoded_whole(
    tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    path = tmp_path / "t"
    table = lived_in(path, newest_table_version(hudis))
    stored = table.scan(SCHEMA.names).to_arrow()
    for hudi in hudis:
        assert decoded_actions(hudi, path) >= {
            "deltacommit", "commit", "compaction", "clean", "rollback", "savepoint",
            "replacecommit",
        }  # fmt: skip
        archived = decoded_archive(hudi, path)
        assert archived == {c.time for c in table._state().archive.commits} and len(archived) >= 3
        assert decoded_logs(hudi, path) >= 8
        assert decoded_hfiles(hudi, path) >= 5
        records = hudi.call("mdt", path=str(path))["partitions"]
        assert {name for name, found in records.items() if found} == {
            "files", "column_stats", "bloom_filters", "record_index",
        }  # fmt: skip
        keys = stored["id"].to_pylist()
        assert hudi.call("rli", path=str(path), keys=keys)["locations"].keys() == set(keys)
        checked = hudi.call("validate", path=str(path))
        assert checked["record_keys"] == checked["record_index_entries"] == len(keys)


def decoded_actions(hudi: ApacheHudi, path: Path) -> set[str]:
    """Actions of the timeline; each file's metadata was decoded."""
    instants = hudi.call("timeline", path=str(path))["instants"]
    for instant in instants:
        assert "metadata_error" not in instant, instant
        kind = (instant["action"], instant["state"])
        assert instant.get("metadata") or kind in EMPTY, instant
    return {instant["action"] for instant in instants if instant["state"] == "COMPLETED"} | {
        instant["action"] for instant in instants if instant["action"] == "compaction"
    }


def decoded_archive(hudi: ApacheHudi, path: Path) -> set[str]:
    """Times of the archived commits; each one's metadata was decoded."""
    instants = hudi.call("archive", path=str(path))["instants"]
    for instant in instants:
        assert instant["metadata"], instant
    commits = ("commit", "deltacommit", "replacecommit")
    return {instant["time"] for instant in instants if instant["action"] in commits}


def decoded_logs(hudi: ApacheHudi, path: Path) -> int:
    """The number of log files of table and metadata table, all of whose records were decoded."""
    files = [p for p in path.rglob(".*.log.*") if not p.name.endswith(".crc")]
    for file in files:
        blocks = hudi.call("log", path=str(file))["blocks"]
        assert blocks and "CORRUPT_BLOCK" not in {block["type"] for block in blocks}, file
        for block in blocks:
            is_first = block["header"]["INSTANT_TIME"].startswith("0000")  # empty by design
            assert block.get("records") or block.get("deletes") or "command" in block or is_first
    return len(files)


def decoded_hfiles(hudi: ApacheHudi, path: Path) -> int:
    """The number of HFiles, all of whose cells were decoded as Avro records."""
    files = [p for p in path.rglob("*.hfile") if not p.name.startswith(".")]
    for file in files:
        found = hudi.call("hfile", path=str(file), avro=True)
        assert len(found["cells"]) == found["entries"] == len(found["avro"]["records"]), file
    return len(files)


FILTERS = [
    "qty > 900",
    "price < -90000",
    "day between date'1965-01-01' and date'1965-09-01'",
    "amount > 0.8 and part = 'p1'",
    "id = 'key-0007'",
    "flag is null",
]
SKIPPING = {
    "hoodie.metadata.enable": "true",
    "hoodie.enable.data.skipping": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}


PRUNED = {FILTERS[n] for n in (0, 1, 2, 4)}
"""What opens fewer files."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_apache_hudi_filters_by_our_column_statistics(
    tmp_path: Path, kind: str, hudis: list[ApacheHudi]
) -> None:
    """Equal rows with data skipping on and off, and fewer files opened with it."""
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=newest_table_version(hudis),
        options={**INDEXED, "hoodie.parquet.small.file.limit": "0"},
    )  # fmt: skip
    everything = rows(range(120), 1).sort_by("qty")
    for first in range(0, 120, 20):
        table.bulk_insert(everything.slice(first, 20))
    table.upsert(rows(range(10), 2))
    for hudi in hudis:
        fewer = set()
        conf = {**SKIPPING, "hoodie.enable.data.skipping": "false"}
        plain = hudi.call("counted", path=str(path), wheres=FILTERS, conf=conf)
        for where, count in zip(FILTERS, plain["rows"], strict=True):
            pruned = scanned(hudi, path, where, SKIPPING)
            assert pruned["rows"] == count > 0, where
            if pruned["files"] < plain["files"]:
                fewer.add(where)
        if (kind, hudi.version) != ("mor", "0.15.0"):  # which does not count these files
            assert fewer >= PRUNED, hudi.version


WIDER = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()),
                   ("qty", pa.int64()), ("ratio", pa.float64()), ("city", pa.string()),
                   ("addr", pa.struct([("city", pa.string())])), ("raw", pa.binary())])  # fmt: skip
NARROW = pa.schema([(f.name, f.type) for f in WIDER if f.name != "city"])
NARROW = NARROW.set(3, pa.field("qty", pa.int32())).set(4, pa.field("ratio", pa.float32()))


def numbered(keys: range, schema: pa.Schema) -> pa.Table:
    made = [
        {"id": f"k{i:03d}", "part": "p0", "ts": 1, "qty": i, "ratio": i / 2, "city": f"c{i:03d}",
         "addr": {"city": f"c{i:03d}"}, "raw": b"%03d" % i}
        for i in keys
    ]  # fmt: skip
    return pa.Table.from_pylist(made, schema)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_statistics_of_several_writers_and_schemas_hide_no_row(
    tmp_path: Path, kind: str, hudis: list[ApacheHudi]
) -> None:
    """Columns that are added and widened, and files that each release has written."""
    path = tmp_path / "t"
    options = {**INDEXED, "hoodie.parquet.small.file.limit": "0"}
    table = pyhudi.create_table(
        path, NARROW, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=newest_table_version(hudis), options=options,
    )  # fmt: skip
    table.bulk_insert(numbered(range(10), NARROW))
    table.bulk_insert(numbered(range(10, 20), WIDER), schema_mode="widen")
    table.upsert(numbered(range(5), WIDER))
    stated = {**SKIPPING, "hoodie.parquet.small.file.limit": "0"}
    for turn, hudi in enumerate(hudis):
        file = tmp_path / f"rows{turn}.parquet"
        pq.write_table(numbered(range(20 + 10 * turn, 30 + 10 * turn), WIDER), file)
        hudi.call("write", path=str(path), rows=str(file), operation="insert", conf=stated)
        pyhudi.open_table(path, options=options).upsert(numbered(range(2, 4), WIDER))
    last = 20 + 10 * len(hudis)
    for hudi in hudis:
        for i in (3, 12, *range(25, last, 10)):
            for where in (
                f"city = 'c{i:03d}'", f"addr.city = 'c{i:03d}'", f"qty = {i}", f"ratio = {i / 2}",
                f"raw = X'{(b'%03d' % i).hex()}'", f"id = 'k{i:03d}'",
            ):  # fmt: skip
                found = scanned(hudi, path, where, SKIPPING)
                assert found["rows"] == 1, (hudi.version, where)
        for where, count in (("city is null", 5), ("city is not null", last - 5)):
            assert scanned(hudi, path, where, SKIPPING)["rows"] == count, (hudi.version, where)


def scanned(hudi: ApacheHudi, path: Path, where: str, conf: dict[str, str]) -> dict[str, Any]:
    return hudi.call("scanned", path=str(path), where=where, conf=conf)


def test_apache_hudi_finds_keys_by_our_bloom_filters(
    tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    """A filter without one of its keys would leave two rows of the key."""
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="cow",
        index="bloom", version=newest_table_version(hudis),
        options={**INDEXED, "hoodie.parquet.small.file.limit": "0"},
    )  # fmt: skip
    table.bulk_insert(rows(range(40), 1))
    table.bulk_insert(rows(range(40, 80), 1))
    stated = {
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.use.metadata": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
    }
    for turn, hudi in enumerate(hudis):
        file = tmp_path / f"rows{turn}.parquet"
        batch = pa.concat_tables([rows(range(turn, 80, 3), turn + 2), rows([90 + turn], 1)])
        pq.write_table(batch, file)
        hudi.call("write", path=str(path), rows=str(file), operation="upsert", conf=stated)
        found = pyhudi.open_table(path).scan(["id", "ts"]).to_arrow()
        assert len(found) == len(set(found["id"].to_pylist())) == 81 + turn
        mine = found.filter(pc.is_in(found["id"], batch["id"]))
        assert mine.filter(pc.equal(mine["ts"], turn + 2)).num_rows == len(batch) - 1
