"""What a format of messages is to a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MessageFailure:
    """A message that could not be decoded: its place among the values, and the reason."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class DecodedMessages:
    """rows: one for each decoded message.  places: ascending, of the message of each row among the
    values.  failures: the messages without a row that should have one."""

    rows: pa.Table
    places: np.ndarray
    failures: Sequence[MessageFailure] = ()


class MessageDecoder(Protocol):
    """Decodes the values of one batch, in parts."""

    def decode(self, values: pa.Array) -> DecodedMessages:
        """values: binary, without nulls."""
        ...


class MessageFormat(Protocol):
    """A format that can be pickled."""

    def decoder(self, schema: pa.Schema) -> MessageDecoder:
        """schema: of the table, which types values of formats without types; may be empty."""
        ...
