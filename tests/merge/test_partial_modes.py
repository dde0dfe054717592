"""Merging at version 9: pairs of records of each merge mode, as Apache Hudi 1.2.0 merged them.

The golden text has one line a pair: the mode, the older and the newer record (`ordering value,
text, number, mark`), and what was read of a copy-on-write and of a merge-on-read table, without and
with an earlier record of the key, before and after a compaction; and of a batch with both records.
A record without its mark: `-` null, `T` the marker of unavailable values; `.`: no record.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.errors import UnsupportedTableError
from pyhudi.merge.combine_batch import greatest_rows, merged_rows, newest_rows
from pyhudi.merge.merge_rules import MergeRules, delete_mask, merge_rules
from pyhudi.merge.resolve_updates import outcome, resolve_updates
from pyhudi.merge.slice_merge import Deletes, LogEntries, merge
from pyhudi.options import IndexKind, parse_options
from pyhudi.records import RECORD_KEY
from pyhudi.table.properties import TableConfig, TableType
from pyhudi.write.table_creation import NewTable, config_of

GOLDEN = Path(__file__).parents[1] / "golden" / "merging" / "apache_hudi_1.2.0.tsv"
TOAST = "__debezium_unavailable_value"
SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("_event_lsn", pa.int64()), ("v", pa.string()), ("n", pa.int64()),
        ("Op", pa.string()), ("_change_operation_type", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)  # fmt: skip
PAYLOAD = "hoodie.datasource.write.payload.class"
MODES = {
    "event": {},
    "commit": {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
    "event_ignore": {PAYLOAD: "PartialUpdateAvroPayload"},
    "commit_ignore": {PAYLOAD: "OverwriteNonDefaultsWithLatestAvroPayload"},
    "event_fill": {PAYLOAD: "PostgresDebeziumAvroPayload"},
    "commit_dms": {PAYLOAD: "AWSDmsAvroPayload"},
}
COLUMNS = [RECORD_KEY, "_event_lsn", "v", "n"]
BASE = "1 base 0"


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of the golden text.  older: "key" for a delete by key of the record "7 base 0"."""

    mode: str
    older: str
    newer: str
    cow: str
    cow_on_base: str
    mor: str
    mor_on_base: str
    batch_on_base: str


def pairs() -> Iterator[Pair]:
    with GOLDEN.open() as lines:
        yield from (Pair(**line) for line in csv.DictReader(lines, delimiter="\t"))


PAIRS = list(pairs())
MARKED = [pair for pair in PAIRS if pair.older != "key"]


def rules_of(mode: str) -> MergeRules:
    options = parse_options(MODES[mode])
    options = replace(options, table=replace(options.table, version=9))
    index, kind = IndexKind.BLOOM, TableType.MERGE_ON_READ
    ordering = ("_event_lsn",)
    return merge_rules(
        config_of(NewTable(SCHEMA, "t", kind, ("id",), (), ordering, options, index))
    )


def test_defaults_other_than_null_are_refused_by_name() -> None:
    fields = [{"name": "n", "type": "long", "default": 3}, {"name": "v", "type": "string"}]
    config = TableConfig(
        {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            "hoodie.table.create.schema": json.dumps({"type": "record", "fields": fields}),
        }
    )
    with pytest.raises(UnsupportedTableError, match=r"defaults.*: n"):
        merge_rules(config).check()


RULES = {mode: rules_of(mode) for mode in MODES}


def rows_of(*records: str) -> pa.Table:
    """The records as rows of one key."""
    rows = []
    for record in records:
        lsn, v, n, *mark = record.split(" ")
        what = mark[0] if mark else ""
        rows.append(
            {
                "id": "k", "_event_lsn": int(lsn), "v": {"-": None, "T": TOAST}.get(v, v),
                "n": None if n == "-" else int(n),
                "Op": {"op": "D", "OP": "d"}.get(what, "U"),
                "_change_operation_type": {"op": "d", "OP": "D"}.get(what, "u"),
                "_hoodie_is_deleted": what == "is",
            }
        )  # fmt: skip
    table = pa.Table.from_pylist(rows, SCHEMA)
    return table.append_column(RECORD_KEY, table.column("id"))


