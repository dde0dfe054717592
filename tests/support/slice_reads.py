"""Which file slices a merge reads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyhudi.write import conditional_merge


def partitions_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions of the slices that merges read from now on."""
    found: list[str] = []
    read_slice = conditional_merge.read_slice

    def reading(fs: Any, slice_: Any, **how: Any) -> pa.Table:
        found.append(slice_.partition)
        return read_slice(fs, slice_, **how)

    monkeypatch.setattr(conditional_merge, "read_slice", reading)
    return found
