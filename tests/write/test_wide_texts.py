"""Columns with more than 2 GiB of text, which Arrow holds in several chunks only."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.arrays import taken
from pyhudi.write.input import batch

KINDS = [
    pa.int32(), pa.string(), pa.binary(), pa.list_(pa.string()), pa.bool_(),
    pa.struct([("a", pa.string()), ("b", pa.int64())]),
]  # fmt: skip


def a_value(draw: random.Random, kind: pa.DataType) -> object:
    if draw.random() < 0.2:
        return None
    text = "é" * draw.randrange(6)
    return {
        "int32": draw.randrange(9), "string": text, "binary": text.encode(), "bool": True,
        "list<item: string>": [text, None], "struct<a: string, b: int64>": {"a": text, "b": 1},
    }[str(kind)]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_taken_as_arrow_takes_them(seed: int) -> None:
    draw = random.Random(seed)
    schema = pa.schema([(str(n), draw.choice(KINDS)) for n in range(draw.randrange(1, 5))])
    parts = [
        pa.table([[a_value(draw, f.type) for _ in range(count)] for f in schema], schema=schema)
        for count in (draw.randrange(20) for _ in range(draw.randrange(1, 6)))
    ]
    rows = pa.concat_tables(parts).slice(draw.randrange(3))
    at = [draw.randrange(rows.num_rows) for _ in range(draw.randrange(40))] if len(rows) else []
    for bytes_max in (0, 40, 400, 1 << 31):
        found = taken(rows, np.array(at, np.int64), bytes_max=bytes_max)
        assert found.equals(rows.take(pa.array(at, pa.int64())))


def test_rows_in_memory_are_staged_in_bounded_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "PART_ROWS", 50)
    monkeypatch.setattr(batch, "_PART_BYTES", 3000)
    sizes = [*([10] * 120), 9000, *([100] * 60)]
    rows = pa.table({"id": range(len(sizes)), "s": ["x" * size for size in sizes]})
    cuts = list(batch._bounded(rows, 0))
    assert pa.concat_tables([cut for _, cut in cuts]).equals(rows)
    assert [first for first, _ in cuts] == np.cumsum([0, *(len(cut) for _, cut in cuts)])[
        :-1
    ].tolist()
    assert all(len(cut) <= 50 and (cut.nbytes <= 3000 or len(cut) == 1) for _, cut in cuts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_one_column_of_a_batch_has_more_than_2_gib(kind: str, tmp_path: Path) -> None:
    count, text = 260_000, "x" * 9000

    def rows(mark: str, more: int = 0) -> pa.Table:
        parts = np.array_split(np.arange(count + more)[::-1], 4)
        texts = [pa.array([f"{mark}{n}-{text}" for n in part]) for part in parts]
        return pa.table({"id": pa.chunked_array([*parts]), "s": pa.chunked_array(texts)})

    def marks() -> dict[str, int]:
        found = table.scan(["s"]).to_arrow()["s"]
        counts = pc.value_counts(pc.utf8_slice_codeunits(found, 0, 1)).to_pylist()
        return {each["values"]: each["counts"] for each in counts}

    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id", table_type=kind)
    table.upsert(rows("a"))
    table.upsert(rows("b"))
    assert marks() == {"b": count}
    if kind == "mor":
        table.compact()
    table.merge(rows("c", 10)).when_matched_update().when_not_matched_insert().execute()
    assert marks() == {"c": count + 10}
    table.cluster(["s"])
    assert marks() == {"c": count + 10}
    assert table.scan(["id"], "s like 'c12345-%'").to_arrow()["id"].to_pylist() == [12345]
