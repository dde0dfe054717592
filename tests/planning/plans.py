"""What the planners choose of one table, as a golden text.

    python -m tests.planning.plans > tests/golden/plans.txt

The table has three partitions of days.  A file slice is `group@instant`, with its bytes in MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

from pyhudi.filenames import DataFileName
from pyhudi.layouts.v6 import V6
from pyhudi.options import ClusteringOptions, CompactionOptions, CompactionStrategy, SliceOrder
from pyhudi.options.service_settings import ExpiryOptions
from pyhudi.planning import ttl
from pyhudi.planning.cleaning import Claims, Retention, outdated
from pyhudi.planning.clustering import clusterable
from pyhudi.planning.compaction import compactable
from pyhudi.records import FileGroupId
from pyhudi.storage.filesystem import FileInfo
from pyhudi.table.file_group_view import FileSlice, PendingPlans, TableView, Visibility, build_view
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.timeline import Timeline
from tests.support.shells import T, base, delta

GOLDEN = Path(__file__).parents[1] / "golden" / "plans.txt"
_MB = 1 << 20
_DAYS = ("2026/11/20", "2026/11/21", "2026/11/22")
_TODAY = date(2026, 11, 22)
_FILES: tuple[tuple[str, DataFileName, int], ...] = (
    (_DAYS[0], base("a", T[1]), 100), (_DAYS[0], base("a", T[3]), 110),
    (_DAYS[0], base("a", T[6]), 120), (_DAYS[0], delta("a", T[6], 1), 30),
    (_DAYS[0], base("b", T[1]), 10), (_DAYS[0], delta("b", T[1], 1), 4),
    (_DAYS[0], delta("b", T[1], 2), 4),
    (_DAYS[1], base("c", T[2]), 20), (_DAYS[1], base("c", T[5]), 20),
    (_DAYS[1], base("d", T[2]), 30), (_DAYS[1], delta("d", T[2], 1), 50),
    (_DAYS[2], base("e", T[4]), 5), (_DAYS[2], delta("f", T[4], 1), 1),
    (_DAYS[2], base("g", T[7]), 400),
)  # fmt: skip


def main() -> None:
    print(render(), end="")


def render() -> str:
    """All plans, one paragraph a planner and its options."""
    return "\n".join("\n".join([f"# {title}", *lines]) + "\n" for title, lines in _plans())


def _plans() -> Iterator[tuple[str, list[str]]]:
    view = _view()
    busy = replace(view, pending=PendingPlans(compacting={FileGroupId(_DAYS[0], "a"): T[8]}))
    for strategy in CompactionStrategy:
        options = CompactionOptions(strategy=strategy, mib_max=300, days=1, pattern=".*/2[12]")
        yield f"compaction, {strategy.value}", _shown(compactable(view, options, today=_TODAY))
    every = CompactionOptions(strategy=CompactionStrategy.UNBOUNDED)
    yield "compaction, a is in a pending plan", _shown(compactable(busy, every, today=_TODAY))
    small = ClusteringOptions(small_file_bytes=200 * _MB, target_file_bytes=100 * _MB)
    for order in SliceOrder:
        expected = clusterable(view, replace(small, slice_order=order), partitions=_DAYS)
        lines = [
            f"-> {g.output_count} files of {', '.join(_shown(g.slices))}" for g in expected.groups
        ]
        yield f"clustering, slices by {order.value}", lines
    for title, retention in {
        "the newest slice": Retention(None, 1),
        f"what readers since {T[4]} need": Retention(T[4]),
    }.items():
        for name, claims in {"": Claims(), ", c saved": _claims(view, "c")}.items():
            gone = [s for g in view.groups.values() for s in outdated(g, retention, claims)]
            yield f"cleaning, retains {title}{name}", _shown(sorted(gone, key=_place))
    written = ttl.last_written(view.latest_slices(), {})
    yield (
        "TTL, partitions last written before " + T[6],
        list(ttl.expired(written, ExpiryOptions(), limit=T[6])),
    )


def _claims(view: TableView, file_id: str) -> Claims:
    files = [f for g in view.groups.values() for s in g.slices for f in s.files]
    saved = [file for file in files if file.name.file_id == file_id]
    return Claims({saved[0].partition: {str(file.name) for file in saved}})


def _view() -> TableView:
    done = [Instant(t, Action.DELTA_COMMIT, State.COMPLETED) for t in T[1:9]]
    files = [(day, FileInfo(f"{day}/{name}", size * _MB)) for day, name, size in _FILES]
    return build_view(files, Visibility.of(Timeline.of(done)), layout=V6)


def _shown(slices: Iterable[FileSlice]) -> list[str]:
    return [
        f"{s.partition} {s.file_id}@{s.instant[-2:]} {s.size_bytes // _MB} MB, {len(s.logs)} logs"
        for s in slices
    ]


def _place(file_slice: FileSlice) -> tuple[str, str, str]:
    return file_slice.partition, file_slice.file_id, file_slice.instant


if __name__ == "__main__":
    main()
