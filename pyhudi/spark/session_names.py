"""What a name of SQL is in a session: a view, or a table of Spark's catalog.

Tables whose provider is hudi, which a catalog sync registers, have no reader in Spark without a
jar: newer releases fail at any statement with their name.  Their entry has the path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.api.table import Table
from pyhudi.spark.frames import is_connect, quoted
from pyhudi.spark.fresh_views import table_of
from pyhudi.sql.statements import Name

_PROVIDERS: Final = ("hudi", "pyhudi")
_CATALOG: Final = "spark_catalog"


@dataclass(frozen=True, slots=True)
class InSession:
    """A view or table of the session.  table: of a fresh view.  path: of a table of Spark's catalog
    whose provider is hudi."""

    frame: Callable[[], DataFrame]
    table: Table | None = None
    path: str | None = None

    @property
    def is_hudi(self) -> bool:
        """Whether the name is that of a table of Hudi."""
        return self.path is not None or self.table is not None


def in_session(spark: SparkSession, name: Name) -> InSession | None:
    """The view or table with a name, or None."""
    text = ".".join(map(quoted, name.parts))
    table = table_of(spark, name.parts[0]) if len(name.parts) == 1 else None
    path = None
    if table is None:
        entry = None if is_connect(spark) else _entry(spark, name)
        if entry is not None:
            path = _path_of(entry)
        elif not spark.catalog.tableExists(text):
            return None
    return InSession(lambda: spark.table(text), table, path)


def _path_of(entry: Any) -> str | None:
    """The path of an entry whose provider is hudi."""
    provider = entry.provider()
    is_ours = provider.isDefined() and provider.get().lower() in _PROVIDERS
    return str(entry.location().toString()) if is_ours else None


def _entry(spark: SparkSession, name: Name) -> Any | None:
    """The entry of a view or table in Spark's own catalog."""
    parts = name.parts[1:] if name.parts[0] == _CATALOG else name.parts
    is_other = spark.catalog.currentCatalog() != _CATALOG and parts == name.parts
    if not 0 < len(parts) <= 2 or (is_other and len(parts) == 2):
        return None
    state: Any = spark._jsparkSession.sessionState()
    try:
        text = ".".join(map(quoted, parts))
        found = state.sqlParser().parseTableIdentifier(text)
        return state.catalog().getTempViewOrPermanentTableMetadata(found)
    except PySparkException:
        return None
