"""Parts of a batch that are files, and the rows of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.ingest.files.formats import FileContent, FileFormat, file_batches
from pyhudi.ingest.row_fit import common_columns, fitting
from pyhudi.ingest.source import (
    RejectedRows,
    RowPlaces,
    rejected_batch,
    texts_of_rows,
)
from pyhudi.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class FileSplit:
    """The rows of one file.  schema: of the batch.  url: names the file where its path does not,
    as in a batch of several buckets."""

    fs: FileSystem
    path: str
    format: FileFormat
    schema: pa.Schema
    url: str | None = None

    @property
    def name(self) -> str:
        """Of the file, in the places of rows."""
        return self.url or self.path

    def read(self, rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
        """Rows with values that the columns of the batch do not have, and the file from where it
        is not of its format, go to `rejected`."""
        opened = partial(self.fs.arrow_file, self.path)
        number = 0
        try:
            with listed(self.name):
                for batch in file_batches(opened, self.name, self.format, self.schema, rejected):
                    yield from self._conformed(batch, number, rejected)
                    number += batch.num_rows
        except CorruptFileError as error:
            position = f"{self.name}:{number + 1}" if number else self.name
            rejected.add(rejected_batch([None], [str(error)], [position]), error)

    def _conformed(
        self, batch: pa.RecordBatch, number: int, rejected: RejectedRows
    ) -> Iterator[pa.RecordBatch]:
        """number: rows of the file before these."""
        if batch.schema.equals(self.schema):
            yield batch
            return
        rows = pa.Table.from_batches([batch])
        found, bad = fitting(rows, self.schema)
        where = sorted(bad)
        if bad:
            positions = [f"{self.name}:{number + place + 1}" for place in where]
            texts = texts_of_rows(rows.take(where))
            rejected.add(rejected_batch(texts, [bad[place] for place in where], positions))
        yield from found.to_batches()


@contextmanager
def listed(path: str) -> Iterator[None]:
    """A file that is gone since it was listed: the next attempt lists again."""
    try:
        yield
    except FileMissingError as error:
        raise FileMissingError(
            "a file of the source was removed before it was read",
            path=path,
            retryable=True,
            hint="the next attempt leaves it out; remove files after their commit only",
        ) from error


def chained_rows(
    splits: Iterable[FileSplit], rejected: RejectedRows, places: RowPlaces
) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, in order."""
    for split in splits:
        first = 1
        for rows in split.read(rejected):
            places.add(rows.num_rows, partial(_numbered, split.name, first))
            first += rows.num_rows
            yield rows


def _numbered(path: str, first: int, rows: Sequence[int]) -> list[str]:
    """The places of decoded rows: `a.jsonl+12`; a line is `a.jsonl:12`."""
    return [f"{path}+{first + row}" for row in rows]


def stated_columns(files: Iterable[tuple[str, FileContent]]) -> dict[pa.Schema, str]:
    """The columns that files of types state, each with the name of the first file that has them."""
    found: dict[pa.Schema, str] = {}
    for name, file in files:
        if not file.is_text and len(file.schema):
            found.setdefault(file.schema.remove_metadata(), name)
    return found


def common_schema(files: Sequence[FileContent], table: pa.Schema) -> pa.Schema:
    """The columns of all files, and of the table for files of text."""
    found = common_columns([file.schema for file in files], table)
    if any(file.is_text for file in files) or not len(found):
        found = pa.schema([*found, *(f for f in table if f.name not in found.names)])
    return found.remove_metadata()
