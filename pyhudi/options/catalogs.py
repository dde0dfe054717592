"""Settings of catalogs and lineage servers: where a table is registered, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import urlsplit

from pyhudi.options.value_types import Value

_PORT: Final = 9083


class CatalogKind(Enum):
    """The catalogs that a table can be registered in."""

    HIVE = "hive"
    GLUE = "glue"


class LineageKind(Enum):
    """The kinds of servers that get a description of the table, but have no entries to compare."""

    OPEN_LINEAGE = "openlineage"
    DATAHUB = "datahub"


class MergeOnReadTables(Enum):
    """Which queries of a merge-on-read table get an entry."""

    ALL = "ALL"
    READ_OPTIMIZED = "RO"
    SNAPSHOT = "RT"


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """Where and how a table is registered; `hoodie.datasource.hive_sync.*`, `hoodie.meta.sync.*`.

    None: the default of the table, stated at the option's row in docs/options.md.
    """

    hive_enabled: bool = False  # inline, after each commit
    enabled: bool = False  # likewise, in the catalogs of `kinds`
    ignores_failures: bool = False  # a save on Spark raises no error of a sync after its commit
    kinds: tuple[CatalogKind | LineageKind, ...] = (CatalogKind.HIVE,)
    uri: str = "thrift://localhost:9083"
    database: str | None = None  # None: the table's database, else "default"
    table: str | None = None  # None: the table's name
    location: str | None = None  # as engines reach the table; None: its own URL
    partition_fields: tuple[str, ...] = ()  # empty: those of the table
    extractor: str | None = None  # None: see sync/partition_values
    decodes: bool = False
    creates_database: bool = True
    managed: bool = False
    omits_meta_columns: bool = False
    timestamps: bool = False
    spark_properties: bool = True
    spark_version: str = ""
    schema_part: int = 4000  # characters of one property: metastores store at most 4000
    comments: bool = False
    table_properties: tuple[tuple[str, str], ...] = ()
    serde_properties: tuple[tuple[str, str], ...] = ()
    merge_on_read: MergeOnReadTables = MergeOnReadTables.ALL
    plain_snapshot: bool = True  # merge-on-read: the snapshot also under the table's name
    read_optimized_plain: bool = False  # the read-optimized entry without the suffix _ro
    incremental: bool = True  # only partitions changed since the last synced instant
    only_changes: bool = False  # the last synced instant only moves with another change
    batch: int = 1000  # partitions in one call of the catalog
    region: str | None = None  # of Glue; None: the one that boto3 finds
    endpoint: str | None = None  # of Glue; None: AWS's own
    glue_catalog: str | None = None  # None: the one of the account
    lineage_url: str | None = None  # of the server or file of OpenLineage; None: no events
    lineage_key: str | None = None  # sent as a bearer token
    lineage_namespace: str = "pyhudi"  # of the jobs in events
    datahub_server: str | None = None
    datahub_token: str | None = None  # sent as a bearer token
    datahub_platform: str = "hudi"
    datahub_env: str = "DEV"
    datahub_database: str | None = None  # None: `database`
    datahub_table: str | None = None  # None: `table`
    datahub_properties: tuple[tuple[str, str], ...] = ()

    @property
    def inline(self) -> tuple[CatalogKind | LineageKind, ...]:
        """The catalogs that are synced after each commit, and the servers that get its event."""
        hive = (CatalogKind.HIVE,) if self.hive_enabled else ()
        others = self.kinds if self.enabled else ()
        events = (LineageKind.OPEN_LINEAGE,) if self.lineage_url else ()
        return (*dict.fromkeys((*hive, *others)), *events)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """`name=value` a line.  Raises ValueError."""
    lines = [line.strip() for line in text.replace("\\n", "\n").splitlines() if line.strip()]
    if any("=" not in line for line in lines):
        raise ValueError(text)
    pairs = [line.partition("=") for line in lines]
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


_CLASSES: Final[Mapping[str, CatalogKind | LineageKind]] = {
    "HiveSyncTool": CatalogKind.HIVE,
    "AwsGlueCatalogSyncTool": CatalogKind.GLUE,
    "DataHubSyncTool": LineageKind.DATAHUB,
}


def _kinds(text: str) -> tuple[CatalogKind | LineageKind, ...]:
    names = [name.strip().rsplit(".", 1)[-1] for name in text.split(",") if name.strip()]
    if not names or any(name not in _CLASSES for name in names):
        raise ValueError(text)
    return tuple(dict.fromkeys(_CLASSES[name] for name in names))


def servers(text: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of `thrift://host:port[,thrift://host:port...]`.  Raises ValueError."""
    found = []
    for each in text.split(","):
        parts = urlsplit(each.strip())
        if parts.scheme != "thrift" or not parts.hostname:
            raise ValueError(text)
        found.append((parts.hostname, parts.port or _PORT))
    return tuple(found)


def _uris(text: str) -> str:
    return text if servers(text) else ""


def _event_url(text: str) -> str:
    parts = urlsplit(text)
    place = parts.path if parts.scheme == "file" and not parts.netloc else parts.hostname
    if parts.scheme not in ("http", "https", "file") or not place or any(map(str.isspace, text)):
        raise ValueError(text)
    return text


def _server_url(text: str) -> str:
    if urlsplit(text).scheme == "file":
        raise ValueError(text)
    return _event_url(text)


def _listed_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """`name=value` between commas.  Raises ValueError."""
    return _pairs("\n".join(text.split(",")))


EVENT_URL: Final = Value("http://host:port, https://host:port or file:/path", _event_url)
METASTORE_URIS: Final = Value("thrift://host:port, several separated by commas", _uris)
PROPERTIES_BY_LINE: Final = Value("lines of name=value", _pairs)
PROPERTIES_BY_COMMA: Final = Value("name=value between commas", _listed_pairs)
SERVER_URL: Final = Value("http://host:port or https://host:port", _server_url)
SYNC_TOOLS: Final = Value("of HiveSyncTool, AwsGlueCatalogSyncTool and DataHubSyncTool", _kinds)
DATAHUB_ENVIRONMENTS: Final = (
    "DEV", "TEST", "QA", "UAT", "EI", "PRE", "STG", "NON_PROD", "PROD", "CORP", "RVW", "PRD",
    "TST", "SIT", "SBX", "SANDBOX",
)  # fmt: skip
