"""A catalog in a Hive Metastore, by Thrift.

Tables and partitions are changed in the structures that the metastore returned, so that fields of
others stay.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from pyhudi.errors import CatalogError, OptionError
from pyhudi.options.catalogs import servers
from pyhudi.storage.hive_thrift import answer_of, connect_any, interface
from pyhudi.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable

_NAMES_IN_REQUEST: Final = 1000
_UNLIMITED: Final = -1
_ESCAPED: Final = frozenset([*map(chr, range(1, 32)), *"\"#%'*/:=?\\{[]^", "\x7f"])
"""Characters that Hive escapes in the names of partitions."""


class HiveMetastore:
    """A Catalog.  Connects on first use; close() ends the connection."""

    def __init__(self, uri: str) -> None:
        self._servers = _servers(uri)
        self.url = uri
        self._answered = False  # on this connection

    def has_database(self, database: str) -> bool:
        return self._found(lambda: self._client.get_database(database)) is not None

    def create_database(self, database: str) -> None:
        made = self._types.Database(
            name=database, description="automatically created by hoodie", parameters={}
        )
        self._call(lambda: self._client.create_database(made), unless="AlreadyExistsException")

    def table(self, database: str, name: str) -> CatalogTable | None:
        found = self._stored(database, name)
        return None if found is None else _table(found)

    def create_table(self, table: CatalogTable) -> None:
        made = self._new_table(table)
        self._call(lambda: self._client.create_table(made), table=f"{table.database}.{table.name}")

    def change_table(self, table: CatalogTable, *, cascade: bool) -> None:
        stored = self._stored(table.database, table.name)
        if stored is None:
            raise CatalogError("the table is not in the catalog any more", table=table.name)
        stored.parameters = dict(table.properties)
        self._fill(stored.sd, table, stored.sd.location, table.serde_properties)
        context = self._types.EnvironmentContext(
            properties={"CASCADE": "true"} if cascade else {"DO_NOT_UPDATE_STATS": "true"}
        )
        self._call(
            lambda: self._client.alter_table_with_environment_context(
                table.database, table.name, stored, context
            ),
            table=f"{table.database}.{table.name}",
        )

    def drop_table(self, database: str, name: str) -> None:
        self._call(
            lambda: self._client.drop_table(database, name, False),
            unless="NoSuchObjectException",
        )

    def partitions(self, table: CatalogTable) -> list[CatalogPartition]:
        names = self._call(
            lambda: self._client.get_partition_names(table.database, table.name, _UNLIMITED)
        )
        return self._by_names(table, names)

    def find_partitions(
        self, table: CatalogTable, values: Sequence[tuple[str, ...]]
    ) -> list[CatalogPartition]:
        return self._by_names(table, [partition_name(table, each) for each in values])

    def add_partitions(self, table: CatalogTable, added: Sequence[CatalogPartition]) -> None:
        types, now = self._types, int(time.time())
        parts = [
            types.Partition(
                values=list(each.values),
                dbName=table.database,
                tableName=table.name,
                createTime=now,
                lastAccessTime=0,
                parameters={},
                sd=self._new_storage(table, each.location, table.partition_serde_properties),
            )
            for each in added
        ]
        request = types.AddPartitionsRequest(
            dbName=table.database,
            tblName=table.name,
            parts=parts,
            ifNotExists=True,
            needResult=False,
        )
        self._call(lambda: self._client.add_partitions_req(request))

    def move_partitions(self, table: CatalogTable, moved: Sequence[CatalogPartition]) -> None:
        places = {each.values: each.location for each in moved}
        names = [partition_name(table, values) for values in places]
        stored = self._get(table, names)
        properties = table.partition_serde_properties
        for part in stored:
            self._fill(part.sd, table, places[tuple(part.values)], properties)
        self._call(lambda: self._client.alter_partitions(table.database, table.name, stored))

    def drop_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        types = self._types
        names = types.RequestPartsSpec(names=[partition_name(table, each) for each in values])
        request = types.DropPartitionsRequest(
            dbName=table.database,
            tblName=table.name,
            parts=names,
            deleteData=False,
            ifExists=True,
            needResult=False,
        )
        self._call(lambda: self._client.drop_partitions_req(request))

    def close(self) -> None:
        if "_client" in vars(self):
            self._client.close()
            del self._client
            self._answered = False

    def _by_names(self, table: CatalogTable, names: Sequence[str]) -> list[CatalogPartition]:
        found: list[CatalogPartition] = []
        for at in range(0, len(names), _NAMES_IN_REQUEST):
            some = list(names[at : at + _NAMES_IN_REQUEST])
            parts = self._get(table, some)
            found += [CatalogPartition(tuple(p.values), p.sd.location) for p in parts]
        return found

    def _get(self, table: CatalogTable, names: list[str]) -> list[Any]:
        """The partitions with these names, each once: release 4.0.1 repeats them if its
        metastore.direct.sql.batch.size is less than the number of names."""
        found = self._call(
            lambda: self._client.get_partitions_by_names(table.database, table.name, names)
        )
        return list({tuple(part.values): part for part in found}.values())

    def _stored(self, database: str, name: str) -> Any:
        request = self._types.GetTableRequest(dbName=database, tblName=name)
        answer = self._found(lambda: self._client.get_table_req(request))
        return None if answer is None else answer.table

    def _new_table(self, table: CatalogTable) -> Any:
        return self._types.Table(
            dbName=table.database,
            tableName=table.name,
            owner=getpass.getuser(),
            createTime=int(time.time()),
            lastAccessTime=0,
            retention=0,
            tableType="MANAGED_TABLE" if table.managed else "EXTERNAL_TABLE",
            partitionKeys=self._columns(table.partition_keys),
            parameters=dict(table.properties),
            sd=self._new_storage(table, table.location, table.serde_properties),
        )

    def _new_storage(
        self, table: CatalogTable, location: str, properties: Mapping[str, str]
    ) -> Any:
        types = self._types
        storage = types.StorageDescriptor(
            serdeInfo=types.SerDeInfo(parameters={}),
            compressed=False,
            numBuckets=0,
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        self._fill(storage, table, location, properties)
        return storage

    def _fill(
        self, storage: Any, table: CatalogTable, location: str, properties: Mapping[str, str]
    ) -> None:
        storage.cols = self._columns(table.columns)
        storage.location = location
        storage.inputFormat, storage.outputFormat = table.input_format, table.output_format
        storage.serdeInfo.serializationLib = table.serde
        storage.serdeInfo.parameters = {"serialization.format": "1", **properties}

    def _columns(self, columns: Sequence[CatalogColumn]) -> list[Any]:
        make = self._types.FieldSchema
        return [make(name=c.name, type=c.type, comment=c.comment) for c in columns]

    @property
    def _types(self) -> Any:
        return interface()

    @cached_property
    def _client(self) -> Any:
        return connect_any(self._servers)

    def _found(self, request: Callable[[], Any]) -> Any:
        return self._call(request, unless="NoSuchObjectException")

    def _call(
        self, request: Callable[[], Any], *, unless: str = "", table: str | None = None
    ) -> Any:
        """The answer; None if it is the exception `unless`.  Raises CatalogError for others."""
        try:
            answer = answer_of(
                request, url=self.url, unless=unless, is_first=not self._answered, table=table
            )
        except CatalogError:
            self.close()
            raise
        self._answered = True
        return answer


def partition_name(table: CatalogTable, values: Sequence[str]) -> str:
    """The name of a partition in the metastore: `city=sf/day=2026-11-21`, escaped as by Hive."""
    pairs = zip(table.partition_keys, values, strict=True)
    return "/".join(f"{_escape(key.name)}={_escape(value)}" for key, value in pairs)


def _escape(text: str) -> str:
    if not text:
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def _table(stored: Any) -> CatalogTable:
    """The entry of a structure of the metastore; without what the metastore itself adds."""
    storage = stored.sd
    serde = storage.serdeInfo
    return CatalogTable(
        stored.dbName,
        stored.tableName,
        _read_columns(storage.cols),
        _read_columns(stored.partitionKeys or ()),
        storage.location or "",
        storage.inputFormat or "",
        storage.outputFormat or "",
        serde.serializationLib or "",
        dict(serde.parameters or {}),
        dict(stored.parameters or {}),
        stored.tableType == "MANAGED_TABLE",
    )


def _read_columns(columns: Sequence[Any]) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(c.name, c.type, c.comment or "") for c in columns)


def _servers(uri: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports.  Raises OptionError."""
    try:
        return servers(uri)
    except ValueError:
        raise OptionError(
            "not the address of a Hive Metastore",
            value=uri,
            option="hoodie.datasource.hive_sync.metastore.uris",
            hint="pass uri='thrift://host:9083'",
        ) from None
