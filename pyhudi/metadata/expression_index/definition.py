"""Definitions of expression indexes in `index.json`.

```
indexName      expr_index_<name>, the metadata partition
indexType      column_stats or bloom_filters
indexFunction  the function; sourceFields: its column
indexOptions   expr: the function; its other arguments; of filters also filtertype, numentries, fpp,
               maxentries
```

Source: writer_v8_v9 12; definitions written by Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from pyhudi._native.bloom import BloomFilter
from pyhudi.errors import UnsupportedTableError
from pyhudi.metadata.definitions import definitions_with_prefix
from pyhudi.metadata.expression_index.functions import Expression
from pyhudi.metadata.file_stats.value_types import has_ranges
from pyhudi.metadata.payloads import EXPRESSION_PREFIX, MetadataPartition, maintained_partitions
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig

_FUNCTION: Final = "expr"
_FILTER_OPTIONS: Final = ("filtertype", "fpp", "maxentries", "numentries")
_FILTER_KINDS: Final = ("SIMPLE", "DYNAMIC_V0")


class ExpressionKind(Enum):
    """What an index has of each file."""

    COLUMN_STATS = "column_stats"
    BLOOM_FILTERS = "bloom_filters"


@dataclass(frozen=True, slots=True)
class ExpressionIndex:
    """One expression index.  name: of its metadata partition, with EXPRESSION_PREFIX.

    version: of its definition, 1 or 2.  filter_options: of bloom filters, sorted by name.
    """

    name: str
    expression: Expression
    kind: ExpressionKind
    version: int
    filter_options: tuple[tuple[str, str], ...] = ()

    @property
    def column(self) -> str:
        return self.expression.column

    @property
    def partition(self) -> MetadataPartition:
        return maintained_partitions([self.name])[0]

    @property
    def is_ranged(self) -> bool:
        return self.kind is ExpressionKind.COLUMN_STATS

    def check(self) -> None:
        """Raise UnsupportedTableError for an index that cannot be maintained."""
        self.expression.check()
        if self.is_ranged and self.expression.function == "identity":
            raise UnsupportedTableError(
                "ranges of a column itself need no expression index",
                index=self.name,
                column=self.column,
                hint="use column statistics",
            )
        try:
            self.new_filter()
        except (ValueError, TypeError):
            raise UnsupportedTableError(
                "the options of a bloom filter are not supported",
                index=self.name,
                options=",".join("=".join(pair) for pair in self.filter_options),
            ) from None

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether a column of this type can have the index."""
        if not self.expression.accepts(kind):
            return False
        result = self.expression.result_type(kind)
        if self.is_ranged:
            return has_ranges(result, self.version)
        return bool(pa.types.is_string(result) or pa.types.is_integer(result))

    def new_filter(self) -> BloomFilter:
        """An empty filter of the index.  Raises ValueError for options without meaning."""
        given = dict(self.filter_options)
        kind = given.get("filtertype", "DYNAMIC_V0")
        if kind not in _FILTER_KINDS:
            raise ValueError(kind)
        entries = int(given.get("numentries", 60_000))
        return BloomFilter(
            entries,
            float(given.get("fpp", 1e-9)),
            kind=kind,
            entries_max=max(entries, int(given.get("maxentries", 100_000))),
        )

    def to_definition(self) -> dict[str, Any]:
        """The entry of `index.json`."""
        options = {**dict(self.expression.options), **dict(self.filter_options)}
        return {
            "indexName": self.name,
            "indexType": self.kind.value,
            "indexFunction": self.expression.function,
            "sourceFields": [self.column],
            "indexOptions": {_FUNCTION: self.expression.function, **options},
            "version": f"V{self.version}",
        }


def expression_of(function: str, column: str, options: Mapping[str, str]) -> Expression:
    """The expression of these options, without those of bloom filters."""
    own = {k: v for k, v in options.items() if k != _FUNCTION and k not in _FILTER_OPTIONS}
    return Expression(function, column, tuple(sorted(own.items())))


def filter_options_of(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, options[name]) for name in _FILTER_OPTIONS if name in options)


def expression_indexes(
    fs: FileSystem, config: TableConfig, names: Iterable[str] | None = None
) -> tuple[ExpressionIndex, ...]:
    """The indexes with a definition of a known format, by name.  Reads one file, and none where no
    partition is listed.

    names: of metadata partitions; None: those that the table lists.  Raises CorruptFileError where
    the definitions cannot be read.
    """
    listed = definitions_with_prefix(fs, config, EXPRESSION_PREFIX, names)
    found = (_parsed(name, definition) for name, definition in listed)
    return tuple(index for index in found if index is not None)


def maintained_expressions(fs: FileSystem, config: TableConfig) -> tuple[ExpressionIndex, ...]:
    """Every expression index of the table.

    Raises UnsupportedTableError, which names the expression, if one cannot be maintained.
    """
    found = expression_indexes(fs, config)
    known = {index.name for index in found}
    for name in sorted(config.metadata_partitions):
        if name.startswith(EXPRESSION_PREFIX) and name not in known:
            raise UnsupportedTableError(
                "the table has an expression index without a definition",
                index=name,
                hint="drop it with table.index.drop()",
            )
    for index in found:
        index.check()
    return found


def usable_expressions(
    fs: FileSystem, config: TableConfig, names: Iterable[str] | None = None
) -> tuple[ExpressionIndex, ...]:
    """Those of `expression_indexes` that can be computed."""
    found = []
    for index in expression_indexes(fs, config, names):
        try:
            index.check()
        except UnsupportedTableError:
            continue
        found.append(index)
    return tuple(found)


def _parsed(name: str, definition: Mapping[str, Any] | None) -> ExpressionIndex | None:
    """None for a definition of another format, which is not used."""
    if definition is None:
        return None
    fields, options = definition.get("sourceFields"), definition.get("indexOptions") or {}
    kinds = {kind.value: kind for kind in ExpressionKind}
    kind = kinds.get(str(definition.get("indexType")))
    version = {"V1": 1, "V2": 2}.get(str(definition.get("version") or "V1"))
    if not isinstance(fields, list) or len(fields) != 1 or not isinstance(options, dict):
        return None
    if kind is None or version is None:
        return None
    given = {str(key): str(value) for key, value in options.items()}
    expression = expression_of(str(definition.get("indexFunction")), str(fields[0]), given)
    return ExpressionIndex(name, expression, kind, version, filter_options_of(given))
