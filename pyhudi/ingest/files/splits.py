"""Parts of a batch that are files, and the rows of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pyhudi.errors import UserError
from pyhudi.formats.schema_conform import Loss, conform
from pyhudi.ingest.files.formats import FileFormat, file_batches
from pyhudi.ingest.source import RejectedRows
from pyhudi.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class FileSplit:
    """The rows of one file.  schema: of the batch."""

    fs: FileSystem
    path: str
    format: FileFormat
    schema: pa.Schema

    def read(self, rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
        opened = partial(self.fs.arrow_file, self.path)
        for batch in file_batches(opened, self.path, self.format, self.schema, rejected):
            rows = conform(pa.Table.from_batches([batch]), self.schema, loss=Loss.REFUSED)
            yield from rows.to_batches()


def chained_rows(splits: Iterable[FileSplit], rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, in order."""
    for split in splits:
        yield from split.read(rejected)


def common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all files.  Raises UserError for columns without a common type."""
    try:
        found = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError("the files of a batch have different columns", reason=str(error)) from error
    return found.remove_metadata()
