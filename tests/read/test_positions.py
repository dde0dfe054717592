"""Slices whose log blocks have positions in the base file: merged without record keys, with the
result of a merge by key."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import pyhudi
from pyhudi.api.option_consistency import with_merge
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError, UserError
from pyhudi.formats.log_block import data_block
from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock, read_blocks, write_block
from pyhudi.formats.record_positions import RecordPositions, read_positions, refers_to
from pyhudi.merge.merge_cache import OUTCOMES
from pyhudi.operations.create import NewTable, create
from pyhudi.options import IndexKind, parse_options
from pyhudi.records import RECORD_KEY
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from tests.support.merge_model import RULES, SCHEMA, Rule
from tests.support.positioned import add_positions

KEYS = "abcdefgh"


def small_rows() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "id": st.sampled_from(KEYS),
            "ts": st.integers(0, 5),
            "lsn": st.integers(0, 2),
            "_event_lsn": st.integers(0, 5),
            "_event_seq": st.builds("{}.{}".format, st.integers(8, 11), st.integers(8, 11)),
            "_change_operation_type": st.sampled_from([None, "u", "d"]),
            "Op": st.sampled_from([None, "U", "D"]),
            "name": st.sampled_from([None, "x", "y"]),
            "price": st.none() | st.sampled_from([1.0, 2.5]),
            "tags": st.none() | st.lists(st.sampled_from("pq"), max_size=2),
            "addr": st.sampled_from([None, {"city": "k", "zip": None}]),
            "_hoodie_is_deleted": st.sampled_from([None, False, False, True]),
        }
    )


STEPS = st.lists(
    st.lists(small_rows(), min_size=1, max_size=6)
    | st.lists(st.sampled_from(KEYS), min_size=1, max_size=2),
    min_size=1,
    max_size=5,
)
READS: list[dict[str, Any]] = [
    {},
    {"columns": ["price"]},
    {"columns": ["name", "ts"], "where": pc.field("ts") > 2},
    {"columns": ["ts"], "where": pc.field("id") == "b"},
    {"columns": [RECORD_KEY, "tags"]},
]


def made(rule: Rule, log_format: str, index: IndexKind) -> Table:
    fs = MemoryFileSystem()
    options = {**rule.table_options, "hoodie.logfile.data.block.format": log_format,
               "hoodie.metadata.enable": "false"}  # fmt: skip
    if rule is RULES["debezium mysql"]:  # version 9 prescribes other ordering columns
        options["hoodie.write.table.version"] = "8"
    parsed = with_merge(parse_options(options), rule.function)
    create(fs, NewTable(SCHEMA, "t", TableType.MERGE_ON_READ, ("id",), (), rule.ordering, parsed,
                        index))  # fmt: skip
    return Table(fs, options=parsed, engine=LocalEngine(1))


def filled(rule: Rule, log_format: str, steps: list[list[Any]]) -> Table:
    """A table with most keys in its base file, of several row groups, then each step in logs."""
    table = made(rule, log_format, IndexKind.BLOOM)
    first: dict[str, Any] = {"ts": 2, "lsn": 1, "_event_lsn": 2, "_event_seq": "9.9"}
    rows = [{**first, "id": key, "name": f"base {key}"} for key in KEYS[:-1]]
    table.insert(pa.Table.from_pylist(rows, SCHEMA))
    _rewrite_base(table._state().fs, lambda rows: rows)
    for step in steps:
        if isinstance(step[0], str):
            table.delete(keys=step)
        else:
            table.upsert(pa.Table.from_pylist(step, SCHEMA))
    return table


def reads(table: Table) -> list[pa.Table]:
    found = []
    for how in READS:
        OUTCOMES.clear()
        found.append(table.scan(**how).to_arrow())
    found.append(table.scan(columns=["price"]).to_arrow())
    return found


@pytest.mark.parametrize("name", RULES)
@given(steps=STEPS, log_format=st.sampled_from(["parquet", "avro"]))
@settings(max_examples=8, deadline=None)
def test_a_merge_by_position_equals_a_merge_by_key(
    name: str, steps: list[list[Any]], log_format: str
) -> None:
    by_key = filled(RULES[name], log_format, steps)
    original = MemoryFileSystem(by_key._state().fs.store.copy())  # type: ignore[attr-defined]
    rule = RULES[name]
    again = Table(
        original,
        options=with_merge(parse_options(rule.table_options), rule.function),
        engine=LocalEngine(1),
    )
    add_positions(by_key, instant="20200101000000000")  # of another file: records in new order
    add_positions(again)
    for want, found in zip(reads(by_key), reads(again), strict=True):
        assert found.equals(want)


def with_updates(log_format: str = "parquet") -> tuple[Table, MemoryFileSystem]:
    table = filled(RULES["event time"], log_format, [])
    for number, ids in enumerate(["abc", "cde", "b"]):
        rows = [{"id": key, "ts": 9 - number * 3, "name": f"new {number}"} for key in ids]
        table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    table.delete(keys=["e"])
    fs = table._state().fs
    assert isinstance(fs, MemoryFileSystem)
    return table, fs


def names(table: Table) -> list[str | None]:
    OUTCOMES.clear()
    return sorted(table.scan(columns=["name"]).to_arrow().column("name").to_pylist())


WANT = ["base f", "base g", "new 0", "new 0", "new 0", "new 1"]


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_the_keys_of_the_base_file_are_not_looked_at(log_format: str) -> None:
    """With other keys in the base file a merge by key would find none of them."""
    table, fs = with_updates(log_format)
    assert names(table) == WANT
    assert add_positions(table) == 4
    _rename_keys(fs)
    assert names(table) == WANT


def test_positions_in_another_base_file_are_not_used() -> None:
    table, fs = with_updates()
    add_positions(table, instant="20200101000000000")
    assert names(table) == WANT
    _rename_keys(fs)
    assert len(names(table)) > len(WANT)


def _rename_keys(fs: MemoryFileSystem) -> None:
    def renamed(rows: pa.Table) -> pa.Table:
        others = pa.array([f"other {number}" for number in range(rows.num_rows)])
        at = rows.schema.get_field_index(RECORD_KEY)
        return rows.set_column(at, rows.schema.field(at), others)

    _rewrite_base(fs, renamed)


def _rewrite_base(fs: Any, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite the only base file, in row groups of three rows."""
    (path,) = [p for p in fs.store.files if p.endswith(".parquet") and ".hoodie" not in p]
    rows = change(pq.read_table(pa.BufferReader(fs.read(path))))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema) as writer:
        writer.write_table(rows, row_group_size=3)
        writer.add_key_value_metadata(pq.read_metadata(pa.BufferReader(fs.read(path))).metadata)
    fs.replace(path, sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    "damaged",
    ["not base64!", "AAAA", base64.b64encode(b"\1" * 40).decode(),
     "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA",  # one row
     "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAIAEAAAAAoACwAMAA=="],  # rows 10 to 12
)  # fmt: skip
def test_damaged_positions_are_merged_by_key(damaged: str) -> None:
    table, fs = with_updates()
    add_positions(table)
    logs = [name for name in fs.store.files if ".log." in name and ".hoodie/" not in name]
    data = fs.read(logs[0])
    (block,) = read_blocks(fs.open(logs[0]), path=logs[0])
    header = {HeaderKey(key): text for key, text in block.header.items()}
    header[HeaderKey.RECORD_POSITIONS] = damaged
    content = data[block.content_offset : block.content_offset + block.content_length]
    fs.replace(logs[0], write_block(block.kind, header, content))
    assert names(table) == WANT


