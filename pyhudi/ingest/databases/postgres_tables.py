"""What the catalog of PostgreSQL says of a table that an ingest follows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import UserError
from pyhudi.ingest.databases.postgres_types import (
    CatalogType,
    PostgresType,
    is_built_in,
    resolved,
)

RunQuery = Callable[..., pa.Table]
"""A query of one session with its bind parameters, which are text."""

_TABLE: Final = """
SELECT c.oid::int8 AS id, c.relkind::text AS kind, c.relkind = 'r' AND EXISTS (
  SELECT FROM pg_inherits WHERE inhparent = c.oid) AS has_children
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2"""
_PUBLICATION: Final = """
SELECT pubname::text AS name FROM pg_publication WHERE pubname = $1"""
_PARTS: Final = """
SELECT c.oid::int8 AS id, c.relkind::text AS kind,
  p.tablename IS NOT NULL AS is_published, to_jsonb(p) ->> 'rowfilter' AS filter,
  to_jsonb(p) ->> 'attnames' AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_publication_tables p
  ON p.pubname = $2 AND p.schemaname = n.nspname AND p.tablename = c.relname
WHERE c.oid = $1::text::oid
  OR c.oid IN (SELECT relid FROM pg_partition_tree($1::text::oid::regclass))"""
_COLUMNS: Final = """
SELECT attname::text AS name, atttypid::int8 AS kind, atttypmod::int8 AS modifier,
  format_type(atttypid, NULL) AS type
FROM pg_attribute
WHERE attrelid = $1::text::oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum"""
_TYPES: Final = """
SELECT oid::int8 AS id, typbasetype::int8 AS base, typtypmod::int8 AS modifier,
  CASE WHEN typlen = -1 AND typdelim = ',' AND typinput = 'pg_catalog.array_in'::regproc
    THEN typelem ELSE 0 END::int8 AS element
FROM pg_type WHERE oid = ANY (CAST($1 AS text)::oid[])"""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table and its publication.

    ids: of the table and its partitions.  columns: their types; those that are published.
    type_names: of the columns, for a cast.  filter: an expression for the published rows.
    """

    name: str
    ids: frozenset[int]
    columns: Mapping[str, PostgresType]
    type_names: Mapping[str, str]
    filter: str | None


def source_table(run: RunQuery, table: str, publication: str) -> SourceTable:
    """The table as it is now.  Raises UserError for a table that does not exist or cannot be
    followed, and for a publication without it."""
    schema, name = table.split(".", 1)
    found = run(_TABLE, schema, name).to_pylist()
    if not found or found[0]["kind"] not in "rp":
        raise UserError(
            "not a table of the database", table=table, hint="state its schema and name"
        )
    if found[0]["has_children"]:
        raise UserError(
            "a table with child tables by inheritance cannot be followed",
            table=table,
            hint="follow each child table, or use partitions",
        )
    if not run(_PUBLICATION, publication).num_rows:
        raise UserError(
            "the publication does not exist",
            publication=publication,
            hint=f"CREATE PUBLICATION {publication} FOR TABLE {table}",
        )
    id = found[0]["id"]
    parts = run(_PARTS, str(id), publication).to_pylist()
    published = _published(parts, id, table, publication)
    listed = [set(_names(p["columns"])) for p in published if p["columns"]]
    rows = [r for r in run(_COLUMNS, str(id)).to_pylist() if all(r["name"] in c for c in listed)]
    catalog = catalog_types(run, [row["kind"] for row in rows])
    return SourceTable(
        table,
        frozenset(part["id"] for part in parts) | {id},
        {row["name"]: resolved(row["kind"], row["modifier"], catalog) for row in rows},
        {row["name"]: row["type"] for row in rows},
        published[0]["filter"] if published else None,
    )


def _published(
    parts: Sequence[Mapping[str, Any]], id: int, table: str, publication: str
) -> list[Mapping[str, Any]]:
    """The entries of the publication: of the table, else of all its partitions."""
    root = [part for part in parts if part["id"] == id and part["is_published"]]
    if root:
        return root
    leaves = [part for part in parts if part["kind"] == "r"]
    of_partitions = [part for part in leaves if part["id"] != id and part["is_published"]]
    if len(of_partitions) != len(leaves):
        raise UserError(
            "the publication does not contain the table, or not all of its partitions",
            table=table,
            publication=publication,
            hint=f"ALTER PUBLICATION {publication} ADD TABLE {table}; a partition of a table that "
            "is published as a whole is not followed by itself",
        )
    if any(part["filter"] for part in of_partitions):
        raise UserError(
            "the publication has a filter of rows for a partition",
            table=table,
            publication=publication,
            hint="publish the partitioned table with publish_via_partition_root",
        )
    return of_partitions


def _names(texts: str) -> list[str]:
    names: list[str] = json.loads(texts)
    return names


def catalog_types(run: RunQuery, kinds: Collection[int]) -> dict[int, CatalogType]:
    """Types that are not built in, with those that they consist of."""
    found: dict[int, CatalogType] = {}
    missing = {kind for kind in kinds if not is_built_in(kind)}
    while missing:
        ids = "{" + ",".join(map(str, sorted(missing))) + "}"
        rows = run(_TYPES, ids).to_pylist()
        found |= dict.fromkeys(missing, CatalogType())
        for row in rows:
            found[row["id"]] = CatalogType(row["base"], row["modifier"], row["element"])
        parts = {n for row in rows for n in (row["base"], row["element"]) if not is_built_in(n)}
        missing = parts - found.keys()
    return found
