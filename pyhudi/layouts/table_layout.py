"""The layout of a table version as a value: facts that the packages above are given.

The timeline, log, slice and metadata packages branch on one fact each, in one place; services and
operations do not know versions.  A new version is a new module next to `v9`, and its golden files.
Source: table_format 11, writer_v8_v9 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CommitEncoding(Enum):
    """How commit metadata is stored in the timeline."""

    JSON = "json"
    AVRO = "avro"


class ArchiveKind(Enum):
    """How instants that leave the active timeline are stored."""

    LOG_FILES = "log files"
    LSM_TREE = "lsm tree"


class LogInstant(Enum):
    """The instant in the name of a log file."""

    SLICE = "slice"
    """Of the base file that the log belongs to; a log may hold blocks of several writes."""
    WRITE = "write"
    """Of the delta commit that writes the log, and of all its blocks; the completion time of
    that commit decides to which slice the log belongs."""


class MetadataInstants(Enum):
    """Times of the metadata table's own instants."""

    SUFFIXED = "suffixed"
    """The data instant followed by three digits."""
    FRESH = "fresh"
    """A new time of 17 digits; `00000000000000000`, `...1`, ... for the creation of partitions."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Facts about the files of one table version.

    version: of the table (`hoodie.table.version`).  timeline_version: 1 or 2
    (`hoodie.timeline.layout.version`).  timeline_folder: below the table's root.
    has_completion_times: names of completed instants contain the completion time.
    clustering_action: word of a pending clustering in file names.  log_marker: kind of the
    markers of log files.  has_partial_logs: whether logs may hold rows with some columns only.
    has_record_positions: whether log blocks may have the positions of their records in the base
    file.  compactions_log_changes: whether a compaction of a table with change data capture writes
    CDC logs.  index_version: newest version of the definitions of metadata indexes;
    0 if the version has none.  checkpoint_key: key of a source's checkpoint in commits.
    """

    version: int
    timeline_version: int
    timeline_folder: str
    has_completion_times: bool
    commit_encoding: CommitEncoding
    archive: ArchiveKind
    clustering_action: str
    log_instant: LogInstant
    log_marker: str
    has_partial_logs: bool
    has_record_positions: bool
    compactions_log_changes: bool
    metadata_instants: MetadataInstants
    index_version: int
    checkpoint_key: str

    @property
    def logs_name_slices(self) -> bool:
        """Whether a log has the instant of its slice in its name, which then decides to which slice
        it belongs.  Otherwise the completion time of the write that it is named after does."""
        return self.log_instant is LogInstant.SLICE

    @property
    def logs_are_shared(self) -> bool:
        """Whether a log may have blocks of several writes, so that a rollback adds a command block.
        Otherwise a rollback deletes the logs of the write."""
        return self.log_instant is LogInstant.SLICE

    def __str__(self) -> str:
        return f"version {self.version}"
