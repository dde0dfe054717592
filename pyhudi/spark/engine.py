"""SparkEngine: tasks of a write or a read on Spark's executors, one job a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

from pyhudi.spark.frames import default_parallelism, numbers
from pyhudi.spark.job_submission import ship
from pyhudi.spark.worker import Items, TaskOrder, run_items

_T = TypeVar("_T")
_R = TypeVar("_R")


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

    def run(self, task: Callable[[_T], _R], items: Sequence[_T], *, label: str) -> list[_R]:
        """Results in order.

        Items travel together, so what they share travels once, and are dealt in turn to as many
        Spark tasks as run at one time: each Spark task has a price, whatever it does.
        """
        if not items:
            return []
        hands = min(len(items), self._parallelism)
        frame = numbers(self.spark, hands, slices=hands)
        order = TaskOrder(run_items, Items(task, tuple(items), hands))
        results: dict[int, _R] = {}
        for returned in ship(frame, order, label=label):
            number, result = returned.value
            results[number] = result
        return [results[number] for number in range(len(items))]
