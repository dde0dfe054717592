"""Imports go down only: the floors of the architecture, enforced on the syntax trees."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "pyhudi"
FLOORS = (
    "errors",
    "_native",
    "records reports lookup_calibration",
    "filenames options",
    "storage engine",
    "formats",
    "timeline",
    "table",
    "planning",
    "metadata",
    "merge",
    "read",
    "keygen",
    "index",
    "transaction",
    "write",
    "services",
    "operations",
    "health",
    "api",
    "__init__",
    "spark",
    "cli",
    "__main__",
)
FLOOR = {name: n for n, names in enumerate(FLOORS) for name in names.split()}
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


def modules() -> list[tuple[Path, str, ast.Module]]:
    """Every module: its path, its room, its tree."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        found.append((path.relative_to(PACKAGE.parent), room, ast.parse(path.read_text("utf-8"))))
    return found


def test_every_room_has_a_floor() -> None:
    assert {room for _, room, _ in modules()} <= FLOOR.keys()


def test_imports_only_go_down() -> None:
    breaches = []
    for path, here, tree in modules():
        for line, name, level in own_imports(tree):
            there = name.split(".")[1] if name.startswith("pyhudi.") else here
            if name == "pyhudi":
                continue  # `from pyhudi import x` is seen again as pyhudi.x
            if level or (there != here and FLOOR.get(there, -1) >= FLOOR[here]):
                breaches.append(f"{path}:{line}: {here} may not import {name}")
    assert not breaches, "\n".join(breaches)


def test_names_of_the_front_door_are_not_used_from_below() -> None:
    breaches = []
    for path, here, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "pyhudi":
                names = {a.name for a in node.names} - FLOOR.keys()
                if names and FLOOR[here] <= FLOOR["__init__"]:
                    breaches.append(f"{path}:{node.lineno}: {here} imports {sorted(names)}")
    assert not breaches, "\n".join(breaches)


def test_only_the_spark_room_knows_spark() -> None:
    breaches = [
        f"{path}:{line}: {name}"
        for path, here, tree in modules()
        for line, name, _ in own_imports(tree)
        if name.split(".")[0] in SPARK_ONLY and FLOOR[here] < FLOOR["spark"]
    ]
    assert not breaches, "\n".join(breaches)


def test_the_core_starts_without_heavy_libraries() -> None:
    text = "import sys, pyhudi; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    run = subprocess.run(
        [sys.executable, "-c", text],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not HEAVY & set(run.stdout.split())
