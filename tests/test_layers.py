"""Imports go down only: the layers of the architecture, enforced on the syntax trees."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.layers import LAYERS, PACKAGE, PICTURE, render

LAYER = {name: n for n, names in enumerate(LAYERS) for name in names.split()}
SPARK_ONLY = {"pyspark", "py4j"}
HEAVY = {"pandas", "pyspark", "py4j", "click", "rich", "polars", "duckdb", "fsspec"}


def own_imports(tree: ast.AST) -> Iterator[tuple[int, str, int]]:
    for node in ast.walk(tree):  # function bodies too: no lazy dodging
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or "", node.level
            if node.module == "pyhudi":
                yield from ((node.lineno, f"pyhudi.{a.name}", 0) for a in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, 0) for alias in node.names)


@cache
def modules() -> list[tuple[Path, str, ast.Module]]:
    """Every module: its path, its package, its tree."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        found.append(
            (path.relative_to(PACKAGE.parent), package, ast.parse(path.read_text("utf-8")))
        )
    return found


def test_every_package_has_a_layer() -> None:
    assert {package for _, package, _ in modules()} <= LAYER.keys()


def test_imports_only_go_down() -> None:
    breaches = []
    for path, here, tree in modules():
        for line, name, level in own_imports(tree):
            there = name.split(".")[1] if name.startswith("pyhudi.") else here
            if name == "pyhudi":
                continue  # `from pyhudi import x` is seen again as pyhudi.x
            if level or (there != here and LAYER.get(there, -1) >= LAYER[here]):
                breaches.append(f"{path}:{line}: {here} may not import {name}")
    assert not breaches, "\n".join(breaches)


def test_no_module_imports_itself_through_others() -> None:
    known = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): tree
        for path, _, tree in modules()
    }
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, tree in known.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found = {f"{node.module}.{alias.name}" for alias in node.names} & known.keys()
                graph[name] |= found or {node.module} & known.keys()
    TopologicalSorter(graph).prepare()  # raises CycleError with the modules


def test_names_of_the_public_api_are_not_used_from_below() -> None:
    breaches = []
    for path, here, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "pyhudi":
                names = {a.name for a in node.names} - LAYER.keys()
                if names and LAYER[here] <= LAYER["__init__"]:
                    breaches.append(f"{path}:{node.lineno}: {here} imports {sorted(names)}")
    assert not breaches, "\n".join(breaches)


def test_engines_are_passed_down_from_the_api() -> None:
    """So that work runs where the caller's engine runs it, and in one thread if it says so."""
    breaches = [
        f"{path}:{node.lineno}"
        for path, here, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("LocalEngine", "SparkEngine")
        if here != "engine" and LAYER[here] < LAYER["api"]
    ]
    assert not breaches, "\n".join(breaches)


def test_only_the_spark_package_knows_spark() -> None:
    breaches = [
        f"{path}:{line}: {name}"
        for path, here, tree in modules()
        for line, name, _ in own_imports(tree)
        if name.split(".")[0] in SPARK_ONLY and LAYER[here] < LAYER["spark"]
    ]
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize(("module", "absent"), [("pyhudi", HEAVY), ("pyhudi.cli.app", {"pandas"})])
def test_it_starts_without_heavy_libraries(module: str, absent: set[str]) -> None:
    text = f"import sys, {module}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    run = subprocess.run(
        [sys.executable, "-c", text],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not absent & set(run.stdout.split())


def test_the_picture_of_the_layers_is_current() -> None:
    assert render() == PICTURE.read_text("utf-8"), (
        "layers changed: python -m tests.layers > docs/architecture.svg"
    )
