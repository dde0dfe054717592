"""Apache Hudi decodes every file that pyhudi writes beside the rows: the timeline and its archive,
log blocks, and the HFiles of the metadata table; it filters by our statistics and bloom filters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.interop.test_apache_hudi import SCHEMA, rows
from tests.support.apache_hudi import ApacheHudi

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


def lived_in(path: Path) -> pyhudi.Table:
    """A table with every action that pyhudi writes, its first commits archived."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="mor",
        options=INDEXED,
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
    table = lived_in(path)
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
        records = hudi.ask("mdt", path=str(path))["partitions"]
        assert {name for name, found in records.items() if found} == {
            "files", "column_stats", "bloom_filters", "record_index",
        }  # fmt: skip
        keys = stored["id"].to_pylist()
        assert hudi.ask("rli", path=str(path), keys=keys)["locations"].keys() == set(keys)
        checked = hudi.ask("validate", path=str(path))
        assert checked["record_keys"] == checked["record_index_entries"] == len(keys)


def decoded_actions(hudi: ApacheHudi, path: Path) -> set[str]:
    """Actions of the timeline; each file's metadata was decoded."""
    instants = hudi.ask("timeline", path=str(path))["instants"]
    for instant in instants:
        assert "metadata_error" not in instant, instant
        kind = (instant["action"], instant["state"])
        assert instant.get("metadata") or kind in EMPTY, instant
    return {instant["action"] for instant in instants if instant["state"] == "COMPLETED"} | {
        instant["action"] for instant in instants if instant["action"] == "compaction"
    }


def decoded_archive(hudi: ApacheHudi, path: Path) -> set[str]:
    """Times of the archived commits; each one's metadata was decoded."""
    instants = hudi.ask("archive", path=str(path))["instants"]
    for instant in instants:
        assert instant["metadata"], instant
    commits = ("commit", "deltacommit", "replacecommit")
    return {instant["time"] for instant in instants if instant["action"] in commits}


def decoded_logs(hudi: ApacheHudi, path: Path) -> int:
    """The number of log files of table and metadata table, all of whose records were decoded."""
    files = [p for p in path.rglob(".*.log.*") if not p.name.endswith(".crc")]
    for file in files:
        blocks = hudi.ask("log", path=str(file))["blocks"]
        assert blocks and "CORRUPT_BLOCK" not in {block["type"] for block in blocks}, file
        for block in blocks:
            is_first = block["header"]["INSTANT_TIME"].startswith("0000")  # empty by design
            assert block.get("records") or block.get("deletes") or "command" in block or is_first
    return len(files)


def decoded_hfiles(hudi: ApacheHudi, path: Path) -> int:
    """The number of HFiles, all of whose cells were decoded as Avro records."""
    files = [p for p in path.rglob("*.hfile") if not p.name.startswith(".")]
    for file in files:
        found = hudi.ask("hfile", path=str(file), avro=True)
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
DEFINED = {
    "indexName": "column_stats", "indexType": "column_stats", "indexFunction": "column_stats",
    "sourceFields": [*SCHEMA.names[:9], "addr.city"], "indexOptions": {}, "version": "V1",
}  # fmt: skip


def define_column_statistics(path: Path) -> None:
    """Add what 1.2.0 asks for before it uses column statistics: 1.x writes it, pyhudi does not."""
    folder = path / ".hoodie" / ".index_defs"
    folder.mkdir()
    (folder / "index.json").write_text(json.dumps({"indexDefinitions": {"column_stats": DEFINED}}))
    properties = path / ".hoodie" / "hoodie.properties"
    stored = properties.read_text()
    properties.write_text(f"{stored}hoodie.table.index.defs.path=.hoodie/.index_defs/index.json\n")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_apache_hudi_filters_by_our_column_statistics(
    tmp_path: Path, kind: str, hudis: list[ApacheHudi]
) -> None:
    """Equal rows with data skipping on and off, and fewer files opened with it."""
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        options={**INDEXED, "hoodie.parquet.small.file.limit": "0"},
    )  # fmt: skip
    everything = rows(range(120), 1).sort_by("qty")
    for first in range(0, 120, 20):
        table.bulk_insert(everything.slice(first, 20))
    table.upsert(rows(range(10), 2))
    for hudi in hudis:
        if hudi.version == "1.2.0":
            define_column_statistics(path)
        fewer = set()
        for where in FILTERS:
            plain = scanned(hudi, path, where, {**SKIPPING, "hoodie.enable.data.skipping": "false"})
            pruned = scanned(hudi, path, where, SKIPPING)
            assert pruned["rows"] == plain["rows"] > 0, where
            if pruned["files"] < plain["files"]:
                fewer.add(where)
        if (kind, hudi.version) != ("mor", "0.15.0"):  # which does not count these files
            assert fewer >= PRUNED, hudi.version


def scanned(hudi: ApacheHudi, path: Path, where: str, conf: dict[str, str]) -> dict[str, Any]:
    return hudi.ask("scanned", path=str(path), where=where, conf=conf)


def test_apache_hudi_finds_keys_by_our_bloom_filters(
    tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    """A filter without one of its keys would leave two rows of the key."""
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="cow",
        index="bloom", options={**INDEXED, "hoodie.parquet.small.file.limit": "0"},
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
        hudi.ask("write", path=str(path), rows=str(file), operation="upsert", conf=stated)
        found = pyhudi.open_table(path).scan(["id", "ts"]).to_arrow()
        assert len(found) == len(set(found["id"].to_pylist())) == 81 + turn
        mine = found.filter(pc.is_in(found["id"], batch["id"]))
        assert mine.filter(pc.equal(mine["ts"], turn + 2)).num_rows == len(batch) - 1
