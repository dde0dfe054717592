"""What every source of an ingest must do; one subclass of `SourceContract` a source.

A source's test module defines a `SourceHarness` and

    class TestMySource(SourceContract):
        @pytest.fixture
        def harness(self, tmp_path): return MyHarness(tmp_path)
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pyhudi.errors import PyhudiError, UserError
from pyhudi.ingest import RejectedRows, RowSource, SourceBatch, SourceLimits

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
NO_COLUMNS = pa.schema([])
UNLIMITED = SourceLimits(rows=None, bytes=None)


def some_rows(first: int, count: int = 10, ts: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        [[f"k{n:04}" for n in numbers], [ts] * count, [f"c{n % 3}" for n in numbers]], schema=SCHEMA
    )


def with_extra(rows: pa.Table) -> pa.Table:
    """The rows with one more column."""
    return rows.append_column("extra", pa.array([7] * rows.num_rows, pa.int64()))


class SourceHarness(ABC):
    """A source and the place that it reads.

    foreign_checkpoint: of another source.  loses: the errors that report lost data.
    """

    foreign_checkpoint = "no such position"
    loses: type[PyhudiError] = PyhudiError
    has_undecodable_rows = False
    new_columns_are_text = False

    def new(self, value: int) -> int | str:
        """A value of a column that the table does not have."""
        return str(value) if self.new_columns_are_text else value

    @abstractmethod
    def source(self) -> RowSource:
        """A new source over the same place."""

    @abstractmethod
    def add(self, rows: pa.Table) -> None:
        """Add a unit of the source with these rows, which may have more columns than SCHEMA."""

    @abstractmethod
    def lose(self) -> None:
        """Remove data that follow the checkpoint which was read last."""

    def add_undecodable(self) -> tuple[bytes, str]:
        """Add one row that cannot be decoded, alone in its unit: its bytes and position."""
        raise NotImplementedError


def read(harness: SourceHarness, checkpoint: str | None, limits: SourceLimits = UNLIMITED,
         schema: pa.Schema = SCHEMA) -> SourceBatch | None:  # fmt: skip
    return harness.source().read(checkpoint, limits, schema)


def values(rows: pa.Table) -> list[tuple[object, ...]]:
    """The columns of SCHEMA, row by row in an order that does not depend on the source's."""
    return sorted(tuple(row.values()) for row in rows.select(SCHEMA.names).to_pylist())


def batches(
    harness: SourceHarness, limits: SourceLimits = UNLIMITED, checkpoint: str | None = None
) -> Iterator[tuple[pa.Table, str]]:
    """The rows and the checkpoint of each batch, each read by a new source."""
    while (batch := read(harness, checkpoint, limits)) is not None:
        rows = batch.rows.read_all()
        checkpoint = batch.checkpoint
        yield rows, checkpoint
        batch.committed()


