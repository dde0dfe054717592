"""Table version 8: completion times, Avro commits, logs named after their delta commit."""

from __future__ import annotations

from typing import Final

from pyhudi.filenames import HOODIE
from pyhudi.layouts.table_layout import (
    ArchiveKind,
    CommitEncoding,
    LogInstant,
    MetadataInstants,
    TableLayout,
)

V8: Final = TableLayout(
    version=8,
    timeline_version=2,
    timeline_folder=f"{HOODIE}/timeline",
    has_completion_times=True,
    commit_encoding=CommitEncoding.AVRO,
    archive=ArchiveKind.LSM_TREE,
    clustering_action="clustering",
    log_instant=LogInstant.WRITE,
    log_marker="CREATE",
    has_partial_logs=True,
    has_record_positions=True,
    compactions_log_changes=True,
    metadata_instants=MetadataInstants.FRESH,
    index_version=1,
    checkpoint_key="streamer.checkpoint.key.v2",
)
