"""The metadata table against the storage, and the record index against the rows, both ways."""

from __future__ import annotations

from typing import Any

from tests.interop.apache_hudi.install import CommandFailed
from tests.interop.apache_hudi.session import Session
from tests.interop.apache_hudi.tables import metadata_partitions

Files = dict[str, dict[str, int]]


KEY_COLUMNS = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]


def validate(session: Session, path: str, rows: str | None) -> dict[str, Any]:
    """Counts of what was compared; CommandFailed with the list `problems` if something differs.

    rows: a Parquet file of all rows of the newest snapshot; None: a scan reads them.
    """
    listed = metadata_partitions(path)
    problems: list[str] = []
    answer: dict[str, Any] = {"metadata_partitions": listed, "problems": problems}
    if "files" in listed:
        stored, known = (
            session.call("listing", path=path, source=source)["partitions"]
            for source in ("fs", "mdt")
        )
        answer["files"] = sum(map(len, known.values()))
        problems += _file_problems(stored, known, _Instants(session, path))
    if "record_index" in listed:
        stored_rows = _stored_key_rows(rows) if rows else _key_rows(session, path)
        problems += _index_problems(session, path, stored_rows, answer)
    if problems:
        raise CommandFailed(f"{len(problems)} problems", **answer)
    return answer


class _Instants:
    """Which instants are completed, pending, or older than the active timeline."""

    def __init__(self, session: Session, path: str) -> None:
        instants = session.call("timeline", path=path, content=False)["instants"]
        self.completed = {i["time"] for i in instants if i["state"] == "COMPLETED"}
        self.pending = {i["time"] for i in instants} - self.completed
        self.first = min((i["time"] for i in instants), default="9")

    def is_committed(self, file: str) -> bool:
        """Whether a file that no listing names must be there; unknown for logs while writing."""
        if file.startswith("."):
            return not self.pending
        time = file.rsplit("_", 1)[-1].split(".")[0]
        return time in self.completed or (time not in self.pending and time < self.first)


def _file_problems(stored: Files, known: Files, instants: _Instants) -> list[str]:
    problems = []
    for partition in sorted(stored.keys() | known.keys()):
        on_disk, listed = stored.get(partition, {}), known.get(partition, {})
        if partition not in known and on_disk:
            problems.append(f"partition not in the metadata table: {partition}")
        for name in sorted(on_disk.keys() | listed.keys()):
            file = f"{partition}/{name}"
            if name not in on_disk:
                problems.append(f"listed but not on storage: {file}")
            elif name not in listed:
                if instants.is_committed(name):
                    problems.append(f"on storage but not listed: {file}")
            elif on_disk[name] != listed[name]:
                sizes = f"storage {on_disk[name]}, metadata table {listed[name]}"
                problems.append(f"size of {file}: {sizes}")
    return problems


def _index_problems(
    session: Session, path: str, rows: list[Any], answer: dict[str, Any]
) -> list[str]:
    problems = []
    places = {key: (partition, name.split("_")[0]) for key, partition, name in rows}
    answer["record_keys"] = len(places)
    if len(places) != len(rows):
        problems.append(f"{len(rows)} rows but {len(places)} different record keys")
    found = session.call("rli", path=path, keys=sorted(places))["locations"]
    for key, place in sorted(places.items()):
        entry = found.get(key)
        if entry is None:
            problems.append(f"key not in the record index: {key}")
        elif (entry["partition"], entry["file_id"]) != place:
            problems.append(f"record index of {key}: {entry}, row in {place}")
    records = session.call("mdt", path=path, partitions=["record_index"])["partitions"]
    entries = {r["key"] for r in records["record_index"] if r["record"] is not None}
    answer["record_index_entries"] = len(entries)
    return problems + [f"record index entry without a row: {k}" for k in entries - places.keys()]


def _key_rows(session: Session, path: str) -> list[Any]:
    """(record key, partition path, file name) of every row, read without the metadata table."""
    spark = session.spark
    spark.conf.set("hoodie.metadata.enable", "false")
    spark.conf.unset("hoodie.enable.data.skipping")
    frame = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(path)
    return list(frame.select(*KEY_COLUMNS).collect())


def _stored_key_rows(file: str) -> list[Any]:
    """The same of the rows that are stored in a file."""
    import pyarrow.parquet as pq

    columns = pq.read_table(file, columns=KEY_COLUMNS).select(KEY_COLUMNS).columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
