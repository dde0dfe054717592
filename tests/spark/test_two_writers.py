"""Two writers of one session on one table, each in a thread: nothing of either is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyhudi
import pyhudi.spark as hudi

SCHEMA = "id string, n int, part string"
BESIDE = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
ROUNDS = 3


def rows(writer: int, turn: int) -> list[tuple[str, int, str]]:
    """Keys of this writer alone and, of both, the shared ones; the same partitions."""
    own = [(f"w{writer}-{n}", turn, f"p{n % 2}") for n in range(4)]
    return [*own, (f"new-{writer}-{turn}", turn, "p0")]


def together(*work: Callable[[], None]) -> None:
    raised: list[BaseException] = []

    def one(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=(task,)) for task in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize(("kind", "door"), [("cow", "verbs"), ("mor", "format")])
def test_two_writers_lose_no_update(spark: Any, tmp_path: Path, kind: str, door: str) -> None:
    path = tmp_path / "t"
    first = [row for writer in range(2) for row in rows(writer, -1)[:4]]
    hudi.upsert(
        spark.createDataFrame(first, SCHEMA), path, record_key="id", partition_by="part",
        table_type=kind,
    )  # fmt: skip

    def write(writer: int) -> None:
        for turn in range(ROUNDS):
            frame = spark.createDataFrame(rows(writer, turn), SCHEMA)
            if door == "verbs":
                hudi.open_table(spark, path, options=BESIDE).upsert(frame)
            else:
                frame.write.format("pyhudi").options(**BESIDE).mode("append").save(str(path))

    together(lambda: write(0), lambda: write(1))
    table = pyhudi.open_table(path)
    held = {r["id"]: r["n"] for r in table.scan(["id", "n"]).to_arrow().to_pylist()}
    want = {f"w{w}-{n}": ROUNDS - 1 for w in range(2) for n in range(4)}
    want |= {f"new-{w}-{turn}": turn for w in range(2) for turn in range(ROUNDS)}
    assert held == want
    assert table.index.verify().is_exact and not table.timeline.pending
