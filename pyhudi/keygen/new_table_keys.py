"""Key generator of a new table: from the caller's arguments to table properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyhudi.errors import OptionError, UserError
from pyhudi.keygen.generators import PythonKeys
from pyhudi.keygen.key_generator_config import timestamp_properties, typed_partitions
from pyhudi.options import Options, TimestampSettings
from pyhudi.table.new_table import PATH_FIELDS
from pyhudi.table.properties import KeyGeneratorKind, implied_key_generator

_KIND: Final = "hoodie.datasource.write.keygenerator.type"


@dataclass(frozen=True, slots=True)
class TimestampPartition:
    """A partition level made from a timestamp column by the timestamp key generator.

    type: EPOCHMILLISECONDS, EPOCHMICROSECONDS, UNIX_TIMESTAMP (seconds) or SCALAR (numbers of
    `scalar_unit`) for columns of numbers, dates and timestamps, read as the stored number;
    DATE_STRING or MIXED for strings in one of the `input` formats.
    output, input: patterns such as `yyyy/MM/dd` (Joda's, as Apache Hudi reads them).
    timezone: of both; None: UTC.
    """

    column: str
    type: str = "EPOCHMILLISECONDS"
    output: str = "yyyy/MM/dd"
    input: str | Sequence[str] | None = None
    timezone: str | None = None
    input_timezone: str | None = None
    output_timezone: str | None = None
    scalar_unit: str | None = None

    def settings(self) -> TimestampSettings:
        """The settings of the timestamp key generator, without the column."""
        texts = [self.input] if isinstance(self.input, str) else list(self.input or ())
        return TimestampSettings(
            self.type.upper(),
            ",".join(texts) or None,
            ",",
            self.output,
            self.scalar_unit and self.scalar_unit.upper(),
            self.timezone,
            self.input_timezone,
            self.output_timezone,
        )


PartitionBy = str | TimestampPartition | PythonKeys | Sequence[str | TimestampPartition] | None


@dataclass(frozen=True, slots=True)
class NewKeys:
    """A new table's key generator: its kind, partition columns without types, other properties."""

    kind: KeyGeneratorKind
    partition_fields: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


def partitioned(options: Options, by: PartitionBy) -> tuple[tuple[str, ...], Options]:
    """Partition fields as text (`city`, `day:TIMESTAMP`), and the options with the format of times.

    Raises UserError where timestamp columns have different formats: Apache Hudi stores one.
    """
    if isinstance(by, PythonKeys):
        return by.columns, options
    parts = _parts(by)
    formats = {part.settings() for part in parts if isinstance(part, TimestampPartition)}
    if not formats:
        return tuple(str(part) for part in parts), options
    if len(formats) > 1:
        raise UserError(
            "all timestamp partition columns must have the same format", formats=len(formats)
        )
    options = replace(options, keygen=formats.pop())
    if len(parts) == 1 and isinstance(parts[0], TimestampPartition):
        request = replace(options.request, key_generator=KeyGeneratorKind.TIMESTAMP.value)
        return (parts[0].column,), replace(options, request=request)
    names = tuple(part if isinstance(part, str) else f"{part.column}:TIMESTAMP" for part in parts)
    return names, options


def _parts(by: object) -> tuple[str | TimestampPartition, ...]:
    """The levels of partition paths.  Raises UserError for an invalid level."""
    if by is None or isinstance(by, str | TimestampPartition):
        return () if not by else (by,)
    if isinstance(by, Iterable) and not isinstance(by, bytes | Mapping):
        given = tuple(by)
    else:
        given = (by,)
    parts = tuple(part for part in given if isinstance(part, str | TimestampPartition))
    if len(parts) < len(given):
        raise UserError(
            "partition columns must be given by name",
            given=repr(by)[:80],
            hint='pass "city", ["city", "day"] or TimestampPartition objects',
        )
    return parts


def new_keys(
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    *,
    options: Options,
    functions: PythonKeys | None = None,
) -> NewKeys:
    """The key generator of a new table.  Raises OptionError where it does not support the fields.

    partition_by: columns, with their types for the custom key generator (`city:SIMPLE`).
    """
    types = typed_partitions(partition_by)
    fields = tuple(types)
    if functions is not None:
        return NewKeys(KeyGeneratorKind.USER_PROVIDED, fields)
    typed = any(":" in name for name in partition_by)
    kind = KeyGeneratorKind.CUSTOM if typed else implied_key_generator(record_key, fields)
    if options.request.key_generator is not None:
        kind = KeyGeneratorKind[options.request.key_generator]
    _check(kind, record_key, partition_by, typed=typed)
    properties = {}
    if kind is KeyGeneratorKind.CUSTOM:
        typed_names = (f"{n}:{'TIMESTAMP' if time else 'SIMPLE'}" for n, time in types.items())
        properties[PATH_FIELDS] = ",".join(typed_names)
    if kind is KeyGeneratorKind.TIMESTAMP or any(types.values()):
        properties |= timestamp_properties(options.keygen)
    return NewKeys(kind, fields, properties)


def _check(
    kind: KeyGeneratorKind, keys: tuple[str, ...], partitions: tuple[str, ...], *, typed: bool
) -> None:
    problem = None
    match kind:
        case KeyGeneratorKind.SIMPLE if (len(keys), len(partitions)) != (1, 1):
            problem = "it requires one key column and one partition column"
        case KeyGeneratorKind.TIMESTAMP if (len(keys), len(partitions)) != (1, 1):
            problem = "it requires one key column and one partition column"
        case KeyGeneratorKind.NON_PARTITION if partitions:
            problem = "it does not support partition columns"
        case KeyGeneratorKind.CUSTOM if partitions and not typed:
            problem = "it requires partition columns with their types, as in `city:SIMPLE`"
        case KeyGeneratorKind.GLOBAL_DELETE:
            problem = "it only supports deletes; `delete` already searches every partition"
    if typed and kind is not KeyGeneratorKind.CUSTOM:
        problem = "only the custom key generator supports types of partition columns"
    if problem:
        raise OptionError(
            f"the {kind.value.lower()} key generator does not support the columns: {problem}",
            option=_KIND,
            value=kind.value,
            record_key=",".join(keys),
            partition_by=",".join(partitions),
        )
