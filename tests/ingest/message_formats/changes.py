"""Envelopes of changes as Debezium writes them."""

from __future__ import annotations

import json
from typing import Any

POSTGRESQL: dict[str, Any] = {
    "version": "2.7.3.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1_700_000_000_000,
    "snapshot": "false", "db": "shop", "sequence": '["24023119","24023128"]', "schema": "public",
    "table": "trips", "txId": 555, "lsn": 24_023_128, "xmin": None,
}  # fmt: skip
MYSQL: dict[str, Any] = {
    "version": "2.7.3.Final", "connector": "mysql", "name": "shop", "ts_ms": 1_700_000_000_000,
    "snapshot": "false", "db": "shop", "sequence": None, "table": "trips", "server_id": 1,
    "gtid": None, "file": "mysql-bin.000003", "pos": 484, "row": 0, "thread": 7, "query": None,
}  # fmt: skip


def change(
    op: str, before: Any, after: Any, source: dict[str, Any] = POSTGRESQL, **position: Any
) -> dict[str, Any]:
    """position: fields of the source that are replaced."""
    return {
        "before": before, "after": after, "source": {**source, **position},
        "op": op, "ts_ms": 1_700_000_000_123, "transaction": None,
    }  # fmt: skip


def wrapped(payload: Any, schema: Any = None) -> bytes:
    """With the schema of Kafka Connect, in its compact form."""
    form = schema or {"type": "struct", "fields": [{"type": "int64", "field": "ts_ms"}]}
    return json.dumps({"schema": form, "payload": payload}, separators=(",", ":")).encode()


def dms_message(operation: str, data: Any) -> dict[str, Any]:
    """As AWS DMS writes it."""
    metadata = {
        "timestamp": "2024-01-02T03:04:05.123456Z", "record-type": "data", "operation": operation,
        "partition-key-type": "schema-table", "schema-name": "shop", "table-name": "trips",
    }  # fmt: skip
    return {"data": data, "metadata": metadata}
