"""Tables of (key, ordering value, payload), some of whose rows are marked as deletes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("v", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
ORDERS = {"older": 5, "between": 9, "equal": 10, "newer": 20}


class Keyed:
    """A table, and what to write to it: (key, ordering value, payload)."""

    def __init__(
        self,
        path: Path,
        kind: str,
        index: str,
        options: dict[str, str] | None = None,
        *,
        version: int | None = None,
    ) -> None:
        self.path = path / "t"
        named = dict(options or {})
        if index == "bucket":
            named["hoodie.bucket.index.num.buckets"] = "2"
        self.table = pyhudi.create_table(
            self.path, SCHEMA, record_key="id", ordering="ts", table_type=kind, index=index,
            version=version, options=named,
        )  # fmt: skip

    def put(self, *rows: tuple[str, int, int], deleted: bool = False) -> Any:
        made = [{"id": k, "ts": ts, "v": v, "_hoodie_is_deleted": deleted} for k, ts, v in rows]
        return self.table.upsert(pa.Table.from_pylist(made, SCHEMA))

    def live(self) -> dict[str, tuple[int, int]]:
        found = pyhudi.open_table(self.path).scan(with_meta=False).to_arrow().to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: (row["ts"], row["v"]) for row in found}
