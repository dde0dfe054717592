"""Indexes outside the table built out of its keys, from the lock to the report."""

from __future__ import annotations

import time
from dataclasses import replace

from pyhudi.engine import Engine
from pyhudi.flows.indexcare import scratch
from pyhudi.flows.upkeep import alone
from pyhudi.metadata.hashes import KeyHash
from pyhudi.options import IndexKind, Options
from pyhudi.pipeline import check_table
from pyhudi.read.state import TableState, load_state
from pyhudi.services import hbase, rocks
from pyhudi.services.index_rebuild import Tell, gather_keys, plan_build
from pyhudi.services.index_report import IndexRebuild
from pyhudi.storage.filesystem import FileSystem


def rebuild_store_plan(
    state: TableState, options: Options, kind: IndexKind, buckets: int | None
) -> IndexRebuild:
    """What `rebuild_store` would do now; nothing changes."""
    if kind is IndexKind.HBASE:
        return IndexRebuild(0, 0, len(state.view().latest_slices()), 0, dry_run=True)
    before = rocks.bucket_count_of(state, options.write.index_rules.rocksdb)
    count = buckets or before
    plan = plan_build(state, KeyHash(count))
    return IndexRebuild(count, before, len(plan.groups), len(plan.kept), dry_run=True)


def rebuild_store(
    fs: FileSystem,
    options: Options,
    engine: Engine,
    kind: IndexKind,
    buckets: int | None,
    tell: Tell,
) -> IndexRebuild:
    """Build the index anew.  RocksDB: as the record index, keys are put aside without the lock,
    and a build that was killed goes on where it stopped.  HBase: an entry is put for each key;
    rows of keys that the table does not have stay, and are believed no more if they name a file
    group that is gone."""
    began = time.monotonic()
    check_table(load_state(fs, options.read).config)
    if kind is IndexKind.HBASE:
        with alone(fs, options, "rebuild index") as state:
            store = hbase.open_hbase(state, options.write.index_rules.hbase, engine)
            entries = hbase.put_groups(state, store, None)
            slices = len(state.view().latest_slices())
        return IndexRebuild(0, 0, slices, 0, entries, seconds=_since(began))
    rules = options.write.index_rules.rocksdb
    seen = load_state(fs, options.read)
    before = rocks.bucket_count_of(seen, rules)
    count = buckets or before
    first = plan_build(seen, KeyHash(count))
    gather_keys(first, engine, tell)
    with alone(fs, options, "rebuild index") as state, scratch(fs, engine) as staging:
        opening = rocks.Opening(rules, staging, count, publishes=True, tell=tell)
        built = rocks.build_rocks(state, engine, opening)
    written = sum(table.size_bytes for bucket in built.buckets for table in bucket.tables)
    report = IndexRebuild(count, before, len(first.groups), len(first.kept), bytes_written=written)
    return replace(report, seconds=_since(began))


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)
