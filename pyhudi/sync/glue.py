"""The AWS Glue Data Catalog, by boto3.

Glue has no cascade: partitions have columns, which engines compare with those of the table, so a
change of columns is written to each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from pyhudi.errors import CatalogError
from pyhudi.libraries import load_library
from pyhudi.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable

_CREATED: Final = 100
"""Partitions in one request of Glue; it deletes 25 and reads 1,000."""
_DELETED: Final = 25
_READ: Final = 1000
_UPDATED: Final = 100
_INPUT: Final = (
    "Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention",
    "StorageDescriptor", "PartitionKeys", "ViewOriginalText", "ViewExpandedText", "TableType",
    "Parameters", "TargetTable",
)  # fmt: skip
"""The fields of a table that Glue takes back."""


class GlueCatalog:
    """A Catalog.  region, endpoint, account: None for what boto3 finds in its environment."""

    def __init__(self, region: str | None, endpoint: str | None, account: str | None) -> None:
        self._region, self._endpoint = region, endpoint
        self._account = {} if account is None else {"CatalogId": account}
        self.url = f"glue://{region}" if region else "glue:"

    def has_database(self, database: str) -> bool:
        return self._found(lambda c: c.get_database(Name=database, **self._account)) is not None

    def create_database(self, database: str) -> None:
        made = {"Name": database, "Description": "automatically created by hoodie"}
        with self._answering(unless="AlreadyExistsException"):
            self._client.create_database(DatabaseInput=made, **self._account)

    def table(self, database: str, name: str) -> CatalogTable | None:
        found = self._stored(database, name)
        return None if found is None else _table(database, found)

    def create_table(self, table: CatalogTable) -> None:
        made = {
            "Name": table.name,
            "TableType": "MANAGED_TABLE" if table.managed else "EXTERNAL_TABLE",
            "PartitionKeys": _columns(table.partition_keys),
            "Parameters": dict(table.properties),
            "StorageDescriptor": _storage(table, table.location, table.serde_properties),
        }
        with self._answering():
            self._client.create_table(DatabaseName=table.database, TableInput=made, **self._account)

    def change_table(self, table: CatalogTable, *, cascade: bool) -> None:
        stored = self._stored(table.database, table.name)
        if stored is None:
            raise CatalogError("the table is not in the catalog any more", table=table.name)
        made = {name: stored[name] for name in _INPUT if name in stored}
        made["Parameters"] = dict(table.properties)
        made["StorageDescriptor"] = {
            **stored["StorageDescriptor"],
            **_storage(table, stored["StorageDescriptor"]["Location"], table.serde_properties),
        }
        with self._answering():
            self._client.update_table(
                DatabaseName=table.database, TableInput=made, SkipArchive=True, **self._account
            )
        if cascade:
            self.move_partitions(table, self.partitions(table))

    def drop_table(self, database: str, name: str) -> None:
        with self._answering(unless="EntityNotFoundException"):
            self._client.delete_table(DatabaseName=database, Name=name, **self._account)

    def partitions(self, table: CatalogTable) -> list[CatalogPartition]:
        with self._answering():
            pages = self._client.get_paginator("get_partitions").paginate(
                DatabaseName=table.database,
                TableName=table.name,
                ExcludeColumnSchema=True,
                **self._account,
            )
            return [_partition(each) for page in pages for each in page["Partitions"]]

    def find_partitions(
        self, table: CatalogTable, values: Sequence[tuple[str, ...]]
    ) -> list[CatalogPartition]:
        found: list[CatalogPartition] = []
        for some in _batches(values, _READ):
            with self._answering():
                answer = self._client.batch_get_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionsToGet=[{"Values": list(each)} for each in some],
                    **self._account,
                )
            found += map(_partition, answer["Partitions"])
        return found

    def add_partitions(self, table: CatalogTable, added: Sequence[CatalogPartition]) -> None:
        for some in _batches(added, _CREATED):
            with self._answering():
                answer = self._client.batch_create_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionInputList=[_input(table, each) for each in some],
                    **self._account,
                )
            _check(answer, self.url, allowed="AlreadyExistsException")

    def move_partitions(self, table: CatalogTable, moved: Sequence[CatalogPartition]) -> None:
        for some in _batches(moved, _UPDATED):
            entries = [
                {"PartitionValueList": list(each.values), "PartitionInput": _input(table, each)}
                for each in some
            ]
            with self._answering():
                answer = self._client.batch_update_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    Entries=entries,
                    **self._account,
                )
            _check(answer, self.url, allowed="EntityNotFoundException")

    def drop_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        for some in _batches(values, _DELETED):
            with self._answering():
                answer = self._client.batch_delete_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionsToDelete=[{"Values": list(each)} for each in some],
                    **self._account,
                )
            _check(answer, self.url, allowed="EntityNotFoundException")

    def close(self) -> None:
        if "_client" in vars(self):
            self._client.close()
            del self._client

    @cached_property
    def _client(self) -> Any:
        boto3 = load_library("boto3", extra="glue", needed_for="the AWS Glue Data Catalog")
        return boto3.client("glue", region_name=self._region, endpoint_url=self._endpoint)

    def _stored(self, database: str, name: str) -> Any:
        answer = self._found(
            lambda c: c.get_table(DatabaseName=database, Name=name, **self._account)
        )
        return None if answer is None else answer["Table"]

    def _found(self, request: Callable[[Any], Any]) -> Any:
        """The answer; None if the entity does not exist."""
        with self._answering(unless="EntityNotFoundException"):
            return request(self._client)
        return None

    @contextmanager
    def _answering(self, unless: str = "") -> Iterator[None]:
        """Raises CatalogError for errors of Glue, except for the code `unless`."""
        botocore = load_library("botocore.exceptions", extra="glue", needed_for="AWS Glue")
        try:
            yield
        except botocore.ClientError as error:
            if error.response["Error"]["Code"] != unless:
                raise _failure(self.url, str(error)) from error
        except botocore.BotoCoreError as error:
            raise _failure(self.url, str(error)) from error


def _failure(url: str, reason: str) -> CatalogError:
    return CatalogError("the AWS Glue Data Catalog failed", catalog=url, reason=reason)


def _check(answer: Any, url: str, *, allowed: str) -> None:
    """Raises CatalogError for the first error of a batch that is not the allowed one."""
    for error in answer.get("Errors", ()):
        detail = error.get("ErrorDetail", {})
        if detail.get("ErrorCode") != allowed:
            raise _failure(url, f"{detail.get('ErrorCode')}: {detail.get('ErrorMessage')}")


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _columns(columns: Sequence[CatalogColumn]) -> list[dict[str, str]]:
    return [{"Name": c.name, "Type": c.type, "Comment": c.comment} for c in columns]


def _storage(table: CatalogTable, location: str, properties: Mapping[str, str]) -> dict[str, Any]:
    return {
        "Columns": _columns(table.columns),
        "Location": location,
        "InputFormat": table.input_format,
        "OutputFormat": table.output_format,
        "SerdeInfo": {
            "SerializationLibrary": table.serde,
            "Parameters": {"serialization.format": "1", **properties},
        },
    }


def _input(table: CatalogTable, partition: CatalogPartition) -> dict[str, Any]:
    storage = _storage(table, partition.location, table.partition_serde_properties)
    return {"Values": list(partition.values), "StorageDescriptor": storage}


def _partition(found: Any) -> CatalogPartition:
    return CatalogPartition(tuple(found["Values"]), found["StorageDescriptor"]["Location"])


def _table(database: str, found: Any) -> CatalogTable:
    storage = found.get("StorageDescriptor", {})
    serde = storage.get("SerdeInfo", {})
    return CatalogTable(
        database,
        found["Name"],
        _read_columns(storage.get("Columns", ())),
        _read_columns(found.get("PartitionKeys", ())),
        storage.get("Location", ""),
        storage.get("InputFormat", ""),
        storage.get("OutputFormat", ""),
        serde.get("SerializationLibrary", ""),
        dict(serde.get("Parameters", {})),
        dict(found.get("Parameters", {})),
        found.get("TableType") == "MANAGED_TABLE",
    )


def _read_columns(columns: Sequence[Any]) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(c["Name"], c["Type"], c.get("Comment", "")) for c in columns)
