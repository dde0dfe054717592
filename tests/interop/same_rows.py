"""What Apache Hudi sees in a table, beside what pyhudi sees.

    python -m tests.interop.same_rows TABLE...

Each release that knows the table's version reads it by its metadata table and by listing, and
checks the metadata table and its record index against the files.  A line a table; exit code 3 where
they differ.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

import pyhudi
from tests.support.apache_hudi import VERSIONS, ApacheHudi, newest_table_version

PROBLEMS = 3


def counted(rows: pa.Table, columns: list[str]) -> Counter[str]:
    return Counter(map(str, rows.select(columns).to_pylist()))


def differences(path: Path, hudi: ApacheHudi) -> list[str]:
    """In what the two do not agree; empty if they do."""
    ours = pyhudi.open_table(path).scan().to_arrow()
    columns = [name for name in ours.column_names if not name.startswith("_hoodie_")]
    want = counted(ours, ["_hoodie_record_key", "_hoodie_commit_time", *columns])
    found = []
    with TemporaryDirectory() as made:
        out = Path(made) / "rows.parquet"
        for metadata in ("on", "off"):
            hudi.call("read", path=str(path), out=str(out), mdt=metadata)
            theirs = pq.ParquetFile(out).read()
            got = counted(theirs, ["_hoodie_record_key", "_hoodie_commit_time", *columns])
            if got != want:
                found.append(
                    f"metadata {metadata}: {len(theirs)} rows, {len(ours)} here; only there"
                    f" {list(got - want)[:3]}, only here {list(want - got)[:3]}"
                )
        checked = hudi.call("validate", path=str(path), rows=str(out))
    found += map(str, checked.get("problems") or ())
    return [f"Apache Hudi {hudi.version}: {line}" for line in found]


def main() -> int:
    paths = [Path(text) for text in sys.argv[1:]]
    problems = 0
    for version in VERSIONS:
        hudi = ApacheHudi(version)
        try:
            for path in paths:
                if pyhudi.open_table(path).config.version > newest_table_version([hudi]):
                    continue
                found = differences(path, hudi)
                problems += len(found)
                print(*found or [f"Apache Hudi {version} and pyhudi agree on {path}"], sep="\n")
        finally:
            hudi.close()
    return PROBLEMS if problems else 0


if __name__ == "__main__":
    sys.exit(main())
