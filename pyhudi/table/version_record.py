"""The record of a change of a table's version that is under way, `.hoodie/.version_change`.

A process that ends before the change does leaves it; the table can be read and written, but may
have no metadata table until the change is finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptFileError, FileMissingError, IndexNotReadyError
from pyhudi.filenames import HOODIE
from pyhudi.storage.filesystem import FileSystem

RECORD: Final = f"{HOODIE}/.version_change"


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """A change under way.

    partitions: metadata partitions to build, and their file groups; dropped: those that the new
    version cannot have, and theirs.
    """

    before: int
    after: int
    partitions: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def verb(self) -> str:
        """The call that finishes it."""
        return f"table.{'upgrade' if self.after > self.before else 'downgrade'}({self.after})"

    def __str__(self) -> str:
        return f"from version {self.before} to {self.after}"

    def to_json(self) -> bytes:
        body = {
            "from": self.before,
            "to": self.after,
            "partitions": dict(self.partitions),
            "dropped": dict(self.dropped),
        }
        return json.dumps(body).encode()


def load_record(fs: FileSystem) -> ChangeRecord | None:
    """The recorded change; None if there is none.  Raises CorruptFileError."""
    try:
        body = json.loads(fs.read(RECORD))
        partitions, dropped = (
            {str(name): _count(n) for name, n in found.items()}
            for found in (body["partitions"], body.get("dropped", {}))
        )
        return ChangeRecord(int(body["from"]), int(body["to"]), partitions, dropped)
    except FileMissingError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(
            "not the record of a version change", path=RECORD, hint="delete the file"
        ) from error


def _count(number: Any) -> int:
    if not 0 <= int(number) <= 10_000:
        raise ValueError(number)
    return int(number)


def index_not_ready(fs: FileSystem, what: str, hint: str) -> IndexNotReadyError:
    """The error of an index that a table lacks; it names an unfinished change of the version, which
    builds the index again.  Raises CorruptFileError for a record that is none."""
    record = load_record(fs)
    if record is None:
        return IndexNotReadyError(what, path=fs.url, hint=hint)
    return IndexNotReadyError(
        what,
        path=fs.url,
        unfinished=f"a change of the table {record}",
        hint=f"run {record.verb}, which finishes the change",
    )
