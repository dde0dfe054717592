"""Which face a stream shows to the PySpark that is installed; those of 4.0 and 4.1 are here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.errors import line_first
from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime
from pyhudi.spark.source.stream_reader import TableStream, stream_asked


@line_first()
def stream(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """The reader of a stream, with the face that the installed PySpark knows."""
    asked = stream_asked(options)
    if find_spec("pyspark.sql.streaming.datasource") is None:
        return PlainStream(asked, schema)
    from pyhudi.spark.source.rate_limit import AdmittingStream

    return AdmittingStream(asked, schema)


class PlainStream(TableStream):
    """For PySpark 4.0 and 4.1, which tell neither start nor limit: both are remembered."""

    last: InstantTime | None = None

    def initialOffset(self) -> dict[str, str]:
        found = super().initialOffset()
        self.last = InstantTime(found["instant"])
        return found

    def latestOffset(self) -> dict[str, str]:  # type: ignore[override]
        start = self.last or BEFORE_ALL_INSTANTS
        limits = self.asked.limits if self.last is not None else None
        return self.after(start, limits)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        self.last = InstantTime(end["instant"])
        return super().partitions(start, end)
