"""The stream reader for PySpark 4.2 and newer, which pass the start and the limit of a batch."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyhudi.records import BEFORE_ALL_COMMITS, Position
from pyhudi.spark.error_lines import line_first
from pyhudi.spark.source.stream_reader import TableStream, newest_offset


class AdmittingStream(TableStream, SupportsTriggerAvailableNow):
    """Applies the limits of the options when Spark requests a limited batch."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Any limit represents all limits of the options: Spark has none for commits."""
        limits = self.settings.limits
        return ReadMaxRows(limits.rows) if limits.are_set else ReadAllAvailable()

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        everything = isinstance(limit, ReadAllAvailable)
        return self.after(Position(start["instant"]), None if everything else self.settings.limits)

    @line_first()
    def reportLatestOffset(self) -> dict[str, str]:
        return {"instant": newest_offset(self._state(), BEFORE_ALL_COMMITS)}

    @line_first()
    def prepareForTriggerAvailableNow(self) -> None:
        self.target = newest_offset(self._state(), BEFORE_ALL_COMMITS)
