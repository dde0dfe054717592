"""Counts the file groups that a query reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyhudi.storage.local import LocalFileSystem


@contextmanager
def opened_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The file groups of local tables of which this process opens files."""
    groups: set[str] = set()

    def watched(plain: Any) -> Any:
        def opened(self: Any, path: str, *given: Any, **named: Any) -> Any:
            if not path.startswith(".hoodie/"):
                groups.add(Path(path).name.lstrip(".").partition("_")[0])
            return plain(self, path, *given, **named)

        return opened

    with monkeypatch.context() as patched:
        for name in ("open", "arrow_file"):
            patched.setattr(LocalFileSystem, name, watched(getattr(LocalFileSystem, name)))
        yield groups
