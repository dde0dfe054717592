"""Tables of versions 8 and 9 that Apache Hudi 1.1.1 and 1.2.0 wrote, against the rows it read.

Each table of tests/golden/versions.tar.xz has a file `expected.json`: the queries and their rows
(without file names and sequence numbers), or what Apache Hudi reported instead.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError
from pyhudi.options import parse_options
from pyhudi.records import COMMIT_TIME, RECORD_KEY
from pyhudi.storage.local import LocalFileSystem
from tests.support.fixtures import fixtures
from tests.support.golden import version_table, version_table_file, version_table_names

NAMES = version_table_names()
FIXTURES = (
    "cow_v8_nonpartitioned",
    "cow_v8_simplekeygen_nonhivestyle",
    "cow_v9_timebasedkeygen_epochmillis",
    "cow_v9_txns_nonpart_meta",
    "mor_avro_v8_trips_8i3u1d",
    "mor_avro_v9_nonpartitioned_rollback",
    "mor_avro_v9_txns_simple_meta",
)
"""Tables of versions 8 and 9 of hudi-rs; read by Apache Hudi 1.2.0."""

CAPTURES = "hoodie.datasource.query.incremental.format"

LOG_COMPACTED = ("mor_log_compacted_v8", "mor_log_compacted_v9")
"""Apache Hudi gives rows the instant of its log compaction; its incremental queries return none of
them where the range contains only the log compaction."""

FILLED = ("mor_partial_payload_v8", "mor_partial_payload_v9", "mor_non_defaults_v9")
"""Incremental queries of Apache Hudi lack values that commits before the range wrote."""

LATE = "mor_partial_payload_v9"
"""A late row that supplies values gives the record its commit time here, as on copy-on-write
tables; not so in logs that Apache Hudi 1.2.0 merges."""


ARCHIVED = ("cow_archived_v8", "mor_archived_v9")
"""Ranges of archived commits whose files have been cleaned: Apache Hudi returns the rows that no
later commit has overwritten, as the option does."""
FALLBACK = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(version_table_file(name, "expected.json"))
    return found


def read(table: Table, query: dict[str, Any]) -> pa.Table:
    since, until = query.get("begin"), query.get("end")
    if CAPTURES in query.get("conf", {}):
        return table.capture(since, until)
    if query["query"] == "incremental":
        return table.changes(since, until).to_arrow()
    if query["query"] == "read_optimized":
        return table.scan(mode="read_optimized").to_arrow()
    return table.scan(as_of=query.get("as_of")).to_arrow()


def plain(value: Any) -> Any:
    match value:
        case dt.datetime():
            return (value.astimezone(dt.UTC) if value.tzinfo else value).isoformat()
        case dt.date() | decimal.Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
    return value


def image(found: str | dict[str, Any] | None) -> Any:
    """A side of a captured change without meta columns, which Apache Hudi gives for some."""
    row = json.loads(found) if isinstance(found, str) else found
    return row and {k: v for k, v in row.items() if not k.startswith("_hoodie") and v is not None}


def lines(rows: list[dict[str, Any]]) -> Counter[str]:
    if rows and "op" in rows[0] and "before" in rows[0]:
        rows = [{**row, **{side: image(row[side]) for side in ("before", "after")}} for row in rows]
    return Counter(json.dumps(plain(row), sort_keys=True) for row in rows)


def describe(query: dict[str, Any]) -> str:
    return str({k: v for k, v in query.items() if k not in ("rows", "columns")})


def differences(table: Table, found: dict[str, Any], query: dict[str, Any], name: str) -> str:
    names = [each for each in query["columns"] if name != LATE or each != COMMIT_TIME]
    got = read(table, query)
    if set(names) - set(got.column_names):
        return f"{describe(query)}: columns {got.column_names}"
    reference = target(table, found, query, from_snapshot=name in FILLED)
    partition = table.config.partition_fields  # some numbers are text to Apache Hudi 1.x
    text = {n for n in partition if any(isinstance(row.get(n), str) for row in reference)}
    rows = [
        {k: str(v) if k in text and v is not None else v for k, v in row.items()}
        for row in got.select(names).to_pylist()
    ]
    ours, theirs = lines(rows), lines([{n: row[n] for n in names} for row in reference])
    if ours == theirs:
        return ""
    only, missing = list(ours - theirs)[:2], list(theirs - ours)[:2]
    return f"{describe(query)}: only here {only}, missing {missing}"


def target(
    table: Table, found: dict[str, Any], query: dict[str, Any], *, from_snapshot: bool
) -> list[dict[str, Any]]:
    """The rows of a query.  Incremental queries of Apache Hudi also return logged rows that lose
    against older ones, which its snapshot at the end of the range does not have."""
    rows = row_dicts(query)
    if query["query"] != "incremental" or CAPTURES in query.get("conf", {}):
        return rows
    ends = {i.completed_at: i.time for i in table.timeline.commits}
    at = ends[query["end"]] if "end" in query else None
    for each in found["reads"]:
        if each["query"] == "snapshot" and each.get("as_of") == at and "rows" in each:
            stored = row_dicts(each)
            break
    else:
        return rows
    if from_snapshot:
        inside = {time for done, time in ends.items() if done and done > query["begin"]}
        return [row for row in stored if row[COMMIT_TIME] in inside]
    versions = {(row[RECORD_KEY], row[COMMIT_TIME]) for row in stored}
    return [row for row in rows if (row[RECORD_KEY], row[COMMIT_TIME]) in versions]


def row_dicts(query: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(query["columns"], row, strict=True)) for row in query["rows"]]


def queries_of(name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The queries to compare; Apache Hudi rejects those of cleaned snapshots."""
    queries = [each for each in found["reads"] if "rows" in each]
    if name in LOG_COMPACTED:
        return [each for each in queries if each["query"] != "incremental" or each["rows"]]
    if name == LATE:
        return [each for each in queries if each["query"] != "incremental"]
    return queries


