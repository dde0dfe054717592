"""Options of Apache Hudi that say which table services run concurrently with an ingest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.ingest.concurrent_services import ConcurrentServices
from pyhudi.options.parse import parsed_value
from pyhudi.options.value_types import FLAG, count

_CLUSTERING: Final = (
    "hoodie.clustering.async.enabled",
    "hoodie.datasource.clustering.async.enable",
)
_CLUSTERING_COMMITS: Final = "hoodie.clustering.async.max.commits"
_ALWAYS: Final = (
    "hoodie.datasource.compaction.async.enable",
    "hoodie.clean.async.enabled",
    "hoodie.clean.async",
    "hoodie.archive.async",
)
"""Flags of services that a continuous ingest runs concurrently whatever their value."""
_OFF: Final = {
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
}
_COMMITS: Final = "4"  # Apache Hudi's default


def without_service_rules(table: Mapping[str, str]) -> dict[str, str]:
    """Options of a table, without those of concurrent services.  Raises OptionError for invalid
    values of these."""
    for name in (*_CLUSTERING, *_ALWAYS):
        _is_true(table, name)
    names = {*_CLUSTERING, *_ALWAYS, _CLUSTERING_COMMITS}
    return {name: text for name, text in table.items() if name not in names}


def without_compaction(table: Mapping[str, str]) -> dict[str, str]:
    """Options of a table that plan and run no compaction after a batch."""
    return {**table, **_OFF}


def service_rules(
    table: Mapping[str, str],
    *,
    compaction: bool,
    pending_compactions_max: int | None,
    pending_clusterings_max: int | None,
) -> ConcurrentServices:
    """The concurrent services of a continuous ingest, by the options given for its table.

    None: Apache Hudi's default.  Raises OptionError for invalid values.
    """
    default = ConcurrentServices()
    text = table.get(_CLUSTERING_COMMITS, _COMMITS)
    commits = parsed_value(count(1), _CLUSTERING_COMMITS, text)
    clusters = any(_is_true(table, name) for name in _CLUSTERING)
    return ConcurrentServices(
        compaction=compaction,
        clustering_commits=commits if clusters else None,
        pending_compactions_max=pending_compactions_max or default.pending_compactions_max,
        pending_clusterings_max=pending_clusterings_max or default.pending_clusterings_max,
    )


def _is_true(table: Mapping[str, str], name: str) -> bool:
    return bool(parsed_value(FLAG, name, table.get(name, "false")))
