"""Two writers on one table, threads of a session or sessions of their own: no update is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
import pyhudi.spark as hudi
from tests.spark import writer_process

SCHEMA = "id string, n int, part string"
OPTIMISTIC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
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


@pytest.mark.parametrize(
    ("kind", "api"),
    [("cow", "verbs"), pytest.param("mor", "format", marks=pytest.mark.pyspark("4.0"))],
)
def test_two_writers_lose_no_update(spark: Any, tmp_path: Path, kind: str, api: str) -> None:
    path = tmp_path / "t"
    first = [row for writer in range(2) for row in rows(writer, -1)[:4]]
    hudi.upsert(
        spark.createDataFrame(first, SCHEMA), path, record_key="id", partition_by="part",
        table_type=kind,
    )  # fmt: skip

    def write(writer: int) -> None:
        for turn in range(ROUNDS):
            frame = spark.createDataFrame(rows(writer, turn), SCHEMA)
            if api == "verbs":
                hudi.open_table(spark, path, options=OPTIMISTIC).upsert(frame)
            else:
                frame.write.format("pyhudi").options(**OPTIMISTIC).mode("append").save(str(path))

    together(lambda: write(0), lambda: write(1))
    table = pyhudi.open_table(path)
    stored = {r["id"]: r["n"] for r in table.scan(["id", "n"]).to_arrow().to_pylist()}
    want = {f"w{w}-{n}": ROUNDS - 1 for w in range(2) for n in range(4)}
    want |= {f"new-{w}-{turn}": turn for w in range(2) for turn in range(ROUNDS)}
    assert stored == want
    assert table.index.verify().is_exact and not table.timeline.pending


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_two_sessions_lose_no_update_of_keys_they_share(tmp_path: Path, kind: str) -> None:
    """Each value is written once.  A shared key has the value of the newest commit, and a key of
    one writer that of its last turn: a write on top of a state that lacks another's is seen."""
    path, turns = tmp_path / "t", 4
    schema = pa.schema({"id": pa.string(), "n": pa.int32(), "part": pa.string()})
    pyhudi.create_table(path, schema, record_key="id", partition_by="part", table_type=kind)
    first = [dict(zip(schema.names, r, strict=True)) for w in range(2) for r in first_rows(w)]
    pyhudi.open_table(path).upsert(pa.Table.from_pylist(first, schema))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.spark.writer_process", str(path)]
    children = [
        subprocess.Popen(
            [*command, str(writer), str(turns)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for writer in range(2)
    ]  # fmt: skip
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    answers = [child.communicate("go\n", timeout=600)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    written = {}
    for answer in answers:
        written.update(dict(line.split() for line in answer.splitlines()))
    assert len(written) == 2 * turns
    table = pyhudi.open_table(path)
    assert set(written) <= {str(i.time) for i in table.timeline.commits}
    found = table.scan(["id", "n", "_hoodie_commit_time"]).to_arrow().to_pylist()
    stored = {row["id"]: row["n"] for row in found}
    newest = int(written[max(written)])
    want = dict.fromkeys(writer_process.SHARED, newest)
    for writer in range(2):
        last = writer_process.value(writer, turns - 1)
        want |= {f"own-{writer}-{n}": last for n in range(4)}
    assert stored == want and len(found) == len(stored)
    assert all(str(row["n"]) == written[row["_hoodie_commit_time"]] for row in found)
    assert table.index.verify().is_exact and not table.timeline.pending


def first_rows(writer: int) -> list[tuple[str, int, str]]:
    """Shared keys once, and those of each writer."""
    return writer_process.rows(writer, 0)[0 if writer == 0 else len(writer_process.SHARED) :]
