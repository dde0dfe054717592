from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from functools import cached_property
from importlib import metadata
from pathlib import Path

import pytest

import pyhudi
from pyhudi.api.health_methods import MetadataCare, TableServices
from pyhudi.api.index_methods import TableIndex


def test_every_name_of_the_api_is_there() -> None:
    tree = ast.parse(Path(pyhudi.__file__).read_text())
    declared = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pyhudi")
        for alias in node.names
    }
    assert {"open_table", "create_table", "HFileReader", "SnapshotExpiredError"} <= declared
    assert declared <= set(dir(pyhudi))
    for name in declared:
        # the function pyhudi.read is the package of this name, too
        assert name is not None and getattr(pyhudi, name).__name__.rpartition(".")[2] == name


def test_every_public_method_and_property_has_a_docstring() -> None:
    """The API reference leaves out what has none."""
    kinds = [getattr(pyhudi, name) for name in dir(pyhudi)] + [
        TableIndex,
        TableServices,
        MetadataCare,
    ]
    silent = [
        f"{kind.__name__}.{name}"
        for kind in kinds
        if inspect.isclass(kind) and not issubclass(kind, BaseException)
        for name, member in inspect.getmembers(kind, _is_documented)
        if not name.startswith("_") and not inspect.getdoc(member)
    ]
    assert not silent


def _is_documented(member: object) -> bool:
    return inspect.isroutine(member) or isinstance(member, property | cached_property)


def test_dir_shows_only_public_names() -> None:
    assert not [name for name in dir(pyhudi) if name.startswith("_")]
    assert {"Any", "Final", "TYPE_CHECKING", "annotations", "import_module"}.isdisjoint(dir(pyhudi))


def test_the_version_is_that_of_the_installed_package() -> None:
    assert pyhudi.__version__ == metadata.version("pyhudi")
    assert pyhudi.__version__[0].isdigit()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nope"):
        _ = pyhudi.nope


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, pyhudi; pyhudi.open_table;"
        "print([m for m in ('pyspark', 'pandas', 'click', 'rich', 'polars', 'duckdb')"
        " if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