def text_of(rows: pa.Table) -> str:
    found = rows.select(COLUMNS).to_pylist()
    assert len(found) <= 1
    if not found:
        return "."
    values = [found[0][name] for name in COLUMNS[1:]]
    return " ".join({None: "-", TOAST: "T"}.get(value, str(value)) for value in values)


def is_delete(rows: pa.Table, rules: MergeRules) -> bool:
    mask = delete_mask(rows, rules.marks)
    return mask is not None and bool(mask[0])


def upserted(stored: pa.Table, incoming: pa.Table, rules: MergeRules) -> pa.Table:
    """What a copy-on-write table stores after an upsert."""
    puts = np.array([not is_delete(incoming, rules)] * incoming.num_rows)
    decision = resolve_updates(stored, incoming, puts, rules, natural_deletes=False)
    written = outcome(stored, incoming, decision, rules)
    return pa.concat_tables([stored.filter(pa.array(decision.keep)), written])


def logged(record: str, rules: MergeRules) -> LogEntries:
    """As Apache Hudi logs it: deletes with their ordering value in a delete block."""
    rows = rows_of(record)
    if not is_delete(rows, rules):
        return rows
    ordering = rows.column("_event_lsn").combine_chunks() if rules.is_event_time else None
    return Deletes(pa.array(["k"]), ordering)


def stored_first(record: str, rules: MergeRules) -> pa.Table:
    return upserted(rows_of(record).slice(0, 0), rows_of(record), rules)


@pytest.mark.parametrize("mode", MODES)
def test_an_upsert_of_a_copy_on_write_table_merges_as_apache_hudi(mode: str) -> None:
    rules = RULES[mode]
    for pair in MARKED:
        if pair.mode == mode:
            alone = upserted(stored_first(pair.older, rules), rows_of(pair.newer), rules)
            assert text_of(alone) == pair.cow, pair
            stored = upserted(stored_first(BASE, rules), rows_of(pair.older), rules)
            assert text_of(upserted(stored, rows_of(pair.newer), rules)) == pair.cow_on_base, pair


@pytest.mark.parametrize("mode", MODES)
def test_a_slice_with_logs_is_merged_as_apache_hudi_reads_and_compacts_it(mode: str) -> None:
    rules = RULES[mode]
    for pair in MARKED:
        if pair.mode == mode:
            entry, stored = logged(pair.newer, rules), stored_first(pair.older, rules)
            assert text_of(merge(stored, [entry], rules, columns=COLUMNS)) == pair.mor, pair
            log = [logged(pair.older, rules), entry]
            merged = merge(rows_of(BASE), log, rules, columns=COLUMNS)
            assert text_of(merged) == pair.mor_on_base, pair


@pytest.mark.parametrize("mode", MODES)
def test_a_row_logged_after_a_delete_by_key_is_read_as_apache_hudi_reads_it(mode: str) -> None:
    """But for an older row without partial updates, where Apache Hudi brings back the deleted
    record of the base file (docs/compatibility.md)."""
    rules, found = RULES[mode], 0
    for pair in PAIRS:
        if pair.mode == mode and pair.older == "key":
            log = [Deletes(pa.array(["k"])), logged(pair.newer, rules)]
            merged = text_of(merge(rows_of("7 base 0"), log, rules, columns=COLUMNS))
            revived = mode == "event" and pair.newer.startswith("5 ")
            assert merged == (pair.cow_on_base if revived else pair.mor_on_base), pair
            found += 1
    assert found == 5


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_combined_before_it_is_merged(mode: str) -> None:
    rules = RULES[mode]
    for pair in MARKED:
        if pair.mode == mode:
            both = rows_of(pair.older, pair.newer)
            if rules.picks:
                keys = both.column(RECORD_KEY)
                at = greatest_rows(keys, both, rules) if rules.ordering else newest_rows(keys)
                batch = both.take(pa.array(at))
            else:
                merged = merged_rows(np.zeros(2, np.int64), both, rules)
                batch = pa.concat_tables([merged.rows, both.take(pa.array(merged.removed))])
            found = text_of(upserted(stored_first(BASE, rules), batch, rules))
            assert found == pair.batch_on_base, pair
