"""An object store that fails at any request.

    python -m tests.crash.store [--every N] [--seed S]

Each operation is run on a copy of one table behind a proxy that answers its N-th request wrongly:
409, 412, 500 or 503 before the store did its work, 500, 503 or no answer after it, late, or cut
short.  The table then holds the old rows or the new ones, as the operation said, and the next write
works.  One line of totals; exit code 3 where anything failed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

import pyhudi
from pyhudi.errors import PyhudiError
from tests.crash.disk import OPERATIONS, OPTIONS, PROBLEMS, SCHEMA, Totals, rows
from tests.support.faulty import Fault, Proxy, faulty
from tests.support.object_stores import shared_s3

FAULTS: Final[dict[str, Callable[[int], Fault]]] = {
    "409": lambda at: Fault("", "", status=409, at=at),
    "412": lambda at: Fault("", "", status=412, at=at),
    "500": lambda at: Fault("", "", status=500, at=at),
    "503": lambda at: Fault("", "", status=503, at=at),
    "no answer": lambda at: Fault("", "", at=at),
    "done, 500": lambda at: Fault("", "", status=500, done=True, at=at),
    "done, 503": lambda at: Fault("", "", status=503, done=True, at=at),
    "done, no answer": lambda at: Fault("", "", done=True, at=at),
    "done, late": lambda at: Fault("", "", done=True, delay_seconds=3.0, at=at),
    "cut short": lambda at: Fault("", "", cut=5, at=at),
}
_RETRIES: Final = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=5),
    "backoff": {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(seconds=0.05)},
}
_NAMES: Final = itertools.count()


def open_(url: str, options: dict[str, Any]) -> pyhudi.Table:
    return pyhudi.open_table(url, options=OPTIONS, storage_options=options)


def make_table() -> str:
    """The table of the disk sweep, on the server itself.  Its URL."""
    url, options = f"s3://bucket/sweep/{next(_NAMES)}", shared_s3().options
    table = pyhudi.create_table(url, SCHEMA, record_key="id", table_type="mor", options=OPTIONS,
                                storage_options=options)  # fmt: skip
    table.bulk_insert(rows(range(10), 1))
    for value in (2, 3):
        table.upsert(rows(range(5), value))
        table.compact()
    table.upsert(rows(range(5), 4))
    return url


def snapshot(url: str) -> dict[str, int]:
    found = open_(url, shared_s3().options).scan(["id", "v"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


def check_goes_on(url: str, stored: dict[str, int]) -> None:
    """The next write works, and rows and index agree."""
    options = shared_s3().options
    open_(url, options).upsert(rows(range(30, 32), 9))
    want = stored | {"k30": 9, "k31": 9}
    assert snapshot(url) == want, "the next write lost rows"
    keys = pa.array([f"k{n}" for n in range(40)])
    found = open_(url, options).lookup(keys)["found"].to_pylist()
    assert found == [key in want for key in keys.to_pylist()], "index and rows differ"


def try_fault(proxy: Proxy, operation: str, fault: Fault | None) -> tuple[str, int]:
    """(succeeded or failed, requests) of an operation; AssertionError where the table is wrong."""
    url = make_table()
    old, new = snapshot(url), dict[str, int]()
    options = {**shared_s3().options, "endpoint": proxy.endpoint, "timeout": "1s",
               "retry_config": _RETRIES}  # fmt: skip
    table = open_(url, options)
    proxy.arm([fault] if fault else [])
    outcome = "succeeded"
    try:
        OPERATIONS[operation](table)
    except PyhudiError:
        outcome = "failed"
    requests = len(proxy.seen)
    proxy.arm([])
    stored, new = snapshot(url), after(operation, old)
    assert stored in (old, new), f"neither the old rows nor the new: {stored}"
    assert outcome == "failed" or stored == new, "it succeeded without an effect"
    assert outcome == "succeeded" or stored == old, "it failed, yet its rows are there"
    check_goes_on(url, stored)
    return outcome, requests


def after(operation: str, old: dict[str, int]) -> dict[str, int]:
    """The rows that an operation makes of others."""
    changed = {"insert": range(20, 23), "upsert": range(2, 22)}.get(operation, range(0))
    gone = {"k1", "k2"} if operation == "delete" else set()
    return {key: v for key, v in old.items() if key not in gone} | {f"k{n}": 5 for n in changed}


def sweep(proxy: Proxy, every: int, seed: int, operations: list[str]) -> Totals:
    """One fault at each `every`-th request of each operation, the faults in turn."""
    totals, names = Totals(), list(FAULTS)
    for operation in operations:
        _, requests = try_fault(proxy, operation, None)
        for at in range(seed % every, requests, every):
            name = names[(at // every + seed) % len(names)]
            totals.trials += 1
            try:
                outcome, _ = try_fault(proxy, operation, FAULTS[name](at))
                setattr(totals, outcome, getattr(totals, outcome) + 1)
            except (AssertionError, PyhudiError) as error:
                seen = proxy.faulted or "no request"
                totals.add(f"{operation}, {name} at request {at} ({seen}): {error}")
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS))
    parser.add_argument("--version", default="9", help="of the tables")
    arguments = parser.parse_args()
    OPTIONS["hoodie.write.table.version"] = arguments.version
    with faulty(shared_s3().options["endpoint"]) as proxy:
        totals = sweep(proxy, arguments.every, arguments.seed, arguments.operations)
    print(totals.line())
    return PROBLEMS if totals.problems else 0


if __name__ == "__main__":
    sys.exit(main())
