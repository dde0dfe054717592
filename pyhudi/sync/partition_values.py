"""Values of a catalog's partition keys, from partition paths.

The extractors are those of Apache Hudi: every level is a value; the whole path is one; days and
hours whose levels are separated by slashes are one value with dashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

from pyhudi.errors import UserError

Extract = Callable[[str], tuple[str, ...]]


def _value(level: str) -> str:
    """The value of one level, `city=sf` or `sf`."""
    return level.partition("=")[2] if "=" in level else level


def _each_level(path: str) -> tuple[str, ...]:
    return tuple(map(_value, path.split("/")))


def _whole_path(path: str) -> tuple[str, ...]:
    return (path,)


def _one_value(path: str) -> tuple[str, ...]:
    """Levels of a path made from one column are parts of a time, joined by dashes."""
    return (_value(path).replace("/", "-"),)


def _hive_style(path: str) -> tuple[str, ...]:
    if path.count("=") != 1:
        raise ValueError("it is not key=value")
    return (path.partition("=")[2],)


def _with_dashes(levels: int) -> Extract:
    def extract(path: str) -> tuple[str, ...]:
        values = _each_level(path)
        if len(values) != levels or not all(value.isdigit() for value in values):
            raise ValueError(f"it does not have {levels} levels of numbers")
        return ("-".join(value.zfill(2) for value in values),)

    return extract


EXTRACTORS: Final[Mapping[str, Extract]] = {
    "MultiPartKeysValueExtractor": _each_level,
    "SinglePartPartitionValueExtractor": _whole_path,
    "HiveStylePartitionValueExtractor": _hive_style,
    "SlashEncodedDayPartitionValueExtractor": _with_dashes(3),
    "SlashEncodedHourPartitionValueExtractor": _with_dashes(4),
    "NonPartitionedExtractor": lambda path: (),
}
"""Extractors by the simple names of Apache Hudi's classes."""


def catalog_values(
    path: str, keys: tuple[str, ...], *, extractor: str | None, decode: bool
) -> tuple[str, ...]:
    """One value for each key.

    extractor: a name of EXTRACTORS; None: the whole path for one key (`2026/11/21` is
    2026-11-21, as in Apache Hudi 0.15.0), else each level is a value.
    decode: whether values are URL-decoded.  Raises UserError for a path that does not fit.
    """
    if extractor is not None:
        extract = EXTRACTORS[extractor]
    else:
        extract = _one_value if len(keys) == 1 else _each_level
    try:
        values = extract(path)
    except ValueError as error:
        raise _misfit(path, keys, extractor, str(error)) from None
    if len(values) != len(keys):
        raise _misfit(path, keys, extractor, f"it has {len(values)} values for {len(keys)} keys")
    return tuple(map(unquote, values)) if decode else values


def _misfit(path: str, keys: tuple[str, ...], extractor: str | None, why: str) -> UserError:
    return UserError(
        f"the extractor cannot take partition values from the path: {why}",
        partition=path,
        keys=",".join(keys),
        extractor=extractor or "by default",
        hint="set hoodie.datasource.hive_sync.partition_extractor_class, .partition_fields",
    )
