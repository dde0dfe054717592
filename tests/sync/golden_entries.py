"""The stored entries of Apache Hudi's sync; makes them again.

python -m tests.sync.golden_entries thrift://127.0.0.1:9083 1.2.0

The metastore must be a Hive Metastore 3.1.3 on this machine.  The file has, for each case, one
set of entries for each sync, as `entries` gives them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyhudi
from pyhudi.storage.hive_thrift import connect
from pyhudi.sync.synchronize import newest_watermark
from tests.support.apache_hudi import ApacheHudi
from tests.support.inside import state_of
from tests.sync.cases import CASES, SYNC
from tests.sync.entries import entries

GOLDEN = Path(__file__).parent / "golden"
DIFFERENT = {
    "cow_days_default": "Apache Hudi fails: three levels are no value of one column",
    "cow_encoded_decoded": "Apache Hudi 1.2.0 ignores decode_partition in this tool",
}
"""Cases whose entries differ on purpose; docs/catalogs.md states why."""
DIFFERENT_0_15_0 = {
    "cow_days_default": {"/partition_keys/0": "the key has the type of the source column"},
    "cow_encoded_decoded": {"/partitions/": "decode_partition has no effect"},
    "cow_hive_one": {"/partitions/": "the name is part of the value: city=sf"},
    "cow_no_city_hive": {"/partitions/": "the name is part of the value: city=sf"},
    "cow_types_timestamps": {"/columns/15": "times without a zone remain bigint"},
    "mor_skip_suffix": dict.fromkeys(
        ("/formats/0", "/serde_parameters/hoodie.query.as.ro.table", "/partitions_like_table"),
        "the snapshot replaces the read-optimized entry",
    ),
}
"""What Apache Hudi 0.15.0 stores in another way than 1.2.0, by case and place in an entry."""


def schema_of_0_15_0(text: str) -> str:
    """The schema of Spark as 0.15.0 writes it: elements of lists are never null, values of maps
    are, and times without a zone are numbers."""
    return (
        text.replace('"timestamp_ntz"', '"long"')
        .replace('"containsNull":true', '"containsNull":false')
        .replace('"valueContainsNull":false', '"valueContainsNull":true')
    )


def where(table: pyhudi.Table) -> dict[str, str]:
    """The texts of one run, and the names that replace them."""
    mark = newest_watermark(state_of(table))
    assert mark is not None and mark.completed_at is not None
    found = {table.path: "{path}", mark.completed_at: "{completed}"}
    return {**found, mark.time: "{time}"}


def make(uri: str, version: str) -> dict[str, Any]:
    """The entries of every case that this release can sync."""
    host, _, port = uri.removeprefix("thrift://").partition(":")
    client, hudi = connect(host, int(port)), ApacheHudi(version)
    database, made = f"golden{int(time.time())}", {}
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            if version.startswith("0.") and case.create.get("version"):
                continue
            table, made[name] = case.build(Path(folder) / name), []
            options = {
                SYNC + "metastore.uris": uri, SYNC + "database": database, SYNC + "table": name,
                SYNC + "partition_fields": ",".join(table.config.partition_fields), **case.options,
            }  # fmt: skip
            for step in (None, *case.steps):
                if step is not None:
                    step(table)
                try:
                    hudi.call("hive_sync", path=table.path, conf=options)
                except AssertionError as failed:
                    print(f"{name}: {failed}", file=sys.stderr)
                made[name].append(entries(client, database, name, where(table)))
    hudi.close()
    client.close()
    return made


if __name__ == "__main__":
    uri, version = sys.argv[1:3]
    file = GOLDEN / f"apache_hudi_{version.replace('.', '_')}.json"
    text = json.dumps(make(uri, version), indent=1, sort_keys=True, ensure_ascii=False)
    file.write_text(text + "\n", "utf-8")
