"""When partitions of the metadata table were created: commits before wrote to dropped ones.

A partition may be dropped and created again under the same name, and the ids of its file groups are
the same each time.  Commits of the metadata timeline that wrote to the dropped partition stay; the
files that they name no longer exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyhudi.filenames import parse_data_file
from pyhudi.metadata.visible_instants import is_creation
from pyhudi.records import InstantTime
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class PartitionCreations:
    """The commit that created each partition, of those on the active timeline."""

    by_partition: Mapping[str, Instant]

    @classmethod
    def of(
        cls, timeline: Timeline, found: Mapping[str, Iterable[InstantTime]]
    ) -> PartitionCreations:
        """timeline: of the metadata table.  found: instants of the files or slices of each
        partition; those of its creation are among them until they are compacted and cleaned."""
        created = {each.time: each for each in timeline.commits if is_creation(each.time)}
        newest = {
            partition: max((created[t] for t in times if t in created), key=_completion)
            for partition, times in found.items()
            if not created.keys().isdisjoint(times)
        }
        return cls(newest)

    def precede(self, stat: WriteStat, commit: Instant) -> bool:
        """Whether a commit wrote this file before the partition was created.

        Layout 1 compares the instant in the file's name and that of the slice it continues: a
        compaction by Apache Hudi 1.x may be later by name than a creation that followed it."""
        creation = self.by_partition.get(stat.partition)
        if creation is None:
            return False
        if creation.completed_at is not None:
            return _completion(commit) < creation.completed_at
        name = parse_data_file(stat.file_name)
        continued = stat.previous_instant or creation.time
        return name is not None and min(name.instant, continued) < creation.time

    def follows(self, partition: str, time: InstantTime) -> bool:
        """Whether a partition was created after an instant began."""
        creation = self.by_partition.get(partition)
        return creation is not None and _completion(creation) > time


def _completion(instant: Instant) -> InstantTime:
    return instant.completed_at or instant.time
