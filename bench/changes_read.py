"""How long does an incremental read of 100 commits take, beside Apache Hudi and Delta?

    python -m bench.changes_read [--rows 200000] [--commits 100] [--apache-hudi VERSION] [--smoke]

Copy-on-write and merge-on-read tables get a bulk insert and as many upserts of a hundredth of the
rows (9 in 10 of them updates), nothing cleaned or archived.  Then the changes of the last commit,
the last ten and all commits are read: the first read in the process and the median of five later
ones.  Apache Hudi reads the same tables in a process that has read a snapshot of them before, and
counts the rows; delta-rs reads the change feed of its own table with the same merges, which has a
row before and one after each update.

The rows of each read of pyhudi and Apache Hudi are verified against the input.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from bench.compaction import ApacheHudi
from bench.results import state

OPTIONS = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
LATER = 5
KINDS = ("cow", "mor")


def rows_of(numbers: np.ndarray[Any, Any], version: int) -> pa.Table:
    names = pa.array([f"p{n}" for n in range(8)])
    return pa.table(
        {
            "id": pa.array([f"k{n:09d}" for n in numbers.tolist()]),
            "part": names.take(pa.array(numbers % 8)),
            "ts": pa.array(np.full(len(numbers), version)),
            "v": pa.array(numbers * 7 + version),
            "note": pa.array([f"note {n % 1000} of {version}" for n in numbers.tolist()]),
        }
    )


def batches(rows: int, commits: int) -> list[np.ndarray[Any, Any]]:
    """The numbers of the rows of each upsert."""
    rng, size = np.random.default_rng(7), max(10, rows // 100)
    found = []
    for commit in range(commits):
        old = rng.choice(rows, size * 9 // 10, replace=False)
        fresh = rows + commit * size + np.arange(size // 10)
        found.append(np.sort(np.concatenate([old, fresh])))
    return found


def built(path: Path, kind: str, rows: int, upserts: list[np.ndarray[Any, Any]]) -> list[str]:
    """The instants of all commits, that of the bulk insert first."""
    first = rows_of(np.arange(rows), 0)
    table = pyhudi.create_table(
        path,
        first.schema,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type=kind,
        version=6,
        options=OPTIONS,
    )
    times = [table.bulk_insert(first).instant]
    times += [table.upsert(rows_of(some, n)).instant for n, some in enumerate(upserts, 1)]
    return [str(time) for time in times]


def expected_changes(upserts: list[np.ndarray[Any, Any]], last: int) -> tuple[int, int]:
    """Rows and sum of v that the changes of the last so many commits have: newest rows alone."""
    newest: dict[int, int] = {}
    for version in range(len(upserts) - last, len(upserts)):
        newest.update(dict.fromkeys(upserts[version].tolist(), version + 1))
    return len(newest), sum(number * 7 + version for number, version in newest.items())


def timed(read: Callable[[], Any], verify: Callable[[Any], None]) -> tuple[float, float]:
    """Milliseconds: of the first read, and the median of the later ones."""
    spent = []
    for _ in range(1 + LATER):
        began = time.perf_counter()
        answer = read()
        spent.append((time.perf_counter() - began) * 1000)
        verify(answer)
    return spent[0], statistics.median(spent[1:])


def by_pyhudi(path: Path, since: str, expected: tuple[int, int]) -> tuple[float, float]:
    table = pyhudi.open_table(path)

    def verify(rows: pa.Table) -> None:
        found = (rows.num_rows, pc.sum(rows.column("v")).as_py())
        assert found == expected, f"{path.name} since {since}: {found} and not {expected}"

    return timed(lambda: table.changes(since).to_arrow(), verify)


def by_apache_hudi(
    hudi: ApacheHudi, path: Path, since: str, expected: tuple[int, int]
) -> tuple[float, float]:
    def verify(answer: dict[str, Any]) -> None:
        assert answer["rows"] == expected[0], f"{answer['rows']} and not {expected[0]}"

    return timed(
        lambda: hudi.call("read", path=str(path), query="incremental", begin=since), verify
    )


def by_delta(path: Path, rows: int, upserts: list[np.ndarray[Any, Any]], lasts: list[int]) -> None:
    import deltalake

    deltalake.write_deltalake(
        path,
        rows_of(np.arange(rows), 0),
        partition_by=["part"],
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    table = deltalake.DeltaTable(path)
    for version, some in enumerate(upserts, 1):
        merge = table.merge(
            rows_of(some, version),
            "t.part = s.part and t.id = s.id",
            source_alias="s",
            target_alias="t",
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    newest = table.version()
    for last in lasts:
        version = newest - last + 1
        first, later = timed(
            partial(_change_feed, table, version), partial(_same_count, upserts[-last:])
        )
        show("Delta change feed (delta-rs)", last, first, later)


def _change_feed(table: Any, version: int) -> pa.Table:
    return pa.table(table.load_cdf(starting_version=version).read_all())


def _same_count(upserts: list[np.ndarray[Any, Any]], rows: pa.Table) -> None:
    """Each row merged is there after the change, once a commit."""
    types = rows.column("_change_type").cast(pa.string())
    found = pc.sum(pc.is_in(types, pa.array(["insert", "update_postimage"]))).as_py()
    expected = sum(len(some) for some in upserts)
    assert found == expected, f"change feed: {found} and not {expected}"


def show(who: str, last: int, first: float, later: float) -> None:
    print(f"| {who} | {last} | {first:.1f} | {later:.1f} |", flush=True)
    state(f"changes of {last} commits, {who}", f"first {first:.1f} ms, later {later:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--apache-hudi")
    parser.add_argument("--no-delta", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rows, arguments.commits, arguments.no_delta = 2_000, 5, True
    lasts = sorted({1, min(10, arguments.commits), arguments.commits})
    upserts = batches(arguments.rows, arguments.commits)
    size = len(upserts[0])
    print(f"{arguments.rows:,} rows, {arguments.commits} upserts of {size:,} (9 in 10 updates)")
    print("| read by | commits | first ms | later ms |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="bench-changes-") as name:
        folder = Path(name)
        times = {kind: built(folder / kind, kind, arguments.rows, upserts) for kind in KINDS}
        for kind in KINDS:
            for last in lasts:
                found = by_pyhudi(
                    folder / kind, times[kind][-last - 1], expected_changes(upserts, last)
                )
                show(f"pyhudi {kind.upper()}", last, *found)
        if arguments.apache_hudi:
            hudi = ApacheHudi(arguments.apache_hudi)
            try:
                for kind in KINDS:
                    hudi.call("read", path=str(folder / kind))  # starts the session
                    for last in lasts:
                        expected = expected_changes(upserts, last)
                        found = by_apache_hudi(
                            hudi, folder / kind, times[kind][-last - 1], expected
                        )
                        show(f"Apache Hudi {arguments.apache_hudi} {kind.upper()}", last, *found)
            finally:
                hudi.end()
        if not arguments.no_delta:
            by_delta(folder / "delta", arguments.rows, upserts, lasts)


if __name__ == "__main__":
    main()
