"""Tasks that tests send to workers; plain functions, so that they pickle by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyhudi.errors import StorageError, UserError


def square(number: int) -> int:
    return number * number


def identity_of_first(pair: tuple[Any, int]) -> tuple[int, int]:
    return len(pair[0]), pair[1]


def refuse(number: int) -> int:
    raise UserError("no good", row=number, hint="try another")


def fail_once(folder: str) -> str:
    """Fails in its first attempt, with an error worth another."""
    try:
        (Path(folder) / "attempted").touch(exist_ok=False)
    except FileExistsError:
        return "second attempt"
    raise StorageError("the store is away", path=folder, retryable=True)


def fail_always(folder: str) -> str:
    with open(Path(folder) / "attempts", "a") as file:
        file.write("x")
    raise StorageError("the store is away", path=folder, retryable=True)


def divide(number: int) -> float:
    return 1 / number


def counted(folder: str) -> Any:
    """A function over batches that leaves a file for each time a partition is computed."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (Path(folder) / os.urandom(8).hex()).touch()
        yield from batches

    return count
