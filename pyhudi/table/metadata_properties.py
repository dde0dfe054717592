"""The properties of the metadata table of a table.  Source: table_format 9.1; writer_v8_v9 11.1."""

from __future__ import annotations

from typing import Final

from pyhudi.layouts.table_layout import MetadataInstants
from pyhudi.table.properties import (
    MergeMode,
    TableConfig,
    TableType,
    checksum,
)

_EVENT_TIME_STRATEGY: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_CUSTOM_STRATEGY: Final = "00000000-0000-0000-0000-000000000000"


def metadata_properties(config: TableConfig) -> TableConfig:
    """The properties of the metadata table of the table with these properties."""
    layout, name = config.layout, f"{config.name}_metadata"
    properties = {
        "hoodie.table.name": name,
        "hoodie.table.type": TableType.MERGE_ON_READ.value,
        "hoodie.table.version": str(config.version),
        "hoodie.timeline.layout.version": str(layout.timeline_version),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
    }
    if layout.metadata_instants is MetadataInstants.SUFFIXED:
        properties |= {
            "hoodie.table.keygenerator.class": (
                "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
            ),
            "hoodie.compaction.record.merger.strategy": _EVENT_TIME_STRATEGY,
            "hoodie.archivelog.folder": "archived",
        }
    else:
        properties |= {
            "hoodie.table.initial.version": str(config.version),
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
            "hoodie.record.merge.mode": MergeMode.CUSTOM.value,
            "hoodie.record.merge.strategy.id": _CUSTOM_STRATEGY,
            "hoodie.table.checksum": str(checksum("", name)),
        }
    return TableConfig(properties)
