"""Sections about files: sizes, logs, cleaning."""

from __future__ import annotations

from pyhudi.markup import bytes_text, count_text, moment_text, plural
from pyhudi.report.charts import Drawn, bar, code, table
from pyhudi.report.facts import (
    CleaningFacts,
    LogFacts,
    Part,
    SizeFacts,
    SizeRange,
    TableFacts,
    Unavailable,
)
from pyhudi.report.sections.states import empty, lead, note, unavailable


def columns(facts: TableFacts) -> str:
    """Names and types of the columns, and what each is used for."""
    if not facts.columns:
        return empty("The table has no columns that can be read.")
    used = [
        (facts.record_key, "record key"),
        (facts.partitioned_by, "partition"),
        (facts.ordering, "ordering"),
    ]
    rows = [
        (code(name), kind, ", ".join(use for names, use in used if name in names))
        for name, kind in facts.columns
    ]
    left = facts.column_count - len(rows)
    more = f"{plural(left, 'more column')} not shown." if left > 0 else ""
    return table("Columns of the newest snapshot", ("column", "type", "used as"), rows, note=more)


def files(facts: Part[SizeFacts]) -> str:
    """Sizes of base files, and small files by partition."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    if not facts.file_groups:
        return empty("The table has no data files.")
    mean = sum(r.size for r in facts.ranges) / max(facts.base_files, 1)
    return (
        lead(
            f"{plural(facts.base_files, 'base file')} in "
            f"{plural(facts.partition_count, 'partition')}, {bytes_text(mean)} on "
            f"average; {count_text(facts.small_files)} smaller than "
            f"{bytes_text(facts.small_limit)}, so that inserts extend them."
        )
        + _ranges(facts)
        + _partitions(facts)
    )


def _ranges(facts: SizeFacts) -> str:
    most = max((r.files for r in facts.ranges), default=0) or 1
    rows = []
    low: int | None = 0
    for each in facts.ranges:
        share = Drawn(bar(each.files / most, "b" if _is_large(each, facts) else "w"))
        rows.append((_range_text(low, each.below), share, count_text(each.files),
                     bytes_text(each.size)))  # fmt: skip
        low = each.below
    heads = ("size", "share", "files", "total")
    return table("Sizes of base files", heads, rows)


def _is_large(each: SizeRange, facts: SizeFacts) -> bool:
    return each.below is None or each.below > facts.small_limit


def _range_text(low: int | None, below: int | None) -> str:
    if below is None:
        return f"{bytes_text(low or 0)} or more"
    if not low:
        return f"below {bytes_text(below)}"
    return f"{bytes_text(low)} to {bytes_text(below)}"


def _partitions(facts: SizeFacts) -> str:
    most = max((p.size for p in facts.partitions), default=0) or 1
    rows = [
        (p.path or "(not partitioned)", count_text(p.small_files), count_text(p.file_groups),
         Drawn(bar(p.size / most, "b")), bytes_text(p.size), bytes_text(p.log_bytes))
        for p in facts.partitions
    ]  # fmt: skip
    left = facts.partition_count - len(facts.partitions)
    more = f"{count_text(left)} more partitions are not shown." if left > 0 else ""
    heads = ("partition", "small files", "file groups", "share", "size", "of it logs")
    return table("Partitions with the most small files", heads, rows, note=more)


def logs(facts: Part[LogFacts]) -> str:
    """Log backlog and compaction debt."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    if not facts.is_merge_on_read:
        return empty("The table is copy-on-write: it has no logs, and no compaction is needed.")
    planned = ", ".join(map(moment_text, facts.planned)) or "none"
    if not facts.with_logs:
        return empty(f"No file group has logs to merge. Pending compaction plans: {planned}.")
    ratio = facts.log_bytes / facts.base_bytes if facts.base_bytes else None
    against = f", {ratio:.0%} of the base files" if ratio is not None else ""
    rows = [
        (s.partition or "(not partitioned)", code(s.file_id), count_text(s.log_files),
         bytes_text(s.log_bytes), bytes_text(s.base_bytes))
        for s in facts.slices
    ]  # fmt: skip
    left = facts.with_logs - len(facts.slices)
    more = f"{count_text(left)} more file groups with logs are not shown." if left > 0 else ""
    heads = ("partition", "file group", "log files", "logs", "base file")
    return (
        lead(
            f"{count_text(facts.with_logs)} of {count_text(facts.file_groups)} file groups have "
            f"{count_text(facts.log_files)} log files of {bytes_text(facts.log_bytes)}{against}."
        )
        + lead(
            f"A compaction of all of them reads {bytes_text(facts.read_bytes)}. Delta commits "
            f"since the last compaction: {count_text(facts.since_compaction)}. Pending plans: "
            f"{planned}."
        )
        + table("File groups with the most log bytes", heads, rows, note=more)
    )


def cleaning(facts: Part[CleaningFacts]) -> str:
    """Sizes before and after cleaning."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    total = facts.snapshot_bytes + facts.older_bytes
    if not total:
        return empty("The table has no data files to clean.")
    rows = [
        ("on the store now", Drawn(bar(1.0, "a")),
         count_text(facts.snapshot_files + facts.older_files), bytes_text(total)),
        ("of it the newest snapshot", Drawn(bar(facts.snapshot_bytes / total, "b")),
         count_text(facts.snapshot_files), bytes_text(facts.snapshot_bytes)),
        ("of it older versions and leftovers", Drawn(bar(facts.older_bytes / total, "w")),
         count_text(facts.older_files), bytes_text(facts.older_bytes)),
    ]  # fmt: skip
    if facts.removable_files is not None:
        after = total - facts.removable_bytes
        rows.append(
            ("after a clean now", Drawn(bar(after / total, "s")),
             count_text(facts.snapshot_files + facts.older_files - facts.removable_files),
             bytes_text(after)),
        )  # fmt: skip
    unknown = f"The next clean is {facts.why_unknown}." if facts.why_unknown else ""
    heads = ("data files", "share", "files", "size")
    return table("Data files before and after cleaning", heads, rows, note=unknown) + _runs(facts)


def _runs(facts: CleaningFacts) -> str:
    if not facts.runs:
        return note("No clean is recorded in the active timeline.")
    rows = [
        (moment_text(run.instant), count_text(run.files),
         bytes_text(run.size) if run.known else "unknown",
         "" if run.known in (0, run.files) else f"sizes of {count_text(run.known)} files are known")
        for run in reversed(facts.runs)
    ]  # fmt: skip
    heads = ("clean", "deleted files", "freed", "note")
    return table("Newest cleans, newest first", heads, rows)