class SourceContract:
    def test_a_source_without_rows_has_no_batch(self, harness: SourceHarness) -> None:
        assert read(harness, None) is None

    def test_all_rows_are_read_once(self, harness: SourceHarness) -> None:
        for number in range(3):
            harness.add(some_rows(number * 10))
        assert values(pa.concat_tables(rows for rows, _ in batches(harness))) == values(
            some_rows(0, 30)
        )

    def test_rows_that_are_added_later_follow_the_checkpoint(self, harness: SourceHarness) -> None:
        harness.add(some_rows(0))
        *_, (_, checkpoint) = batches(harness)
        assert read(harness, checkpoint) is None
        harness.add(some_rows(10))
        later = [rows for rows, _ in batches(harness, checkpoint=checkpoint)]
        assert values(pa.concat_tables(later)) == values(some_rows(10))

    @pytest.mark.parametrize("limits", [SourceLimits(10, None), SourceLimits(None, 1)])
    def test_a_batch_is_one_unit_if_the_next_exceeds_the_limit(
        self, harness: SourceHarness, limits: SourceLimits
    ) -> None:
        for number in range(4):
            harness.add(some_rows(number * 10))
        found = [rows for rows, _ in batches(harness, limits)]
        assert all(0 < rows.num_rows <= 10 for rows in found)
        assert values(pa.concat_tables(found)) == values(some_rows(0, 40))

    def test_batches_that_end_by_time_have_all_rows_once(self, harness: SourceHarness) -> None:
        for number in range(4):
            harness.add(some_rows(number * 10))
        found = [rows for rows, _ in batches(harness, SourceLimits(None, None, seconds=1e-9))]
        assert all(rows.num_rows for rows in found)
        assert values(pa.concat_tables(found)) == values(some_rows(0, 40))

    def test_each_checkpoint_continues_with_the_rows_after_it(self, harness: SourceHarness) -> None:
        for number in range(4):
            harness.add(some_rows(number * 10))
        limits = SourceLimits(10, None)
        first: list[tuple[pa.Table, str]] = []
        checkpoint = None
        while (batch := read(harness, checkpoint, limits)) is not None:  # nothing is committed
            first.append((batch.rows.read_all(), checkpoint := batch.checkpoint))
        for number, (_, checkpoint) in enumerate(first):
            rest: list[pa.Table] = [SCHEMA.empty_table()]
            while (batch := read(harness, checkpoint, limits)) is not None:
                rest.append(batch.rows.read_all().select(SCHEMA.names))
                checkpoint = batch.checkpoint
            expected = [rows.select(SCHEMA.names) for rows, _ in first[number + 1 :]]
            assert values(pa.concat_tables(rest)) == values(
                pa.concat_tables([SCHEMA.empty_table(), *expected])
            )

    def test_one_checkpoint_gives_the_same_rows_again_or_more(self, harness: SourceHarness) -> None:
        harness.add(some_rows(0))
        harness.add(some_rows(10))
        limits = SourceLimits(10, None)
        batch = read(harness, None, limits)
        assert batch is not None
        before = values(batch.rows.read_all())
        harness.add(some_rows(20))
        again = read(harness, None, limits)
        everything = read(harness, None)
        assert again is not None and everything is not None
        assert set(before) <= set(values(again.rows.read_all()))
        assert set(before) <= set(values(everything.rows.read_all()))

    def test_columns_that_appear_later_are_null_in_earlier_rows(
        self, harness: SourceHarness
    ) -> None:
        harness.add(some_rows(0))
        harness.add(with_extra(some_rows(10)))
        found = pa.concat_tables(
            (rows for rows, _ in batches(harness)), promote_options="permissive"
        )
        extra = {row["id"]: row["extra"] for row in found.to_pylist()}
        assert {extra[f"k{n:04}"] for n in range(10)} == {None}
        assert {extra[f"k{n:04}"] for n in range(10, 20)} == {harness.new(7)}

    def test_a_new_table_gets_the_columns_of_the_source(self, harness: SourceHarness) -> None:
        harness.add(some_rows(0))
        batch = read(harness, None, schema=NO_COLUMNS)
        assert batch is not None
        rows = batch.rows.read_all()
        kind = pa.string() if harness.new_columns_are_text else pa.int64()
        assert [rows.schema.field(name).type for name in ("id", "ts")] == [pa.string(), kind]
        assert values(rows.select(SCHEMA.names).cast(SCHEMA)) == values(some_rows(0))

    def test_lost_data_is_reported(self, harness: SourceHarness) -> None:
        harness.add(some_rows(0))
        batch = read(harness, None)
        assert batch is not None
        batch.rows.read_all()
        harness.add(some_rows(10))
        with pytest.raises(harness.loses):
            later = harness.source().read(batch.checkpoint, UNLIMITED, SCHEMA)
            harness.lose()
            assert later is not None
            later.rows.read_all()
            harness.source().read(batch.checkpoint, UNLIMITED, SCHEMA)

    def test_a_checkpoint_of_another_source_is_refused(self, harness: SourceHarness) -> None:
        harness.add(some_rows(0))
        with pytest.raises(UserError, match="checkpoint"):
            read(harness, harness.foreign_checkpoint)

    def test_splits_give_the_rows_of_the_batch_also_in_other_processes(
        self, harness: SourceHarness
    ) -> None:
        for number in range(3):
            harness.add(some_rows(number * 10))
        batch = read(harness, None)
        assert batch is not None
        if not batch.splits:
            return
        rejected = RejectedRows()
        split = [
            rows
            for part in pickle.loads(pickle.dumps(list(batch.splits)))
            for rows in part.read(rejected)
        ]
        whole = batch.rows.read_all()
        assert values(pa.Table.from_batches(split)) == values(whole)
        assert {rows.schema for rows in split} == {whole.schema}
        assert not rejected.take().num_rows

    def test_rows_that_cannot_be_decoded_are_rejected_with_their_position(
        self, harness: SourceHarness
    ) -> None:
        if not harness.has_undecodable_rows:
            return
        harness.add(some_rows(0))
        raw, position = harness.add_undecodable()
        harness.add(some_rows(10))
        batch = read(harness, None)
        assert batch is not None
        assert values(batch.rows.read_all()) == values(some_rows(0, 20))
        rejected = batch.rejected.take()
        assert rejected.select(["raw", "position"]).to_pylist() == [
            {"raw": raw, "position": position}
        ]
        assert all(rejected["reason"].to_pylist())
        assert not batch.rejected.take().num_rows

    def test_a_commit_may_be_reported_twice(self, harness: SourceHarness) -> None:
        harness.add(some_rows(0))
        batch = read(harness, None)
        assert batch is not None
        batch.rows.read_all()
        batch.committed()
        batch.committed()
        assert read(harness, batch.checkpoint) is None
