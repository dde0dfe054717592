"""The entries of a catalog, independent of its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

AS_READ_OPTIMIZED: Final = "hoodie.query.as.ro.table"
"""The serde property by which Spark reads base files only."""


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """One column.  type: a type of Hive in lower case, such as `array<struct<a:int>>`."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """One table.  columns: without those of partition_keys.  location: a URL.

    managed: whether dropping the table in the catalog also deletes its files.
    """

    database: str
    name: str
    columns: tuple[CatalogColumn, ...]
    partition_keys: tuple[CatalogColumn, ...]
    location: str
    input_format: str
    output_format: str
    serde: str
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    managed: bool = False

    @property
    def partition_serde_properties(self) -> Mapping[str, str]:
        """Those of the table; without its path where Spark does not read the entry, as Apache
        Hudi writes them."""
        if AS_READ_OPTIMIZED in self.serde_properties:
            return self.serde_properties
        return {name: text for name, text in self.serde_properties.items() if name != "path"}


@dataclass(frozen=True, slots=True)
class CatalogPartition:
    """One partition.  values: one for each partition key, as text."""

    values: tuple[str, ...]
    location: str


def same_location(a: str, b: str) -> bool:
    """Whether two locations are one folder: `file:/x`, `file:///x` and `/x` are."""
    return _plain(a) == _plain(b)


def _plain(location: str) -> str:
    text = location.removeprefix("file://").removeprefix("file:")
    return text.replace("s3a://", "s3://").replace("s3n://", "s3://").rstrip("/")
