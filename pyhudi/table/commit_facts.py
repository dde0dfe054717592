"""Facts about completed commits, for operators: what each wrote, and how tables compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import UserError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action

_SERVICES: Final = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT"})


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """One completed commit.  completed_at: None where the table does not record it."""

    instant: str
    action: Action
    completed_at: str | None
    metadata: CommitMetadata

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        return self.metadata.stats

    @property
    def operation(self) -> str:
        return self.metadata.operation

    @property
    def extra(self) -> Mapping[str, str]:
        """Extra metadata, without the schema."""
        return {n: v for n, v in self.metadata.extra.items() if n != "schema"}

    @property
    def changed_rows(self) -> int:
        """Rows that were inserted, updated or deleted; 0 for table services, which rewrite rows
        without a change."""
        if self.operation.upper() in _SERVICES:
            return 0
        sums = _sums(self.stats)
        return sums["inserted"] + sums["updated"] + sums["deleted"]

    @property
    def written_rows(self) -> int:
        """Rows of the files that were written, and deletes in logs."""
        return max(_sums(self.stats)["rows"], self.changed_rows)

    def by_partition(self) -> dict[str, dict[str, int]]:
        """Files, rows and bytes by partition path, in order."""
        found: dict[str, list[WriteStat]] = {}
        for stat in self.stats:
            found.setdefault(stat.partition, []).append(stat)
        return {partition: _sums(found[partition]) for partition in sorted(found)}

    def to_dict(self) -> dict[str, Any]:
        return {
            "instant": self.instant,
            "action": self.action.value,
            "operation": self.operation.lower(),
            "completed_at": self.completed_at,
            "partitions": len({stat.partition for stat in self.stats}),
            **_sums(self.stats),
            "replaced_file_groups": len(self.metadata.replaced_groups),
        }


def _sums(stats: Iterable[WriteStat]) -> dict[str, int]:
    """rows: all rows of the files that were written, with those that did not change."""
    all_stats = tuple(stats)
    return {
        "files": len(all_stats),
        "rows": sum(stat.write_count for stat in all_stats),
        "inserted": sum(stat.insert_count for stat in all_stats),
        "updated": sum(stat.update_count for stat in all_stats),
        "deleted": sum(stat.delete_count for stat in all_stats),
        "bytes_written": sum(stat.write_bytes for stat in all_stats),
    }


def completed_commits(
    fs: FileSystem, limit: int | None = None, *, archived: bool = False
) -> list[CommitFacts]:
    """The newest commits of the active timeline, or of the archive, oldest first.

    limit: None for all.  Cost: one read per commit; all files of the archive.
    """
    config = load_config(fs)
    if archived:
        found = _archive(fs, config).commits
        return [
            CommitFacts(c.time, c.action, c.completed_at, c.metadata)
            for c in (found[-limit:] if limit else found)
        ]
    log = timeline_log(fs, config)
    instants = log.load().commits.instants
    return [
        CommitFacts(i.time, i.action, i.completed_at, log.commit(i))
        for i in (instants[-limit:] if limit else instants)
    ]


def completed_commit(fs: FileSystem, instant: str) -> CommitFacts:
    """The commit at an instant, active or archived.  Raises UserError where there is none."""
    config = load_config(fs)
    log = timeline_log(fs, config)
    for each in log.load().commits:
        if each.time == instant:
            return CommitFacts(each.time, each.action, each.completed_at, log.commit(each))
    for old in _archive(fs, config).commits:
        if old.time == instant:
            return CommitFacts(old.time, old.action, old.completed_at, old.metadata)
    raise UserError(
        "the table has no completed commit at this instant",
        instant=instant,
        hint="table.timeline and table.archived_timeline list the instants",
    )


@dataclass(frozen=True, slots=True)
class TimelineComparison:
    """newest, other_newest: the newest commits.  only_here, only_there: commits that one of the
    tables lacks; archived commits count."""

    path: str
    other_path: str
    newest: str | None
    other_newest: str | None
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]


def compare_timelines(fs: FileSystem, other: FileSystem) -> TimelineComparison:
    """The difference between the commits of two tables, such as a table and its copy."""
    here, there = _commit_times(fs), _commit_times(other)
    return TimelineComparison(
        fs.url,
        other.url,
        max(here, default=None),
        max(there, default=None),
        tuple(sorted(here - there)),
        tuple(sorted(there - here)),
    )


def _commit_times(fs: FileSystem) -> frozenset[str]:
    config = load_config(fs)
    active = timeline_log(fs, config).load().commits.times
    return frozenset(active) | _archive(fs, config).timeline.commits.times


def _archive(fs: FileSystem, config: TableConfig) -> Archive:
    return Archive(fs, layout=config.layout, folder=config.archive_folder)
