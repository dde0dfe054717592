"""What a sync needs of a catalog; implemented for each protocol.

Every method raises CatalogError if the catalog cannot be reached or rejects the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyhudi.sync.catalog_entry import CatalogPartition, CatalogTable


class Catalog(Protocol):
    """A catalog of databases, tables and partitions.  Names are in lower case."""

    @property
    def url(self) -> str:
        """Where the catalog is, for reports and errors."""

    def has_database(self, database: str) -> bool: ...

    def create_database(self, database: str) -> None:
        """Does nothing if the database exists."""

    def table(self, database: str, name: str) -> CatalogTable | None:
        """The entry, or None if there is none."""

    def create_table(self, table: CatalogTable) -> None: ...

    def change_table(self, table: CatalogTable, *, cascade: bool) -> None:
        """Replace columns, location, formats and properties of an entry; the rest stays.

        cascade: also the columns of its partitions.
        """

    def drop_table(self, database: str, name: str) -> None:
        """Remove the entry and its partitions; files stay."""

    def partitions(self, table: CatalogTable) -> list[CatalogPartition]:
        """Every partition of the entry."""

    def find_partitions(
        self, table: CatalogTable, values: Sequence[tuple[str, ...]]
    ) -> list[CatalogPartition]:
        """Those partitions of the entry that exist."""

    def add_partitions(self, table: CatalogTable, added: Sequence[CatalogPartition]) -> None:
        """Partitions that exist already are left as they are."""

    def move_partitions(self, table: CatalogTable, moved: Sequence[CatalogPartition]) -> None:
        """Give partitions that exist another location, and the formats of the table."""

    def drop_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """Remove partitions, if they exist; files stay."""

    def close(self) -> None: ...
