"""Sources of rows for tests."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pyhudi.ingest import SourceBatch, SourceLag, SourceLimits


class Counting:
    """Rows id = 0, 1, ... up to `stop`, `step` a batch; the checkpoint is the next number."""

    def __init__(self, stop: int, step: int) -> None:
        self._stop, self._step = stop, step

    def __repr__(self) -> str:
        return "Counting()"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        first = int(checkpoint or 0)
        if first >= self._stop:
            return None
        after = min(self._stop, first + min(self._step, limits.rows or self._step))
        numbers = range(first, after)
        rows = pa.table({"id": [f"k{n}" for n in numbers], "n": list(numbers)})
        return SourceBatch(rows.to_reader(), str(after))

    def lag(self, checkpoint: str | None) -> SourceLag:
        return SourceLag(rows=self._stop - int(checkpoint or 0))


def counting(properties: Mapping[str, str]) -> Counting:
    """A source of properties: stop, step."""
    return Counting(int(properties["stop"]), int(properties.get("step", properties["stop"])))
