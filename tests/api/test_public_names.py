from __future__ import annotations

import ast
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import pyhudi


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
        assert name is not None and getattr(pyhudi, name).__name__ == name


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
