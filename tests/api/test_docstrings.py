"""The examples in the docstrings of public methods run; each on a new table of two rows."""

from __future__ import annotations

import doctest
import inspect
import itertools
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api import merge_builder, path_calls, row_methods, table, write_methods

NAMES = itertools.count()
MODULES = (path_calls, table, row_methods, write_methods, merge_builder)
METHODS = ("upsert", "insert", "update", "delete", "merge", "scan", "changes", "diff", "history",
           "lookup", "fetch", "count")  # fmt: skip
"""Methods that must have an example."""


def examples() -> list[Any]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [each for module in MODULES for each in finder.find(module) if each.examples]
    return [pytest.param(each, id=each.name.removeprefix("pyhudi.api.")) for each in found]


@pytest.mark.parametrize("example", examples())
def test_an_example_prints_what_it_states(example: doctest.DocTest) -> None:
    rows = pa.table({"id": ["a", "b"], "fare": [10.0, 20.0]})
    trips = pyhudi.create_table(f"memory://doc{next(NAMES)}", rows.schema, record_key="id")
    trips.insert(rows)
    example.globs = {"trips": trips, "pa": pa, "pyhudi": pyhudi}
    output: list[str] = []
    failed = doctest.DocTestRunner().run(example, out=output.append).failed
    assert not failed, "".join(output)


@pytest.mark.parametrize("name", METHODS)
def test_everyday_methods_have_an_example(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(pyhudi.Table, name)) or "")
