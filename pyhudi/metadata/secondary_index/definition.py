"""Definitions of secondary indexes in `index.json`.

An index is in use if its metadata partition is listed and it has a definition.  The version of the
definition determines the file group of a key; Apache Hudi 1.0 writes none, which means V1.
Source: writer_v8_v9 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.metadata.definitions import definitions_with_prefix
from pyhudi.metadata.payloads import (
    SECONDARY_PREFIX,
    MetadataPartition,
    maintained_partitions,
)
from pyhudi.metadata.secondary_index.key_format import HashedPart
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig

TYPE: Final = "secondary_index"
PREFIX: Final = SECONDARY_PREFIX


@dataclass(frozen=True, slots=True)
class SecondaryIndex:
    """One secondary index.  name: of its metadata partition, with PREFIX."""

    name: str
    column: str
    part: HashedPart

    @property
    def partition(self) -> MetadataPartition:
        return maintained_partitions([self.name])[0]

    def to_definition(self) -> dict[str, Any]:
        """The entry of `index.json`."""
        return {
            "indexName": self.name,
            "indexType": TYPE,
            "indexFunction": "identity",
            "sourceFields": [self.column],
            "indexOptions": {},
            "version": self.part.value,
        }


def secondary_indexes(
    fs: FileSystem, config: TableConfig, names: Iterable[str] | None = None
) -> tuple[SecondaryIndex, ...]:
    """The indexes in use, by name.  Reads one file, and none where no partition is listed.

    names: of metadata partitions; None: those that the table lists.  Raises CorruptFileError where
    the definitions cannot be read.
    """
    listed = definitions_with_prefix(fs, config, PREFIX, names)
    found = (_parsed(name, definition) for name, definition in listed)
    return tuple(index for index in found if index is not None)


def _parsed(name: str, definition: Mapping[str, Any] | None) -> SecondaryIndex | None:
    """None for a definition of another format, which is not used."""
    if definition is None or definition.get("indexType") != TYPE:
        return None
    fields, version = definition.get("sourceFields"), definition.get("version") or "V1"
    versions = {part.value: part for part in HashedPart}
    if not isinstance(fields, list) or len(fields) != 1 or version not in versions:
        return None
    return SecondaryIndex(name, str(fields[0]), versions[version])
