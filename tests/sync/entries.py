"""What a metastore stores about a table, as plain values that do not depend on where and when."""

from __future__ import annotations

from typing import Any

from pyhudi.storage.hive_thrift import interface

OF_THE_METASTORE = ("transient_lastDdlTime", "numFiles", "totalSize")
"""Parameters that the metastore adds by itself."""
OF_THE_WRITER = "hudi_writer_version"
ALL = -1


def plain(value: Any) -> Any:
    """A structure of Thrift as dicts and lists."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    if hasattr(value, "thrift_spec"):
        return {name: plain(v) for name, v in vars(value).items() if v is not None}
    return value


def stored(client: Any, database: str, name: str) -> dict[str, Any] | None:
    """The structures of a table and of its partitions; None if it has no entry."""
    types = interface()
    request = types.GetTableRequest(dbName=database, tblName=name)
    try:
        table = client.get_table_req(request).table
    except types.NoSuchObjectException:
        return None
    names = client.get_partition_names(database, name, ALL) if table.partitionKeys else []
    found = client.get_partitions_by_names(database, name, names) if names else []
    return {"table": plain(table), "partitions": plain(found)}


def entries(client: Any, database: str, name: str, where: dict[str, str]) -> dict[str, Any]:
    """Comparable values of the entries of one table, by the suffix of their names.

    where: texts of this run, such as the table's path, and the names that replace them.
    """
    found = {suffix: stored(client, database, name + suffix) for suffix in ("", "_ro", "_rt")}
    return {suffix: comparable(entry, where) for suffix, entry in found.items() if entry}


def comparable(entry: dict[str, Any], where: dict[str, str]) -> dict[str, Any]:
    """One entry without times, owners and statistics of the metastore."""
    table, storage = entry["table"], entry["table"]["sd"]

    def text(value: str) -> str:
        for old, new in where.items():
            value = value.replace(old, new)
        return value

    parameters = {
        name: "{writer}" if name == OF_THE_WRITER else text(value)
        for name, value in table["parameters"].items()
        if name not in OF_THE_METASTORE
    }
    return {
        "type": table["tableType"],
        "columns": [_column(c) for c in storage["cols"]],
        "partition_keys": [_column(c) for c in table["partitionKeys"]],
        "location": text(storage["location"]),
        "formats": [storage["inputFormat"], storage["outputFormat"]],
        "serde": storage["serdeInfo"]["serializationLib"],
        "serde_parameters": {
            name: text(value) for name, value in storage["serdeInfo"]["parameters"].items()
        },
        "parameters": dict(sorted(parameters.items())),
        "partitions": sorted([p["values"], text(p["sd"]["location"])] for p in entry["partitions"]),
        "partitions_like_table": all(_like(p["sd"], storage) for p in entry["partitions"]),
    }


def _like(partition: dict[str, Any], table: dict[str, Any]) -> bool:
    same = ("cols", "inputFormat", "outputFormat", "serdeInfo")
    return all(partition[name] == table[name] for name in same)


def _column(column: dict[str, str]) -> str:
    return " ".join(filter(None, [column["name"], column["type"], column.get("comment")]))


def differences(found: Any, expected: Any, place: str = "") -> list[str]:
    """Where two values differ, one line each."""
    if isinstance(found, dict) and isinstance(expected, dict):
        names = sorted(found.keys() | expected.keys())
        pairs = [(name, found.get(name), expected.get(name)) for name in names]
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = [(str(n), *each) for n, each in enumerate(zip(found, expected, strict=True))]
    else:
        return [] if found == expected else [f"{place}: {found!r} is not {expected!r}"]
    return [line for n, a, b in pairs for line in differences(a, b, f"{place}/{n}")]
