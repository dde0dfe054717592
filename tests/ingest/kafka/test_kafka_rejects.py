"""Messages of generated topics end in the table or in the error table, once, whatever ends a run.

The table gets new rows by `insert`, so a message that is written twice is two rows.
PYHUDI_TOPICS: how many topics.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.ingest import ErrorTable, KafkaSource, Retries, Stream
from tests.ingest.kafka.log_broker import LogBroker, log_broker
from tests.ingest.kafka.test_kafka_gaps import Topic, flaky

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
CASES = max(2, int(os.environ.get("PYHUDI_TOPICS", "2")) // 4)
FAST = Retries(50, first_seconds=0.01, max_seconds=0.05)


@pytest.fixture
def broker() -> Iterator[LogBroker]:
    with log_broker() as broker:
        yield broker


class Killed(BaseException):
    """The process ends here."""


class Mortal:
    """A table whose process may end before or after a commit."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self._table, self._rng = pyhudi.open_table(path), rng

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def ingest(self, rows: Any, **how: Any) -> Any:
        end = self._rng.random()
        if end < 0.1:
            next(iter(rows), None)
            raise Killed
        if end < 0.2:
            rows.read_all()
            raise Killed
        report = self._table.ingest(rows, **how)
        if end < 0.3:
            raise Killed
        return report


class Mixed(Topic):
    """A topic with messages that are no rows, and with rows that do not fit the table."""

    def _values(self) -> list[bytes | None]:
        found: list[bytes | None] = []
        for _ in range(self.rng.choice((1, 3, 20))):
            self.count += 1
            row: dict[str, Any] = {"id": f"k{self.count}", "ts": self.count, "city": "sf"}
            kind = self.rng.random()
            if kind < 0.1:
                found.append(b"no json %d" % self.count)
                continue
            if kind < 0.2:
                row |= {"id": None, "city": f"keyless {self.count}"}
            elif kind < 0.25:
                row |= {"ts": None}
            elif kind < 0.3:
                row |= {"ts": "late"}
            found.append(json.dumps(row).encode())
        return found

    def _compact(self, number: int, log: Any) -> None:
        """Nothing: all messages are to be found again."""

    def _expire(self, number: int, log: Any, reached: int) -> None:
        """Nothing."""


def transformed(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    return rows.read_all().to_reader(max_chunksize=7)


@pytest.mark.parametrize("seed", range(CASES))
def test_every_message_is_in_the_table_or_in_the_rejects_once(
    tmp_path: Path, broker: LogBroker, seed: int
) -> None:
    rng = random.Random(seed)
    topic = Mixed(broker, "mixed", rng)
    path, errors = tmp_path / "t", ErrorTable(str(tmp_path / "errors"))
    pyhudi.create_table(path, SCHEMA, record_key="id", ordering="ts", table_type="mor")
    kills = 0

    def run() -> None:
        nonlocal kills
        source = KafkaSource(
            broker.servers, "mixed", timeout_seconds=5, config={"fetch.wait.max.ms": 5}
        )
        stream = Stream(
            source, Mortal(path, rng), "insert",  # type: ignore[arg-type]
            max_rows=rng.choice((3, 10, 40, None)), max_bytes=rng.choice((None, 300)),
            bad_rows=errors, transform=transformed if seed % 2 else None,
        )  # fmt: skip
        try:
            stream.run(retries=FAST)
        except Killed:
            kills += 1

    for _ in range(6):
        for _ in range(rng.randint(2, 8)):
            topic.step({})
        broker.fault = flaky(rng)
        run()
    topic.finish()
    before = -1
    while before != kills:
        before = kills
        run()
    check(topic, path, errors, is_placed=not seed % 2)


def check(topic: Topic, path: Path, errors: ErrorTable, *, is_placed: bool) -> None:
    values = {
        (number, record.offset): record.value
        for number, log in enumerate(topic.logs)
        for chunk in log.chunks
        for record in chunk.records
        if (number, record.offset) in topic.sent
    }
    good, bad = Counter[str](), {}
    for place, value in values.items():
        row = json.loads(value) if value.startswith(b"{") else {}
        if row.get("id") and isinstance(row["ts"], int):
            good[row["id"]] += 1
        else:
            bad[place] = value
    found = Counter(pyhudi.open_table(path).scan(["id"]).to_arrow()["id"].to_pylist())
    assert found == good
    columns = ["raw", "position"]
    rejects = pyhudi.open_table(errors.path).scan(columns).to_arrow().select(columns).to_pylist()
    raws = Counter(_plain(row["raw"]) for row in rejects)
    assert raws == Counter(map(_plain, bad.values()))
    if is_placed:
        assert {row["position"] for row in rejects} == {f"mixed,{p}:{o}" for p, o in bad}


def _plain(raw: bytes) -> str:
    """A message as such, and as the row that was made of it."""
    return str(json.loads(raw)) if raw.startswith(b"{") else raw.decode()
