"""Stream readers by PySpark version, with the one for PySpark 4.0 and 4.1."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.records import BEFORE_ALL_COMMITS, Position
from pyhudi.spark.error_lines import line_first
from pyhudi.spark.source.stream_reader import TableStream, stream_request


@line_first()
def stream(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """The stream reader for the installed PySpark version."""
    settings = stream_request(options)
    if find_spec("pyspark.sql.streaming.datasource") is None:
        return PlainStream(settings, schema)
    from pyhudi.spark.source.rate_limit import AdmittingStream

    return AdmittingStream(settings, schema)


class PlainStream(TableStream):
    """For PySpark 4.0 and 4.1, which pass neither start nor limit of a batch: it tracks the start
    and applies the limits of the options."""

    last: Position | None = None

    def initialOffset(self) -> dict[str, str]:
        found = super().initialOffset()
        self.last = Position(found["instant"])
        return found

    def latestOffset(self) -> dict[str, str]:  # type: ignore[override]
        start = self.last or BEFORE_ALL_COMMITS
        limits = self.settings.limits if self.last is not None else None
        return self.after(start, limits)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        self.last = Position(end["instant"])
        return super().partitions(start, end)
