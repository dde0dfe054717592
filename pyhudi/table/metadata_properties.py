"""The properties of the metadata table of a table.  Source: table_format 9.1; writer_v8_v9 11.1."""

from __future__ import annotations

from pyhudi.layouts.table_layout import MetadataInstants
from pyhudi.table.properties import (
    CUSTOM_ID,
    EVENT_TIME_ID,
    MERGE_MODE,
    PAYLOAD_CLASS,
    MergeMode,
    TableConfig,
    TableType,
    checksum,
)


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
        PAYLOAD_CLASS: "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
    }
    if layout.metadata_instants is MetadataInstants.SUFFIXED:
        properties |= {
            "hoodie.table.keygenerator.class": (
                "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
            ),
            "hoodie.compaction.record.merger.strategy": EVENT_TIME_ID,
            "hoodie.archivelog.folder": "archived",
        }
    else:
        properties |= {
            "hoodie.table.initial.version": str(config.version),
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
            MERGE_MODE: MergeMode.CUSTOM.value,
            "hoodie.record.merge.strategy.id": CUSTOM_ID,
            "hoodie.table.checksum": str(checksum("", name)),
        }
    return TableConfig(properties)
