"""SparkEngine: tasks of a write or a read on Spark's executors, one job a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from pyhudi.spark.frames import default_parallelism, numbers
from pyhudi.spark.shipping import ship
from pyhudi.spark.worker import Items, Order, run_items

T = TypeVar("T")
R = TypeVar("R")

_WAVES: Final = 8
"""Spark tasks per slot and run at most: more even out nothing and cost a start each."""


class SparkEngine:
    """Runs tasks on the executors of a session, classic or Connect."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._parallelism = default_parallelism(spark)

    @property
    def parallelism(self) -> int:
        return self._parallelism

    @property
    def shares_memory(self) -> bool:
        return False

    def run(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """Results in order.  Items travel together, so what they share travels once."""
        if not items:
            return []
        slices = min(len(items), _WAVES * self._parallelism)
        frame = numbers(self.spark, len(items), slices=slices)
        order = Order(run_items, Items(task, tuple(items)))
        results: dict[int, R] = {}
        for returned in ship(frame, order, label=label):
            number, result = returned.value
            results[number] = result
        return [results[number] for number in range(len(items))]
