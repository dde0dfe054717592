"""Values of partition columns from partition paths, and selection of matching partitions.

Simple and complex key generators write a field's value into one level of the path, so readers
take it from there; timestamp and custom ones format it, so readers take the stored value.
Source: table_format 5.7, 7.10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.arrays import exact_cast
from pyhudi.read.predicate import Predicate
from pyhudi.records import DEFAULT_PARTITION
from pyhudi.table.properties import KeyGeneratorKind, TableConfig

_NUMBER: Final = re.compile(r"-?\d+")
_FROM_PATH: Final = frozenset({KeyGeneratorKind.SIMPLE, KeyGeneratorKind.COMPLEX})


def partition_values(
    config: TableConfig, schema: pa.Schema, partition: str
) -> dict[str, pa.Scalar]:
    """Values of the partition columns that the path contains, each of its column's type.

    A column is absent where the path does not contain its value: other key generators (unless the
    table stores no partition columns), a path that does not split into the fields, text that is
    not a value of the column's type.
    """
    fields = config.partition_fields
    is_in_path = config.key_generator in _FROM_PATH or config.drops_partition_columns
    if not fields or not is_in_path:
        return {}
    levels = [partition] if len(fields) == 1 else partition.split("/")
    if len(levels) != len(fields):
        return {}
    values = {}
    for name, level in zip(fields, levels, strict=True):
        index = schema.get_field_index(name)
        if index >= 0:
            value = _value(_text(level, name, config), schema.field(index).type)
            if value is not None:
                values[name] = value
    return values


def _text(level: str, name: str, config: TableConfig) -> str | None:
    """The text in one level of a path; None for the default partition."""
    text = level.removeprefix(f"{name}=") if config.hive_style else level
    if text == DEFAULT_PARTITION:
        return None
    if config.has_slashes and len(config.partition_fields) == 1:
        text = text.replace("/", "-")
    return unquote(text) if config.url_encoded else text


def _value(text: str | None, data_type: pa.DataType) -> pa.Scalar | None:
    if text is None:
        return pa.scalar(None, data_type)
    try:
        if pt.is_timestamp(data_type):
            return _moment(text, data_type)
        return exact_cast(pa.scalar(text, pa.string()), data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return None


def _moment(text: str, data_type: pa.TimestampType) -> pa.Scalar:
    """A timestamp in a path: the number that Java writes, or a date and time as Spark SQL writes
    them, escaped (`2024-01-05 18%3A00%3A00`), in UTC."""
    plain = pa.scalar(unquote(text), pa.string())
    if _NUMBER.fullmatch(text):
        return plain.cast(pa.int64()).cast(data_type)
    local = plain.cast(pa.timestamp("us"))
    return (local if data_type.tz is None else pc.assume_timezone(local, "UTC")).cast(data_type)


def matching(
    values: Sequence[Mapping[str, pa.Scalar]], schema: pa.Schema, where: Predicate
) -> list[bool]:
    """For each partition, whether a row of these values can satisfy `where`.  Reads nothing.

    schema: the columns `where` may name.  Arrow simplifies the filter with what a partition
    guarantees; undecided partitions count as matches.
    """
    import pyarrow.dataset as ds  # slow to import

    file_format = ds.ParquetFileFormat()
    nowhere = pa.fs.LocalFileSystem()
    fragments = [
        file_format.make_fragment(str(index), nowhere, partition_expression=guarantee(known))
        for index, known in enumerate(values)
    ]
    dataset = ds.FileSystemDataset(fragments, schema, file_format, nowhere)
    try:
        matched = {int(fragment.path) for fragment in dataset.get_fragments(filter=where.arrow)}
    except pa.ArrowException:  # it has no result for a value; that is an error only for a row
        return [True] * len(values)
    return [index in matched for index in range(len(values))]


def guarantee(values: Mapping[str, pa.Scalar]) -> pc.Expression:
    """An expression that is true for every row of a partition.

    It says nothing of floating zeros (`is_zero`): Arrow decides partitions with equal guarantees
    together, and the two zeros are equal there, but not in a list of values.
    """
    result = pc.scalar(True)
    for name, value in values.items():
        if is_zero(value):
            continue
        field = pc.field(name)
        result = result & (field == value if value.is_valid else field.is_null())
    return result


def is_zero(value: pa.Scalar) -> bool:
    """Whether it is a floating zero, of either sign."""
    return bool(pt.is_floating(value.type) and value.as_py() == 0)
