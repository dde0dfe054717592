"""Measurable claims about the code, each with its figure now and its limit, if it has one.

    python -m tools.house

A walk counts the modules with a function that ran: all, and those that docs/architecture.md lists.
Exit status 1 if a figure is above its limit.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyhudi
from tests.layers import LAYERS
from tests.test_architecture import LATER, ROWS, entered, listed

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pyhudi"
_LAYER = {name: number for number, names in enumerate(LAYERS) for name in names.split()}
_REGION = re.compile(r"<!-- generated: [\w ]+ -->\n(.*?)<!-- end -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Claim:
    """what: in words.  value: its figure now.  limit: what it may be at most; None: any."""

    what: str
    value: float
    limit: float | None = None

    @property
    def holds(self) -> bool:
        return self.limit is None or self.value <= self.limit

    def __str__(self) -> str:
        mark = " " if self.holds else "!"
        limit = "" if self.limit is None else f"  (at most {self.limit:,g})"
        return f"{mark} {self.value:>9,g}  {self.what}{limit}"


def tracked(*patterns: str) -> list[Path]:
    names = subprocess.check_output(["git", "ls-files", "--", *patterns], cwd=ROOT, text=True)
    return [path for name in names.split() if (path := ROOT / name).is_file()]


def text_claims() -> Iterator[Claim]:
    """What files hold, without running any."""
    sources = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    lines = [text.count("\n") for text in sources.values()]
    native = sum(path.read_text("utf-8").count("\n") for path in PACKAGE.rglob("*.p[yx][xd]"))
    yield Claim("lines of Python in the library", sum(lines))
    yield Claim("lines of Cython in the library", native)
    yield Claim("Python files in the library", len(lines))
    yield Claim("of them above 450 lines, which is advice", sum(n > 450 for n in lines))
    naming = sum("LogInstant" in sources[path] for path in sources if path.parent.name != "layouts")
    yield Claim("modules outside layouts/ that name LogInstant", naming, 0)
    making = sum(_calls("LocalEngine", sources[path]) for path in sources if _is_below_api(path))
    yield Claim("engines made below api/", making, 0)
    pages = [path.read_text("utf-8") for path in tracked("docs/**/*.md", "docs/*.md", "README.md")]
    filled = sum("\n|" in part for page in pages for part in _REGION.findall(page))
    yield Claim("generated files in git, without the drawn picture", filled, 0)
    tests = [path.read_text("utf-8") for path in tracked("tests/**/*.py")]
    private = sum(len(re.findall(r"\w\._(?:fs\b|state\(\))", text)) for text in tests)
    yield Claim("accesses of _fs and _state() in tests", private)
    readme = (ROOT / "README.md").read_text("utf-8").count("\n")
    yield Claim("lines of the README", readme, 120)


def ci_claims() -> Iterator[Claim]:
    """How long CI took when it last ran here."""
    took = ROOT / "build" / "ci_seconds"
    if took.is_file():
        yield Claim("minutes of the last run of CI here", round(int(took.read_text()) / 60, 1), 20)


def _is_below_api(path: Path) -> bool:
    package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return package != "engine" and _LAYER[package] < _LAYER["api"]


def _calls(name: str, text: str) -> int:
    nodes = ast.walk(ast.parse(text))
    return sum(isinstance(node, ast.Call) and ast.unparse(node.func) == name for node in nodes)


def walk_claims(folder: Path) -> Iterator[Claim]:
    """Modules that an upsert, a local scan and a compaction enter, on a table of version 9."""
    options = {"hoodie.write.table.version": "9"}
    table: Any = pyhudi.create_table(
        folder / "t",
        ROWS.schema,
        record_key="id",
        partition_by="city",
        ordering="at",
        table_type="mor",
        options=options,
    )
    table.insert(ROWS)
    walks: dict[str, Callable[[], Any]] = {
        "An upsert": lambda: table.upsert(LATER),
        "A scan": lambda: table.scan().to_arrow(),
        "A compaction": table.compact,
    }
    for name, walk in walks.items():
        yield Claim(f"{name}: modules entered", len(entered(walk)))
        if names := listed(name):
            yield Claim(f"{name}: modules in docs/architecture.md", len(names), 30)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        claims = [*text_claims(), *walk_claims(Path(folder)), *ci_claims()]
    print(*claims, sep="\n")
    return 0 if all(claim.holds for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
