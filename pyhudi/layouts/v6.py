"""Table versions up to 6: a flat timeline, JSON commits, logs named after their slice."""

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

V6: Final = TableLayout(
    version=6,
    timeline_version=1,
    timeline_folder=HOODIE,
    has_completion_times=False,
    commit_encoding=CommitEncoding.JSON,
    archive=ArchiveKind.LOG_FILES,
    clustering_action="replacecommit",
    log_instant=LogInstant.SLICE,
    log_marker="APPEND",
    has_partial_logs=False,
    has_record_positions=False,
    compactions_log_changes=False,
    metadata_instants=MetadataInstants.SUFFIXED,
    index_version=0,
    checkpoint_key="deltastreamer.checkpoint.key",
)
