"""A function makes columns of messages; messages that it cannot read fail alone."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.errors import SchemaError
from pyhudi.ingest import BytesFormat
from pyhudi.ingest.message_formats.bytes_messages import BytesFunction
from pyhudi.ingest.message_formats.message_format import DecodedMessages


def numbers(messages: pa.Array) -> pa.Table:
    texts = messages.cast(pa.string())
    return pa.table({"n": pc.if_else(pc.equal(texts, ""), None, texts).cast(pa.int64())})


def first_only(messages: pa.Array) -> pa.Table:
    return pa.table({"n": messages.slice(0, 1)})


def column_of_each(messages: pa.Array) -> pa.Table:
    if len(messages) > 1:
        raise ValueError("one by one")
    return pa.table({messages[0].as_py().decode(): [1]})


def types_of_each(messages: pa.Array) -> pa.Table:
    if len(messages) > 1:
        raise ValueError("one by one")
    return pa.table({"n": [1] if messages[0] == pa.scalar(b"n") else ["text"]})


def decoded(function: BytesFunction, values: list[bytes]) -> DecodedMessages:
    form = pickle.loads(pickle.dumps(BytesFormat(function)))
    return form.decoder(pa.schema([])).decode(pa.array(values, pa.binary()))


def test_messages_are_read_at_once_and_bad_ones_fail_alone() -> None:
    found = decoded(numbers, [b"1", b"", b"x", b"4", b"\xff", b"6"])
    assert found.rows.to_pydict() == {"n": [1, None, 4, 6]}
    assert found.places.tolist() == [0, 1, 3, 5]
    assert [failure.place for failure in found.failures] == [2, 4]
    assert all(failure.reason for failure in found.failures)


def test_only_bad_messages_are_all_failures() -> None:
    found = decoded(numbers, [b"x"])
    assert found.rows.num_rows == 0
    assert [failure.place for failure in found.failures] == [0]


def test_columns_that_some_messages_lack_are_null() -> None:
    found = decoded(column_of_each, [b"a", b"b"])
    assert found.rows.to_pydict() == {"a": [1, None], "b": [None, 1]}


def test_a_value_that_is_not_of_its_columns_type_fails_alone() -> None:
    found = decoded(types_of_each, [b"n", b"2", b"n"])
    assert found.rows.to_pydict() == {"n": [1, 1]}
    assert found.places.tolist() == [0, 2]
    assert [failure.place for failure in found.failures] == [1]


def test_a_function_that_breaks_its_contract_is_an_error() -> None:
    with pytest.raises(SchemaError, match="number of rows"):
        decoded(first_only, [b"n", b"2"])
