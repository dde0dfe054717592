"""When partitions of the metadata table were created: commits before wrote to dropped ones.

A partition may be dropped and created again under the same name, and the ids of its file groups are
the same each time.  Commits of the metadata timeline that wrote to the dropped partition stay; the
files that they name no longer exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from pyhudi.filenames import parse_data_file
from pyhudi.layouts.table_layout import MetadataInstants
from pyhudi.metadata.visible_instants import FIRST_INIT, is_creation, is_own
from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.history.reader import TimelineHistory
from pyhudi.timeline.instant import Action, Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_LAST: Final = InstantTime(f"{BEFORE_ALL_INSTANTS}999")
_FIRST_OF_LAYOUT_1: Final = InstantTime(f"{BEFORE_ALL_INSTANTS}{FIRST_INIT:03d}")
_BY_COMPLETION: Final = attrgetter("completion")


def table_creation(commits: Iterable[Instant]) -> InstantTime:
    """The completion of the commit that created `files`, if it is one of these of the metadata
    table; else before all instants.  It is the first: other partitions are created later.  The time
    of a service may be less, where completion times are not recorded.

    A downgrade by Apache Hudi to layout 1 keeps the instants of layout 2, which state no time, and
    drops when they completed: then the first commit that follows is the bound.  An instant of
    layout 1 before all others states that no commit preceded it."""
    written = [each for each in commits if is_creation(each.time) or not is_own(each.time)]
    first = min(written, key=_BY_COMPLETION, default=None)
    if first is None or not is_creation(first.time):
        return BEFORE_ALL_INSTANTS
    if first.completion.startswith(BEFORE_ALL_INSTANTS) and first.time < _FIRST_OF_LAYOUT_1:
        follow = [each.completion for each in written if not is_creation(each.time)]
        return min(follow, default=first.completion)
    return first.completion


def archived_creations(log: TimelineLog) -> list[Instant]:
    """Archived commits that created partitions; log: of the metadata table.

    Archival by Apache Hudi takes them first, whatever they followed.  Layout 1 archives them in
    order and needs none of them.  Cost: the files of the archive that may hold one.
    """
    if log.layout.metadata_instants is not MetadataInstants.FRESH:
        return []
    found = TimelineHistory(log.fs, HISTORY).instants(BEFORE_ALL_INSTANTS, _LAST)
    return [instant for instant in found if instant.action is Action.DELTA_COMMIT]


def still_needed(created: Iterable[Instant], others: Iterable[Instant]) -> list[Instant]:
    """The creations that completed after one of the `others`, which tell what they contain."""
    first = min(map(_BY_COMPLETION, others), default=None)
    return [each for each in created if first is not None and each.completion > first]


@dataclass(frozen=True, slots=True)
class PartitionCreations:
    """The commit that created each partition, of those that are known."""

    by_partition: Mapping[str, Instant]

    @classmethod
    def of(
        cls,
        timeline: Timeline,
        found: Mapping[str, Iterable[InstantTime]],
        archived: Iterable[Instant] = (),
    ) -> PartitionCreations:
        """timeline: of the metadata table.  found: instants of the files or slices of each
        partition; those of its creation are among them until they are compacted and cleaned.
        archived: commits that are no longer on the timeline."""
        created: dict[InstantTime, Instant] = {}
        for each in (*archived, *timeline.commits):
            if is_creation(each.time):
                created[each.time] = max(each, created.get(each.time, each), key=_BY_COMPLETION)
        newest = {
            partition: max((created[t] for t in times if t in created), key=_BY_COMPLETION)
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
            return commit.completion < creation.completed_at
        name = parse_data_file(stat.file_name)
        continued = stat.previous_instant or creation.time
        return name is not None and min(name.instant, continued) < creation.time

    def follows(self, partition: str, time: InstantTime) -> bool:
        """Whether a partition was created after an instant began."""
        creation = self.by_partition.get(partition)
        return creation is not None and creation.completion > time
