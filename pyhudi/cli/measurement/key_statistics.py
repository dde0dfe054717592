"""Counts of record keys in bounded memory.

Keys are distributed by hash over files on this machine's disk; each file is counted by itself, as
all rows of a key are in the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.records import PARTITION_PATH, RECORD_KEY

_FILES: Final = 64
_SCHEMA: Final = pa.schema({RECORD_KEY: pa.string(), PARTITION_PATH: pa.string()})


def key_statistics(batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Rows, distinct keys, and keys that are stored more than once.

    batches: with the meta columns of record key and partition path.  Memory: a batch, and the
    largest of 64 parts of the keys; disk: all keys.
    """
    found: Counter[str] = Counter()
    partitions: set[str] = set()
    with TemporaryDirectory(prefix="pyhudi-") as folder:
        paths = [Path(folder) / f"{number:02d}.arrow" for number in range(_FILES)]
        with _writers(paths) as writers:
            for batch in batches:
                rows = pa.Table.from_batches([batch]).select(_SCHEMA.names).cast(_SCHEMA)
                found["rows"] += rows.num_rows
                found["key_bytes"] += pc.sum(pc.binary_length(rows[RECORD_KEY])).as_py() or 0
                partitions.update(pc.unique(rows[PARTITION_PATH]).to_pylist())
                _distribute(rows, writers)
        for path in paths:
            found.update(_counts(path))
    names = ("rows", "keys", "repeated_keys", "keys_in_several_partitions")
    return {
        **{name: found[name] for name in names},
        "partitions": len(partitions),
        "key_bytes": found["key_bytes"],
    }


@contextmanager
def _writers(paths: Iterable[Path]) -> Iterator[list[pa.RecordBatchWriter]]:
    with ExitStack() as opened:
        yield [opened.enter_context(pa.ipc.new_file(str(path), _SCHEMA)) for path in paths]


def _distribute(rows: pa.Table, writers: list[pa.RecordBatchWriter]) -> None:
    """Append each row to the file of its key."""
    bucket = np.asarray(KeyHash(_FILES).buckets(rows[RECORD_KEY]))
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=_FILES))
    grouped = rows.take(pa.array(order))
    begin = 0
    for writer, end in zip(writers, ends.tolist(), strict=True):
        if end > begin:
            writer.write_table(grouped.slice(begin, end - begin))
        begin = end


def _counts(path: Path) -> dict[str, int]:
    """The counts of one file."""
    with pa.memory_map(str(path)) as source:
        rows = pa.ipc.open_file(source).read_all()
        by_key = rows.group_by(RECORD_KEY).aggregate(
            [([], "count_all"), (PARTITION_PATH, "count_distinct")]
        )
        counts, places = by_key["count_all"], by_key[f"{PARTITION_PATH}_count_distinct"]
        return {
            "keys": by_key.num_rows,
            "repeated_keys": pc.sum(pc.greater(counts, 1)).as_py() or 0,
            "keys_in_several_partitions": pc.sum(pc.greater(places, 1)).as_py() or 0,
        }