def test_a_block_has_one_position_for_each_record() -> None:
    rows = pa.table({"id": ["a", "b"]})
    schema = '{"type":"record","name":"r","fields":[{"name":"id","type":["null","string"]}]}'

    def block_with(positions: list[int]) -> LogBlock:
        placed = RecordPositions("7", np.array(positions))
        data = data_block(
            rows, kind=BlockKind.AVRO, instant="8", avro_schema=schema, positions=placed
        )
        fs = MemoryFileSystem()
        fs.create("x", data)
        return read_blocks(fs.open("x"), path="x")[0]

    block = block_with([3, 70000])
    assert refers_to(block, "7") and not refers_to(block, "8")
    assert read_positions(block, count=2, path="x").tolist() == [3, 70000]
    for count in (1, 3):
        with pytest.raises(CorruptFileError):
            read_positions(block, count=count, path="x")
    with pytest.raises(UserError, match="one position for each record"):
        block_with([3])
    with pytest.raises(UserError, match="ascending"):
        block_with([4, 3])


def test_tables_of_apache_hudi_are_merged_by_their_positions(tmp_path: Any) -> None:
    """Every block of these tables that has positions names rows with the keys of its records."""
    from pyhudi.formats.base_file import read_base
    from pyhudi.formats.log_block import data_batches
    from tests.read.test_capture import unzipped

    found = 0
    for name in ("mor_partial_v8", "mor_partial_v9", "cdc_mor_v9_both", "arch_mor_v9"):
        root, _ = unzipped(name, tmp_path)
        state = pyhudi.open_table(root)._state()
        for slice_ in state.view().latest_slices():
            for log in slice_.logs:
                file = state.fs.open(log.path)
                for block in read_blocks(file, path=log.path):
                    if slice_.base is None or not refers_to(block, slice_.base.name.instant):
                        continue
                    keys = read_base(state.fs, slice_.base.path, columns=[RECORD_KEY]).column(0)
                    rows = data_batches(block, file, path=log.path).column(RECORD_KEY)
                    at = read_positions(block, count=len(rows), path=log.path)
                    assert keys.take(pa.array(at)).to_pylist() == rows.to_pylist()
                    found += 1
    assert found
