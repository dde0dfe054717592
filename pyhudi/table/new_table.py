"""The properties of a new table, by table version.

```
                     6                            8                             9
timeline             layout 1                     layout 2 in .hoodie/timeline  as 8
ordering             precombine.field             both names                    ordering.fields
key generator        class                        type (class if it is custom)  as 8
partition types      a separate property          in partition.fields           as 8
```

The properties of merging also differ: `pyhudi.merge.merge_choice`.
Source: writer_v8_v9 2; table_format 1.6; tables of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.table.properties import (
    EVENT_TIME_ID,
    GENERATOR_CLASSES,
    KeyGeneratorKind,
    TableConfig,
    TableType,
    checksum,
    implied_key_generator,
)

PATH_FIELDS: Final = "hoodie.datasource.write.partitionpath.field"
PRECOMBINE: Final = "hoodie.table.precombine.field"
ORDERING: Final = "hoodie.table.ordering.fields"
_MERGER: Final = "hoodie.compaction.record.merger.strategy"
_KEY_GENERATORS: Final = "org.apache.hudi.keygen."


def new_table_properties(
    *,
    name: str,
    table_type: TableType,
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    ordering: tuple[str, ...],
    create_schema: str,
    merge_properties: Mapping[str, str],
    version: int,
    hive_style: bool = False,
    url_encoded: bool = False,
    timezone: str = "UTC",
    key_generator: KeyGeneratorKind | None = None,
    database: str = "",
    more: Mapping[str, str] | None = None,
) -> TableConfig:
    """The properties of a new table of a version of `CREATABLE_VERSIONS`.

    partition_by: columns without types.  merge_properties: of the same version.  more: further
    properties of the key generator, with the typed partition columns as `PATH_FIELDS`.
    """
    kind = key_generator or implied_key_generator(record_key, partition_by)
    properties = {
        "hoodie.table.name": name,
        "hoodie.database.name": database,
        "hoodie.table.type": table_type.value,
        "hoodie.table.version": str(version),
        "hoodie.table.timeline.timezone": timezone,
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.recordkey.fields": ",".join(record_key),
        "hoodie.table.partition.fields": ",".join(partition_by),
        "hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(url_encoded).lower(),
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.populate.meta.fields": "true",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.create.schema": create_schema,
        **merge_properties,
        "hoodie.table.checksum": str(checksum(database, name)),
        **(more or {}),
    }
    complete = _TEMPLATES[version]
    return TableConfig(complete(properties, _Definition(table_type, kind, ",".join(ordering))))


@dataclass(frozen=True, slots=True)
class _Definition:
    """What the versions spell differently.  ordering: comma-separated, may be empty."""

    table_type: TableType
    key_generator: KeyGeneratorKind
    ordering: str


def _version_6(properties: dict[str, str], table: _Definition) -> dict[str, str]:
    properties |= {
        "hoodie.timeline.layout.version": "1",
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.keygenerator.class": _generator_class(table.key_generator),
    }
    if table.ordering:
        properties[PRECOMBINE] = table.ordering
    if table.table_type is TableType.MERGE_ON_READ:
        properties[_MERGER] = EVENT_TIME_ID
    return properties


def _version_8(properties: dict[str, str], table: _Definition) -> dict[str, str]:
    """Releases 1.0 know only the older name of the ordering fields, so both are written."""
    properties = _version_9(properties, table)
    if table.ordering:
        properties[PRECOMBINE] = table.ordering
    return properties


def _version_9(properties: dict[str, str], table: _Definition) -> dict[str, str]:
    properties |= {
        "hoodie.table.initial.version": properties["hoodie.table.version"],
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.format": "native",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.table.keygenerator.type": table.key_generator.value,
    }
    if table.key_generator is KeyGeneratorKind.USER_PROVIDED:
        properties["hoodie.table.keygenerator.class"] = _generator_class(table.key_generator)
    if PATH_FIELDS in properties:
        properties["hoodie.table.partition.fields"] = properties.pop(PATH_FIELDS)
    if table.ordering:
        properties[ORDERING] = table.ordering
    if not properties["hoodie.database.name"]:
        del properties["hoodie.database.name"]
    return properties


def _generator_class(kind: KeyGeneratorKind) -> str:
    return _KEY_GENERATORS + GENERATOR_CLASSES[kind]


_TEMPLATES: Final[Mapping[int, Callable[[dict[str, str], _Definition], dict[str, str]]]] = {
    6: _version_6,
    8: _version_8,
    9: _version_9,
}

CREATABLE_VERSIONS: Final = tuple(_TEMPLATES)
"""Versions with a template."""
