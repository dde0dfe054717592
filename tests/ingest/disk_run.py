"""A disk that is full at one call of an ingest, for calls of each part of a run.

    python -m tests.ingest.disk_run CALLS         run by `run_with_shim`

CALLS: how many calls are tried, spread over the run.  The run ends with an error in one line or
succeeds; the table then has the rows of its checkpoint, and the next run completes them.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi
from pyhudi.errors import PyhudiError
from pyhudi.ingest import Stream
from tests.crash.disk import disk_shim, in_child, in_first_child
from tests.support.row_sources import Counting

ROWS = 6


def _stream(place: Path) -> Stream:
    if not place.exists():
        schema = pa.schema({"id": pa.string(), "n": pa.int64()})
        pyhudi.create_table(place, schema, record_key="id", table_type="mor")
    return Stream(Counting(ROWS, 2), pyhudi.open_table(place))


def _numbers(place: Path) -> tuple[list[int], int]:
    """The rows, and the checkpoint."""
    table = pyhudi.open_table(place)
    found = table.scan(["n"]).to_arrow()["n"].to_pylist()
    return sorted(found), int(table.checkpoint() or 0)


def _count(place: Path) -> int:
    stream = _stream(place)
    disk_shim().disk_arm(-1, 0, 0)
    stream.run()
    return int(disk_shim().disk_calls())


def _try(place: Path, call: int) -> str:
    stream, outcome = _stream(place), "succeeded"
    disk_shim().disk_arm(call, errno.ENOSPC, 0)
    try:
        stream.run()
    except PyhudiError as error:
        outcome = str(error)
    finally:
        disk_shim().disk_arm(-1, 0, 0)
    assert "\n" not in outcome, outcome
    rows, checkpoint = _numbers(place)
    assert rows == list(range(checkpoint)), f"rows {rows} of the checkpoint {checkpoint}"
    assert checkpoint == ROWS or outcome != "succeeded", "it succeeded without its rows"
    _stream(place).run()
    assert _numbers(place) == (list(range(ROWS)), ROWS), "the next run did not complete the rows"
    return outcome


def main() -> int:
    folder, trials = Path(os.environ["PYHUDI_DISK_ROOT"]), int(sys.argv[1])
    how, calls = in_first_child(lambda: _count(folder / "counted"))
    assert how == "ok", calls
    problems = 0
    for call in range(0, calls, max(1, calls // trials)):
        answer: list[Any] = in_child(lambda call=call: _try(folder / str(call), call))
        problems += answer[0] != "ok"
        print(f"call {call} of {calls}: {answer[1]}")
    return 3 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
