"""Properties of an ingest: those of the streamer, of the table, and of the client of the source."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from pyhudi.errors import OptionError
from pyhudi.options.names.ingest import OLD_STREAMER_PREFIX, STREAMER_PREFIX
from pyhudi.options.option_row import Fate
from pyhudi.options.parse import checked_value, row_of, unknown_option

_log = logging.getLogger("pyhudi.ingest")
_OPEN = (f"{STREAMER_PREFIX}jdbc.extra.options.", f"{OLD_STREAMER_PREFIX}jdbc.extra.options.")
"""Prefixes of names that the user completes."""


def read_properties(path: str) -> dict[str, str]:
    """The entries of a properties file and of those that it includes (`include=other.properties`).

    As Apache Hudi's streamer reads them: UTF-8, an entry `NAME=VALUE` in each line, without escapes
    and continued lines.  Later entries take precedence, those of a file where it is included.
    Raises OptionError for a file that cannot be read or includes itself, and for other lines.
    """
    return dict(_entries(Path(path.removeprefix("file://")), ()))


def _entries(path: Path, including: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    if path.resolve() in including:
        raise OptionError("a properties file includes itself", path=str(path))
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(
            "the properties file cannot be read", path=str(path), reason=str(error)
        ) from None
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff")), 1):
        name, separator, value = (part.strip() for part in line.partition("="))
        if not line.strip() or name.startswith(("#", "!")):
            continue
        if not (name and separator) or (value.endswith("\\") and len(value) > 1):
            raise OptionError(
                "a line of the properties file is not NAME=VALUE",
                path=str(path),
                line=number,
                hint="an entry is one line, which no backslash continues",
            )
        if name == "include":
            other = path.parent / value.removeprefix("file://")
            yield from _entries(other, (*including, path.resolve()))
        else:
            yield name, value


@dataclass(frozen=True, slots=True)
class SortedProperties:
    """Properties by what they are for.

    streamer: by names without prefix.  table: options of the table.  client: all others.
    """

    streamer: Mapping[str, str] = field(default_factory=dict)
    table: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=dict)


def sorted_properties(given: Mapping[str, str]) -> SortedProperties:
    """Raises OptionError for unknown and refused names of the streamer, and for invalid values;
    names of the table are checked when it is opened."""
    streamer: dict[str, str] = {}
    table: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, text in given.items():
        row = row_of(name)
        is_streamer = name.startswith((STREAMER_PREFIX, OLD_STREAMER_PREFIX)) and (
            row is None or not row.name.startswith("hoodie.keygen.")
        )
        if name.startswith(_OPEN):
            streamer[_short(name)] = text
        elif is_streamer or (row is not None and row.fate is Fate.INGEST):
            if row is None:
                raise unknown_option(name)
            checked_value(row, name, text)
            if row.fate is Fate.INGEST:
                streamer[_short(row.name)] = text.strip()
            elif row.fate is Fate.WITHOUT_EFFECT:
                _log.info("option without effect: %s (%s)", name, row.note)
        elif name.startswith(("hoodie.", "pyhudi.", "_")):
            table[name] = text
        else:
            client[name] = text
    return SortedProperties(streamer, table, client)


def _short(name: str) -> str:
    return name.removeprefix(STREAMER_PREFIX).removeprefix(OLD_STREAMER_PREFIX)


class UsedProperties(Mapping[str, str]):
    """Properties that remember which of them were read."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._used: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self._used.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def check_used(
        self,
        families: tuple[str, ...],
        source: str,
        usual: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> None:
        """Raises OptionError if the source did not read a property that is for it.

        families: prefixes of the names that are for it.  usual: values (the last part of a Java
        class) that need not be read, empty for any.
        """
        for name, value in self._values.items():
            if not name.startswith(families or ("\0",)) or name in self._used:
                continue
            fine = usual.get(name)
            if fine is not None and (not fine or value.rpartition(".")[2] in fine):
                continue
            raise OptionError(
                "the source does not support this value of a property",
                source=source,
                option=STREAMER_PREFIX + name,
                value=value,
                hint="leave it out",
            )
