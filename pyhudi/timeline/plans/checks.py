"""Checks of the values in plans.  Each returns the value or raises CorruptFileError.

Record fields may have any type: the schema comes with the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyhudi.errors import CorruptFileError, UserError
from pyhudi.filenames import HOODIE
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import checked

NAME_LENGTH_MAX: Final = 255  # of a file, on every store
_INSTANT: Final = re.compile(r"[0-9]{1,64}", re.ASCII)
_FILE_ID: Final = re.compile(r"[^./\\\0][^/\\\0]*")


@contextmanager
def reading(plan: str, path: str) -> Iterator[None]:
    """Report fields of an unexpected type as CorruptFileError.  path: of the plan."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CorruptFileError(f"not a plan of a {plan}", path=path) from error


def is_partition(path: str) -> bool:
    """Whether a path can be a partition of a table: below its root, not in `.hoodie`."""
    try:
        checked(path)
    except UserError:
        return False
    return HOODIE not in path.split("/")


def partition_of(value: Any, *, path: str) -> str:
    """A partition's path; empty for None."""
    text = "" if value is None else value
    if not isinstance(text, str) or not is_partition(text):
        raise CorruptFileError("a plan names a folder outside the table", path=path, partition=text)
    return text


def file_id_of(value: Any, *, path: str) -> str:
    """A file id, which becomes part of file names."""
    if not isinstance(value, str) or len(value) > NAME_LENGTH_MAX or not _FILE_ID.fullmatch(value):
        raise CorruptFileError("a plan names an invalid file id", path=path, file_id=value)
    return value


def group_of(partition: Any, file_id: Any, *, path: str) -> FileGroupId:
    return FileGroupId(partition_of(partition, path=path), file_id_of(file_id, path=path))


def instant_of(value: Any, *, path: str) -> InstantTime:
    """An instant time, which becomes part of file names."""
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise CorruptFileError("a plan names an invalid instant", path=path, instant=value)
    return InstantTime(value)


def name_of(value: Any, *, path: str) -> str:
    """The file name at the end of a path; empty for None."""
    name = "" if value is None else str(value).rpartition("/")[2]
    if len(name) > NAME_LENGTH_MAX:
        raise CorruptFileError("a plan names a file whose name is too long", path=path, name=name)
    return name
