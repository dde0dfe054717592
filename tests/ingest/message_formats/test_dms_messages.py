"""Messages of AWS DMS become rows with the column Op."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa

from pyhudi.ingest import DmsFormat
from tests.ingest.message_formats.changes import dms_message

NO_COLUMNS = pa.schema([])


def decoded(values: list[Any], schema: pa.Schema = NO_COLUMNS) -> Any:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return DmsFormat().decoder(schema).decode(pa.array(texts, pa.binary()))


def test_operations_become_the_codes_of_files() -> None:
    values = [
        dms_message("load", {"id": 1, "n": 1}),
        dms_message("insert", {"id": 2, "n": None}),
        dms_message("update", {"id": 1, "n": 2, "city": "sf"}),
        dms_message("delete", {"id": 2}),
    ]
    found = decoded(values)
    assert found.rows.to_pylist() == [
        {"id": 1, "n": 1, "city": None, "Op": ""},
        {"id": 2, "n": None, "city": None, "Op": "I"},
        {"id": 1, "n": 2, "city": "sf", "Op": "U"},
        {"id": 2, "n": None, "city": None, "Op": "D"},
    ]
    assert found.places.tolist() == [0, 1, 2, 3]
    assert not found.failures


def test_columns_of_the_table_type_the_data() -> None:
    schema = pa.schema([("id", pa.int32()), ("day", pa.date32()), ("Op", pa.string())])
    found = decoded([dms_message("insert", {"id": 1, "day": "2024-01-02"})], schema)
    assert found.rows.to_pylist() == [{"id": 1, "day": date(2024, 1, 2), "Op": "I"}]
    assert found.rows.schema.field("id").type == pa.int32()


def test_control_messages_have_no_row() -> None:
    control = {"metadata": {"record-type": "control", "operation": "create-table"}}
    found = decoded([control, dms_message("insert", {"id": 1})])
    assert found.places.tolist() == [1]
    assert not found.failures
    assert decoded([control]).rows.num_rows == 0


def test_messages_that_are_no_changes_fail_alone() -> None:
    good = dms_message("insert", {"id": 1})
    values: list[Any] = [
        good, b"{bad", {"id": 1}, dms_message("insert", None), dms_message("merge", {"id": 1}),
        {"data": 1, "metadata": good["metadata"]}, good,
    ]  # fmt: skip
    found = decoded(values)
    assert found.places.tolist() == [0, 6]
    reasons = {failure.place: failure.reason for failure in found.failures}
    assert list(reasons) == [1, 2, 3, 4, 5]
    assert reasons[3] == "the message has no data"
    assert "'merge'" in reasons[4]
