"""JSON lines: one object a line, read in blocks of whole lines, without those that are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pyhudi._native.json_values import NOTHING, JsonRows
from pyhudi.ingest.message_formats.json_values import JsonReader
from pyhudi.ingest.row_fit import fitting
from pyhudi.ingest.source import RejectedRows, rejected_batch

_BLOCK_BYTES: Final = 8 << 20
_LINE_BYTES_MAX: Final = 1 << 30
_SHOWN_BYTES: Final = 1 << 16
"""Bytes of a line that is too long."""
_END: Final = ord("\n")
_BOM: Final = b"\xef\xbb\xbf"


class _Lines(NamedTuple):
    """Whole lines.  first: the number of the first one in its file, from 1.  is_cut: the beginning
    of one line that is too long."""

    first: int
    data: bytes
    is_cut: bool = False

    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Starts, ends and numbers of the lines that have more than space."""
        bytes_ = np.frombuffer(self.data, np.uint8)
        ends = np.flatnonzero(bytes_ == _END)
        if not self.data.endswith(b"\n"):
            ends = np.append(ends, len(self.data))
        starts = np.concatenate([[0], ends[:-1] + 1])
        begins_blank = (ends == starts) | (bytes_[np.minimum(starts, len(bytes_) - 1)] <= 32)
        retained = ~begins_blank
        for place in np.flatnonzero(begins_blank).tolist():
            retained[place] = bool(self.data[starts[place] : ends[place]].strip(b" \t\r"))
        return starts[retained], ends[retained], self.first + np.flatnonzero(retained)


def json_facts(file: Any, known: pa.Schema) -> tuple[pa.Schema, int]:
    """The fields that some line has a value for, typed by `known` or by the first of them, and the
    fields of `known` that some line names; and the number of lines that are objects."""
    reader, count = JsonReader(known), 0
    named: set[str] = set()
    for lines in _blocks(file):
        if not lines.is_cut:
            starts, ends, _ = lines.places()
            rows = JsonRows(lines.data, starts, ends)
            reader.learn(rows)
            count += len(rows.rows)
            for name, node in rows.root.fields.items():
                if name in known.names or (node.kinds != NOTHING).any():
                    named.add(name)
    return pa.schema([field for field in reader.learned if field.name in named]), count


def json_batches(
    file: Any, path: str, schema: pa.Schema, rejected: RejectedRows
) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of `schema`; others are left out.

    The type of a column may lack fields of objects, where other files of the batch decided it.
    """
    reader = JsonReader(schema)
    for lines in _blocks(file):
        if lines.is_cut:
            reason = f"the line is longer than {_LINE_BYTES_MAX} bytes"
            rejected.add(rejected_batch([lines.data], [reason], [f"{path}:{lines.first}"]))
            continue
        starts, ends, numbers = lines.places()
        rows, places, faults = reader.read(JsonRows(lines.data, starts, ends))
        if not rows.schema.equals(schema):
            rows, unfit = fitting(rows, schema)
            faults |= {int(places[row]): reason for row, reason in unfit.items()}
        yield from rows.to_batches()
        bad = sorted(faults)
        raws = [lines.data[starts[n] : ends[n]].rstrip(b"\r") for n in bad]
        positions = [f"{path}:{numbers[n]}" for n in bad]
        rejected.add(rejected_batch(raws, [faults[n] for n in bad], positions))


def _blocks(file: Any) -> Iterator[_Lines]:
    """The file in blocks that end with a line."""
    first, rest, is_cut = 1, b"", False
    is_start = True
    while chunk := file.read(max(_BLOCK_BYTES, 0 if is_cut else len(rest))):
        if is_start:
            chunk, is_start = chunk.removeprefix(_BOM), False
        if is_cut:
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                continue
            yield _Lines(first, rest, is_cut=True)
            first, rest, is_cut = first + 1, b"", False
        end = chunk.rfind(b"\n") + 1
        if not end:
            rest += chunk
            if len(rest) > _LINE_BYTES_MAX:
                rest, is_cut = rest[:_SHOWN_BYTES], True
            continue
        data = rest + chunk[:end]
        yield _Lines(first, data)
        first, rest = first + data.count(b"\n"), chunk[end:]
    if rest:
        yield _Lines(first, rest, is_cut)
