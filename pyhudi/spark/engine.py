"""SparkEngine: runs tasks of writes and reads on Spark executors, one Spark job per run."""

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
    """Runs tasks on the executors of a Spark session, classic or Connect."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._parallelism = default_parallelism(spark)

    @property
    def parallelism(self) -> int:
        """Number of tasks that run concurrently."""
        return self._parallelism

    @property
    def shares_memory(self) -> bool:
        """False: tasks run on the workers."""
        return False

    def run(self, task: Callable[[_T], _R], items: Sequence[_T], *, label: str) -> list[_R]:
        """Results in order.

        All items are pickled together, so objects that they share are sent once.  They are
        distributed round-robin over as many Spark tasks as run concurrently, because every Spark
        task has a fixed cost.
        """
        if not items:
            return []
        task_count = min(len(items), self._parallelism)
        frame = numbers(self.spark, task_count, slices=task_count)
        order = TaskOrder(run_items, Items(task, tuple(items), task_count))
        results: dict[int, _R] = {}
        for returned in ship(frame, order, label=label):
            number, result = returned.value
            results[number] = result
        return [results[number] for number in range(len(items))]
