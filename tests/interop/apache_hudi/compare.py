"""The tables of `make demo` as Apache Hudi reads them.

    python -m tests.interop.apache_hudi.compare FOLDER

compares each table FOLDER/<t> with the rows in FOLDER/<t>.parquet.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.interop.apache_hudi.install import missing
from tests.support.apache_hudi import ApacheHudi

VERSION = "0.15.0"


def as_text(rows: pa.Table) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())


def compare(folder: Path, hudi: ApacheHudi) -> int:
    """The number of reads that differ from the rows pyhudi reported."""
    different = 0
    for path in sorted(p for p in folder.iterdir() if (p / ".hoodie").is_dir()):
        want = pq.read_table(path.with_suffix(".parquet"))
        for listing in ("on", "off"):
            got = hudi.read(path, mdt=listing)
            is_equal = as_text(got.select(want.column_names)) == as_text(want)
            different += not is_equal
            verdict = "equal to" if is_equal else "DIFFERENT from"
            print(
                f"Apache Hudi {VERSION} reads {path.name} (metadata table {listing}): "
                f"{got.num_rows} rows, {verdict} what pyhudi reports"
            )
    return different


def main() -> int:
    if lacks := missing(VERSION):
        print(f"Apache Hudi was not run: {lacks}")
        return 0
    hudi = ApacheHudi(VERSION)
    try:
        return min(1, compare(Path(sys.argv[1]).absolute(), hudi))
    finally:
        hudi.close()


if __name__ == "__main__":
    sys.exit(main())
