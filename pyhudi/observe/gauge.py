"""Gauges of tables: their names, and their text for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

TABLE_GAUGES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "pyhudi_table_up": ("1 if the gauges of the table could be read", ()),
    "pyhudi_table_last_commit_timestamp_seconds": ("Unix time of the newest commit", ()),
    "pyhudi_table_last_commit_age_seconds": ("Age of the newest commit when it was read", ()),
    "pyhudi_table_instants": ("Instants of the active timeline", ()),
    "pyhudi_table_pending_instants": ("Instants that are not completed", ("action",)),
    "pyhudi_table_file_groups": ("File groups of the newest snapshot", ()),
    "pyhudi_table_bytes": ("Size of the newest snapshot, with logs", ()),
    "pyhudi_table_small_files": ("Base files below the limit of small files", ()),
    "pyhudi_table_log_files": ("Log files that a compaction would merge", ()),
    "pyhudi_table_log_bytes": ("Bytes of logs that a compaction would merge", ()),
    "pyhudi_table_service_due": ("1 if the table service is due", ("service",)),
    "pyhudi_table_findings": ("Findings of the doctor", ("severity",)),
    "pyhudi_table_index_healthy": ("1 if metadata table and index agree with the table", ()),
}
"""Name -> description, and labels besides `table`."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """One value.  labels: `table`, and those of `TABLE_GAUGES`."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    value: float = 0.0


def gauge_text(gauges: Iterable[Gauge]) -> str:
    """The gauges in the text format of Prometheus, as its textfile collector reads them."""
    found = list(gauges)
    return "".join(f"{line}\n" for name in TABLE_GAUGES for line in _lines(name, found))


def _lines(name: str, gauges: Iterable[Gauge]) -> Iterator[str]:
    mine = [gauge for gauge in gauges if gauge.name == name]
    if mine:
        yield f"# HELP {name} {TABLE_GAUGES[name][0]}"
        yield f"# TYPE {name} gauge"
    for gauge in mine:
        labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in gauge.labels.items())
        yield f"{name}{{{labels}}} {gauge.value:.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
