"""Look-ups in the record index as of earlier instants, after compactions and archival."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("city", pa.string())])
GROUPS = "hoodie.metadata.record.index.{}.filegroup.count"


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 24))]
)
def test_keys_are_found_where_they_were_at_each_instant(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    options = {
        "hoodie.metadata.record.index.enable": True,
        GROUPS.format("min"): 2,
        GROUPS.format("max"): 2,
        "hoodie.metadata.compact.max.delta.commits": pick.choice([2, 3, 5, 8]),
        "hoodie.clean.commits.retained": 6,
        "hoodie.keep.min.commits": 7,
        "hoodie.keep.max.commits": 8,
        "hoodie.record.index.update.partition.path": True,
    }
    pyhudi.create_table(
        tmp_path, SCHEMA, record_key="id", partition_by="city", options=options,
        version=[6, 9, 8][seed % 3], table_type=pick.choice(["COPY_ON_WRITE", "MERGE_ON_READ"]),
    )  # fmt: skip
    rows: dict[str, str] = {}
    at: dict[str, dict[str, str]] = {}
    read = expired = 0
    for n in range(20):
        if rows and pick.random() < 0.3:
            gone = pick.sample(sorted(rows), pick.randint(1, len(rows)))
            pyhudi.open_table(tmp_path, options=options).delete(keys=gone)
            rows = {key: city for key, city in rows.items() if key not in gone}
        else:
            new = {f"k{pick.randrange(30)}": pick.choice(["sf", "la"]) for _ in range(4)}
            batch = pa.table([list(new), [n] * len(new), list(new.values())], schema=SCHEMA)
            pyhudi.open_table(tmp_path, options=options).upsert(batch)
            rows |= new
        table = pyhudi.open_table(tmp_path, options=options)
        at[table.timeline.commits.instants[-1].time] = dict(rows)
        keys = [f"k{number}" for number in range(30)]
        for commit in table.timeline.commits:
            if commit.time not in at:
                continue
            try:
                found = table.index.lookup(keys, as_of=commit.time).to_pylist()
            except pyhudi.SnapshotExpiredError:
                expired += 1
                continue
            read += 1
            places = {row["record_key"]: row["partition_path"] for row in found if row["found"]}
            assert places == at[commit.time], f"after write {n}, as of {commit.time}"
    assert read > 2 * expired
