"""The changes that an operation makes on the store, in order, as golden texts.

    python -m tests.operations.traces

writes `tests/golden/traces/<table type>_v<table version>.txt`: under each operation one line a
change, `verb path`.  Instants, completion times, file ids and write tokens are replaced by names:
the text is the same in each run.  Equal changes in a row, such as the writes of one file, are one
line.  The table has one partition, one file group and one index bucket: nothing is concurrent.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.filesystems import TracingFileSystem

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"
TYPES = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ}
TABLES = tuple((table_type, version) for table_type in TYPES for version in (6, 9))
_SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("at", pa.int64())])
_WORDS = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-\d+)?\b", "<fileId>"),
    (r"_\d+-\d+-\d+(?=[_. ]|$)", "_<token>"),
    (r"(?<=\d{17})_\d{17}(?=\.)", "_<completion>"),
)


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for table_type, version in TABLES:
        golden_path(table_type, version).write_text(render(table_type, version), "utf-8")


def golden_path(table_type: str, version: int) -> Path:
    return GOLDEN / f"{table_type}_v{version}.txt"


def render(table_type: str, version: int) -> str:
    """The traces of the operations on a new table, one after the other."""
    fs = TracingFileSystem(MemoryFileSystem())
    options = parse_options({
        "hoodie.metadata.record.index.min.filegroup.count": "1",
        "hoodie.write.table.version": str(version),
    })  # fmt: skip
    create(fs, NewTable(_SCHEMA, "t", TYPES[table_type], ("id",), ("city",), ("at",), options))
    table = Table(fs, options=options, engine=LocalEngine(1))
    parts = [_traced(fs, "create_table", 0)]
    for name in ("insert", "upsert", "delete", "compact" if table_type == "mor" else "cluster"):
        before = len(fs.trace)
        _operate(table, name)
        parts.append(_traced(fs, name, before))
    return "\n".join(parts)


def _operate(table: Table, name: str) -> None:
    if name == "delete":
        table.delete(keys=["a"])
    elif name == "compact":
        table.compact()
    elif name == "cluster":
        table.cluster(["at"])
    else:
        rows = [{"id": key, "city": "x", "at": len(name)} for key in ("a", "b", "c")]
        getattr(table, name)(pa.Table.from_pylist(rows, _SCHEMA))


def _traced(fs: TracingFileSystem, name: str, start: int) -> str:
    instants: dict[str, str] = {}
    lines = [line for line, _ in groupby(_stable(line, instants) for line in fs.trace[start:])]
    return "\n".join([f"# {name}", *lines]) + "\n"


def _stable(line: str, instants: dict[str, str]) -> str:
    for pattern, word in _WORDS:
        line = re.sub(pattern, word, line)
    return re.sub(
        r"\d{17}", lambda m: instants.setdefault(m.group(), f"<T{len(instants) + 1}>"), line
    )


if __name__ == "__main__":
    main()
