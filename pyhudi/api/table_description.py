"""What `repr` and a notebook show of a table."""

from __future__ import annotations

from typing import Final

from pyhudi.markup import bytes_text, count_text, moment_text, plural
from pyhudi.read.row_count import cheap_row_count
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import without_meta
from pyhudi.table.properties import TableType

_COLUMNS_SHOWN: Final = 12
_COUNTED: Final = 16
"""Files whose footers are read for the number of rows; a table of more files is not counted."""

_TYPES: Final = {TableType.COPY_ON_WRITE: "copy-on-write", TableType.MERGE_ON_READ: "merge-on-read"}


def described(url: str, state: TableState) -> tuple[str, dict[str, str]]:
    """A title and facts of the newest snapshot.

    Cost: a listing, and for a small table without logs one footer a file.
    """
    config = state.config
    slices = state.slices()
    size = sum(one.size_bytes for one in slices)
    columns = [f"{field.name} {field.type}" for field in without_meta(state.schema())]
    more = len(columns) - _COLUMNS_SHOWN
    last = state.timeline.commits.last
    rows = cheap_row_count(state, files_max=_COUNTED)
    facts = {
        "path": url,
        "columns": ", ".join(columns[:_COLUMNS_SHOWN]) + (f" and {more} more" if more > 0 else ""),
        "record key": ", ".join(config.record_key_fields) or "none",
        "partitioned by": ", ".join(config.partition_fields),
        "rows": "table.count() counts them" if rows is None else count_text(rows),
        "size": f"{bytes_text(size)} in {plural(len(slices), 'file group')}",
        "last commit": "none" if last is None else f"{last.time} ({moment_text(last.time)})",
    }
    title = f"{config.name}: {_TYPES[config.table_type]}, version {config.version}"
    return title, {name: value for name, value in facts.items() if value}