@pytest.mark.conformance(8, 31)
@pytest.mark.parametrize("name", NAMES)
def test_every_query_gives_the_rows_that_apache_hudi_reads(name: str) -> None:
    options = parse_options({FALLBACK: str(name in ARCHIVED).lower()})
    table = Table(version_table(name), options=options, engine=LocalEngine(1))
    found = expected(name)
    assert table.config.version == found["table_version"]
    queries = queries_of(name, found)
    assert len(queries) > 6
    different = [differences(table, found, each, name) for each in queries]
    assert not any(different), "\n".join(filter(None, different))


@pytest.mark.parametrize("name", FIXTURES)
def test_every_query_of_the_tables_of_hudi_rs_gives_the_rows_that_apache_hudi_reads(
    name: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(fixtures() / "tables" / f"{name}.zip") as file:
        file.extractall(tmp_path)
    roots = [path.parent for path in tmp_path.rglob(".hoodie") if "__MACOSX" not in path.parts]
    fs = LocalFileSystem(min(roots, key=lambda path: len(path.parts)))
    table = Table(fs, options=parse_options({}), engine=LocalEngine(1))
    found = json.loads(version_table_file("fixtures", f"{name}.json"))
    queries = queries_of(name, found)
    assert len(queries) > 6
    different = [differences(table, found, each, name) for each in queries]
    assert not any(different), "\n".join(filter(None, different))


@pytest.mark.parametrize(
    ("name", "deleted", "count"), [("cow_archived_v8", 1, 13), ("mor_archived_v9", 1, 12)]
)
def test_snapshots_before_the_last_clean_are_read_while_their_files_remain(
    name: str, deleted: int, count: int
) -> None:
    """Apache Hudi rejects every snapshot that its last clean was free to remove."""
    table = Table(version_table(name), options=parse_options({}), engine=LocalEngine(1))
    rejected = [query for query in expected(name)["reads"] if "error" in query]
    assert len(rejected) == deleted + 1
    for query in rejected[:deleted]:
        with pytest.raises(SnapshotExpiredError):
            read(table, query)
    assert read(table, rejected[deleted]).num_rows == count


def test_each_table_was_written_as_its_name_says() -> None:
    assert len(NAMES) == 39
    found = {name: expected(name) for name in NAMES}
    assert {each["writer"] for each in found.values()} == {"1.1.1", "1.2.0"}
    assert all(name.endswith(f"_v{each['table_version']}") for name, each in found.items())
