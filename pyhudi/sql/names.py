"""Names of tables in SQL: those that a call gives, paths, and folders of tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pyhudi.api.table import Table
from pyhudi.errors import TableNotFoundError, UserError
from pyhudi.filenames import HOODIE
from pyhudi.near_names import near_names
from pyhudi.sql.statements import Name
from pyhudi.storage.url_resolver import locate

Named: TypeAlias = Any
"""What a name stands for: a Table, the path of one, or rows."""

PROPERTIES_FILE: Final = f"{HOODIE}/hoodie.properties"
"""The file that makes a folder a table."""
_PATH_FORM: Final = "hudi"
_DEFAULT: Final = "default"
"""The database of tables whose name has no other."""


@dataclass(frozen=True, slots=True)
class Names:
    """The tables that a statement may name.

    tables: by name.  folder: of which each child with a `.hoodie` folder is a table.
    open: opens a path.
    """

    open: Callable[[str], Table]
    tables: Mapping[str, Named] = field(default_factory=dict)
    folder: str | None = None
    storage_options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.tables, Mapping) or not all(isinstance(n, str) for n in self.tables):
            raise UserError(
                "tables must map names to tables",
                given=ascii(self.tables)[:80],
                hint='tables={"trips": "/data/trips"}',
            )

    def find(self, name: Name) -> Named:
        """The table or rows of a name; a table as of now.  Raises UserError with near names."""
        found = self._given(name)
        if found is None and self.folder is not None and (child := self._child(name)):
            found = self.path_of(child)
        if found is None:
            raise self._unknown(name)
        if isinstance(found, str | os.PathLike):
            return self.open(os.fspath(found)).frozen()
        return found.frozen() if isinstance(found, Table) else found

    def _given(self, name: Name) -> Named | None:
        if self.is_path(name):
            return name.parts[1]
        text = str(name)
        if text in self.tables:
            return self.tables[text]
        alike = [one for one in self.tables if one.lower() == text.lower()]
        if len(alike) > 1:
            raise UserError(
                "the name of a table is ambiguous",
                table=text,
                names=", ".join(alike),
                hint="write it as it was registered",
            )
        return self.tables[alike[0]] if alike else None

    def is_path(self, name: Name) -> bool:
        """Whether a name has the form hudi.`path`."""
        return len(name.parts) == 2 and name.parts[0].lower() == _PATH_FORM

    def folder_of(self, name: Name) -> str | None:
        """The path of a name that is found in the folder; None for other names."""
        if self.folder is None or self._given(name) is not None:
            return None
        child = self._child(name)
        if child is None:
            return None
        return locate(self.path_of(child), storage_options=self.storage_options).url

    def place(self, name: Name, location: str | None) -> tuple[str, Table | None]:
        """The path that a new table of a name has, and the table that is there.

        location: of the statement.  Raises UserError for a name without a place, and for a location
        where the name would not be found.
        """
        given = self._given(name)
        if given is not None and not isinstance(given, str | os.PathLike | Table):
            raise UserError("the name is that of rows", table=str(name), hint="use another name")
        if isinstance(given, Table):
            return given.path, given
        if given is not None:
            path = os.fspath(given)
        elif self.folder is not None:
            path = self._new_child(name)
        elif location is not None:
            path = location
        else:
            raise UserError(
                "the table has no place",
                table=str(name),
                hint="write LOCATION 'path', hudi.`path`, or use pyhudi.connect(folder)",
            )
        store = locate(path, storage_options=self.storage_options)
        if location is not None and store.url != locate(
            location, storage_options=self.storage_options
        ).url.rstrip("/"):
            raise UserError(
                "LOCATION is another place than that of the name",
                table=str(name),
                place=store.url,
                location=location,
                hint=f"write hudi.`{location}` as the name",
            )
        is_there = store.exists(PROPERTIES_FILE)
        return path, self.open(path) if is_there else None

    def _new_child(self, name: Name) -> str:
        child = self.child_name(name)
        if child.startswith((".", "_")) or not child.isprintable() or child != child.strip():
            raise UserError(
                "the name cannot be that of a table in a folder",
                table=str(name),
                folder=self.folder,
                hint="begin with a letter, without spaces around it",
            )
        assert self.folder is not None
        if locate(self.folder, storage_options=self.storage_options).exists(PROPERTIES_FILE):
            raise UserError(
                "the folder is a table, which has no other tables in it",
                folder=self.folder,
                hint="connect to the folder above it",
            )
        return self.path_of(self._child(name) or child)

    def child_name(self, name: Name) -> str:
        """The name of a folder for a table's name.  Raises UserError if it cannot be one."""
        parts = [part for part in name.parts if part.lower() != _DEFAULT] or list(name.parts)
        if len(parts) > 1 or parts[0] in ("", ".", "..") or set(parts[0]) & set("/\\\0"):
            raise UserError(
                "the name cannot be that of a table in a folder",
                table=str(name),
                folder=self.folder,
                hint="use one name without separators of paths",
            )
        return parts[0]

    def path_of(self, child: str) -> str:
        """The path of a table in the folder."""
        assert self.folder is not None
        return f"{self.folder.rstrip('/')}/{child}"

    def children(self) -> list[str]:
        """The names of the folder's tables, sorted.  Cost: one listing a child."""
        if self.folder is None:
            return []
        root = locate(self.folder, storage_options=self.storage_options)
        folders = [entry.name for entry in root.children() if entry.is_folder]
        return sorted(name for name in folders if root.sub(name).exists(PROPERTIES_FILE))

    def _child(self, name: Name) -> str | None:
        try:
            requested = self.child_name(name)
        except UserError:
            return None
        known = self.children()
        return next((one for one in known if one == requested), None) or next(
            (one for one in known if one.lower() == requested.lower()), None
        )

    def _unknown(self, name: Name) -> TableNotFoundError:
        known = [*self.tables, *self.children()]
        near = near_names(str(name), known, 3)
        listed = f"known: {', '.join(sorted(known)[:20])}" if known else "no table is registered"
        how = f"pass tables={{'{name}': path}}, or write hudi.`path`"
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        return TableNotFoundError(
            "no table has this name", table=str(name), hint=f"{meant}{listed}; {how}"
        )
