"""Option names of the HBase index."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured
from pyhudi.options.value_types import FLAG, TEXT, count, duration, number

_TO: Final = "write.index_rules.hbase"

ROWS: Final[tuple[Row, ...]] = (
    honoured("hoodie.index.hbase.table", TEXT, f"{_TO}.table"),
    honoured(
        "pyhudi.index.hbase.gateway", TEXT, f"{_TO}.gateway",
        "host:port of HBase's Thrift gateway; zkquorum's first host, port 9090, where it is not "
        "given",
    ),
    honoured(
        "pyhudi.index.hbase.region.servers", count(1), f"{_TO}.server_count",
        "number of region servers of the table; the gateway does not report it",
    ),
    honoured(
        "hoodie.index.hbase.zkquorum", TEXT, f"{_TO}.quorum",
        "its first host is the default gateway",
    ),
    honoured("hoodie.index.hbase.get.batch.size", count(1), f"{_TO}.get_batch"),
    honoured("hoodie.index.hbase.put.batch.size", count(1), f"{_TO}.put_batch"),
    honoured("hoodie.index.hbase.sleep.ms.for.get.batch", count(0), f"{_TO}.gets_wait_ms"),
    honoured("hoodie.index.hbase.sleep.ms.for.put.batch", count(0), f"{_TO}.puts_wait_ms"),
    honoured(
        "hoodie.index.hbase.max.qps.per.region.server", count(1), f"{_TO}.qps_per_server",
        "rows written per second; default: unlimited",
    ),
    honoured("hoodie.index.hbase.qps.fraction", number(1e-6, 1.0), f"{_TO}.qps_fraction"),
    honoured(
        "hoodie.index.hbase.zk.connection_timeout_ms", duration("ms"), f"{_TO}.connect_seconds",
        "for an answer of the gateway",
    ),
    honoured("hoodie.hbase.index.update.partition.path", FLAG, f"{_TO}.moves"),
    honoured("hoodie.index.hbase.rollback.sync", FLAG, f"{_TO}.rollback_sync"),
)  # fmt: skip
