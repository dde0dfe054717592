"""The rows of bench.spark_upsert, and what a table must hold after all batches of them.

A base of `rows` rows of 9 columns in 8 partitions, then batches of which 90 % are updates.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

PARTITIONS = 8

CHECKS = (
    "count(*)",
    "sum(crc32(id))",
    "sum(ts)",
    "sum(a)",
    "sum(d)",
    "sum(length(s1))",
    "sum(length(s2))",
)
"""Of each partition, as SQL: rows doubled, lost, stale or of another partition change one."""

SNAPSHOT = ("count(*)", "sum(a)", "sum(length(s2))")
"""What queries of two columns return, as SQL."""

ALL_COLUMNS = (
    *SNAPSHOT,
    *(f"sum({text})" for text in ("ts", "d", "length(id)", "length(part)", "length(s1)")),
    *(f"sum(cast({name} * 1048576 as bigint))" for name in ("b", "c")),
)
"""What queries of all columns return: exact sums, also of the doubles."""

FILTER = "d < 10"
"""True for one row in a hundred."""


def make(folder: Path, rows: int, batch: int, batches: int) -> None:
    """base.parquet and up0.parquet, up1.parquet ...; those that are there are left as they are."""
    import numpy as np
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "base.parquet").exists():
        _write(pq, rows_of(np.arange(rows), 0, 0), folder / "base.parquet", 1 << 18)
    for number in range(batches):
        path = folder / f"up{number}.parquet"
        if path.exists():
            continue
        dice = np.random.default_rng(100 + number)
        old = dice.choice(rows, batch * 9 // 10, replace=False)
        new = np.arange(rows + number * batch // 10, rows + (number + 1) * batch // 10)
        _write(pq, rows_of(np.concatenate([old, new]), number + 1, 10 + number), path, 1 << 16)


def _write(pq: Any, table: Any, path: Path, row_group_size: int) -> None:
    """Whole, or not there."""
    part = path.with_suffix(".part")
    pq.write_table(table, part, row_group_size=row_group_size)
    part.replace(path)


def rows_of(numbers: Any, version: int, seed: int) -> Any:
    """Rows with these numbers: their keys and partitions are the same in every version."""
    import numpy as np
    import pyarrow as pa

    dice = np.random.default_rng(seed)
    count = len(numbers)
    numbers = np.asarray(numbers, np.uint64)
    spread = (numbers * np.uint64(0x9E3779B97F4A7C15)).tolist()
    return pa.table(
        {
            "id": [f"{a:016x}-{b:08d}" for a, b in zip(spread, numbers.tolist(), strict=True)],
            "ts": np.full(count, version, np.int64),
            "part": [f"p{number % PARTITIONS}" for number in numbers.tolist()],
            "a": dice.integers(0, 1 << 40, count),
            "b": dice.random(count),
            "c": dice.random(count),
            "d": dice.integers(0, 1000, count),
            "s1": [f"name-{x}" for x in dice.integers(0, 100_000, count).tolist()],
            "s2": [
                f"some longer text value {x}" for x in dice.integers(0, 1 << 30, count).tolist()
            ],
        }
    )


def newest_rows(folder: Path, batches: int) -> Any:
    """The rows after the base and all batches, as an Arrow table computed from the input alone."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    names = ["base", *(f"up{number}" for number in range(batches))]
    everything = pa.concat_tables(pq.read_table(folder / f"{name}.parquet") for name in names)
    numbers = pc.cast(pc.utf8_slice_codeunits(everything.column("id"), 17), pa.int64()).to_numpy()
    last = np.full(int(numbers.max()) + 1, -1)
    last[numbers] = np.arange(len(numbers))  # of equal numbers the last assignment stands
    return everything.take(pa.array(last[last >= 0]))


def expected_table(newest: Any) -> dict[str, list[int]]:
    """CHECKS of each partition of the newest rows."""
    import pyarrow.compute as pc

    found: dict[str, list[int]] = {}
    for part in newest.column("part").unique().to_pylist():
        rows = newest.filter(pc.equal(newest.column("part"), part))
        sums = [pc.sum(rows.column(name)).as_py() for name in ("ts", "a", "d")]
        texts = [pc.sum(pc.utf8_length(rows.column(name))).as_py() for name in ("s1", "s2")]
        keys = sum(zlib.crc32(key.encode()) for key in rows.column("id").to_pylist())
        found[part] = [rows.num_rows, keys, *sums, *texts]
    return found


def expected_sums(rows: Any) -> list[int]:
    """ALL_COLUMNS of some rows; the first of them are SNAPSHOT."""
    import numpy as np
    import pyarrow.compute as pc

    def total(name: str) -> int:
        return int(pc.sum(rows.column(name)).as_py())

    def letters(name: str) -> int:
        return int(pc.sum(pc.utf8_length(rows.column(name))).as_py())

    def scaled(name: str) -> int:
        return int((rows.column(name).to_numpy() * 1048576).astype(np.int64).sum())

    return [
        rows.num_rows, total("a"), letters("s2"), total("ts"), total("d"),
        *map(letters, ("id", "part", "s1")), *map(scaled, ("b", "c")),
    ]  # fmt: skip


def expected_changes(folder: Path, batches: int) -> list[int]:
    """Rows and sum of `a` of the last batch: what an incremental read of its commit gives."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    last = pq.read_table(folder / f"up{batches - 1}.parquet", columns=["a"])
    return [last.num_rows, pc.sum(last.column("a")).as_py()]


def checks_of(snapshot: Any) -> list[list[Any]]:
    """[part, CHECKS...] of each partition of a frame of Spark."""
    from pyspark.sql.functions import expr

    return [list(row) for row in snapshot.groupBy("part").agg(*map(expr, CHECKS)).collect()]


def differences(
    expected: dict[str, list[int]], rows: list[list[Any]], *, most: int = 3
) -> list[str]:
    """What differs, in words; rows: of `checks_of`.  Empty where all is equal."""
    found = {str(row[0]): [int(value) for value in row[1:]] for row in rows}
    if len(found) != len(rows):
        return [f"{len(rows)} rows for {len(found)} partitions"]
    wrong = [
        f"{part} {check}: {has} and not {due}"
        for part in sorted({*expected, *found})
        for check, due, has in zip(
            CHECKS,
            expected.get(part, [0] * len(CHECKS)),
            found.get(part, [0] * len(CHECKS)),
            strict=True,
        )
        if due != has
    ]
    return [*wrong[:most], *([f"and {len(wrong) - most} more"] if len(wrong) > most else [])]
