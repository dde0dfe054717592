"""The client of a catalog, by its kind; and tables by their names in a catalog."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from pyhudi.errors import TableNotFoundError, UserError
from pyhudi.options.catalogs import CatalogKind, CatalogOptions
from pyhudi.sync.catalog import Catalog
from pyhudi.sync.glue import GlueCatalog
from pyhudi.sync.hive_metastore import HiveMetastore
from pyhudi.sync.table_entries import INPUT_FORMATS, PROVIDER

CATALOG_SCHEMES: Final = ("hive", "glue")


def open_catalog(kind: CatalogKind, options: CatalogOptions) -> Catalog:
    """A client; it connects on its first request."""
    match kind:
        case CatalogKind.HIVE:
            return HiveMetastore(options.uri)
        case CatalogKind.GLUE:
            return GlueCatalog(options.region, options.endpoint, options.glue_catalog)


def location_of(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The location of the table that `hive://host:port/db.table` or `glue://db.table` names;
    another path or URL as it is.

    Raises TableNotFoundError, CatalogError; UserError for an entry of another format.
    """
    url = path if isinstance(path, str) else ""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in CATALOG_SCHEMES:
        return path
    parts = urlsplit(url)
    named = parts.path.strip("/") if scheme == "hive" else parts.netloc + parts.path
    database, dot, table = named.strip("/").replace("/", ".").rpartition(".")
    if not dot or not database or not table or "." in database or not parts.netloc:
        raise UserError(
            "the URL does not name a table of a catalog",
            path=url,
            hint="pass hive://host:9083/database.table or glue://database.table",
        )
    options = replace(CatalogOptions(), uri=f"thrift://{parts.netloc}")
    catalog = open_catalog(CatalogKind(scheme), options)
    try:
        found = catalog.table(database.lower(), table.lower())
    finally:
        catalog.close()
    if found is None:
        raise TableNotFoundError("the catalog has no such table", path=url)
    if found.input_format not in INPUT_FORMATS and found.properties.get(PROVIDER) != "hudi":
        raise UserError(
            "the catalog's entry is not a Hudi table", path=url, input_format=found.input_format
        )
    return _openable(found.location)


def _openable(location: str) -> str:
    """A location as `open_table` takes it: catalogs do not encode paths, and s3a: is Hadoop's
    name of s3:."""
    if location.startswith("file:"):
        return location.removeprefix("file://").removeprefix("file:")
    for scheme in ("s3a://", "s3n://"):
        if location.startswith(scheme):
            return "s3://" + location.removeprefix(scheme)
    return location
