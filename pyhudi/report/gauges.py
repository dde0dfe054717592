"""Gauges of a table's state for monitoring, from the facts of a report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import tzinfo

from pyhudi.engine import Engine
from pyhudi.health.findings import Diagnosis, Severity
from pyhudi.observe.gauge import TABLE_GAUGES, Gauge
from pyhudi.options import Options
from pyhudi.records import InstantTime
from pyhudi.report.collect import collect_facts
from pyhudi.report.facts import LogFacts, ReportFacts, SizeFacts, Unavailable
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import load_config
from pyhudi.timeline.clock import parse_instant, zone_of
from pyhudi.timeline.timeline import Timeline

_INDEX_CODES = ("index", "metadata", "secondary")


def table_gauges(fs: FileSystem, options: Options, engine: Engine) -> tuple[Gauge, ...]:
    """The gauges of the table at `fs`; those of parts that cannot be read are left out.

    Cost and errors as for `collect_facts`.
    """
    facts = collect_facts(fs, options, engine)
    config = load_config(fs)
    timeline = timeline_log(fs, config).load()
    values = [
        *_of_timeline(timeline, zone_of(config.timezone)),
        *_of_files(facts),
        *_of_health(facts),
    ]
    found = [
        Gauge(name, {"table": fs.url} | labels, float(value)) for name, labels, value in values
    ]
    assert all(set(g.labels) == {"table", *TABLE_GAUGES[g.name][1]} for g in found)
    return tuple(found)


Value = tuple[str, dict[str, str], float]


def _of_timeline(timeline: Timeline, zone: tzinfo | None) -> Iterator[Value]:
    last = timeline.commits.last
    if last is not None:
        at = parse_instant(InstantTime(last.completion), zone).timestamp()
        yield "pyhudi_table_last_commit_timestamp_seconds", {}, at
        yield "pyhudi_table_last_commit_age_seconds", {}, max(time.time() - at, 0.0)
    yield "pyhudi_table_instants", {}, len(timeline)
    counts = Counter(instant.action.value for instant in timeline.pending)
    for action in sorted({*counts, "commit", "compaction", "clean", "replacecommit"}):
        yield "pyhudi_table_pending_instants", {"action": action}, counts[action]


def _of_files(facts: ReportFacts) -> Iterator[Value]:
    if isinstance(facts.files, SizeFacts):
        yield "pyhudi_table_file_groups", {}, facts.files.file_groups
        yield "pyhudi_table_bytes", {}, facts.files.size
        yield "pyhudi_table_small_files", {}, facts.files.small_files
    if isinstance(facts.logs, LogFacts):
        yield "pyhudi_table_log_files", {}, facts.logs.log_files
        yield "pyhudi_table_log_bytes", {}, facts.logs.log_bytes


def _of_health(facts: ReportFacts) -> Iterator[Value]:
    if not isinstance(facts.services, Unavailable):
        for service in facts.services:
            yield "pyhudi_table_service_due", {"service": service.name}, float(service.is_due)
    if isinstance(facts.diagnosis, Diagnosis):
        counts = Counter(finding.severity for finding in facts.diagnosis.findings)
        for severity in Severity:
            labels = {"severity": severity.value.lower()}
            yield "pyhudi_table_findings", labels, counts[severity]
        wrong = [f for f in facts.diagnosis.problems if f.code.startswith(_INDEX_CODES)]
        yield "pyhudi_table_index_healthy", {}, float(not wrong)
