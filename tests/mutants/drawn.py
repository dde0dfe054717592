"""Faults that a rule draws: comparisons turned round, and guards that never hold.

Every comparison and every guard of the packages that decide about data is a site; a seed draws some
of them.  The tests of a site are those of its package that name its module, or else all of them.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.seeded import Mutant

ROOT = Path(__file__).parents[2]
FOLDERS = ("planning", "transaction", "services", "ingest/stream.py", "engines", "operations")
TURNED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
ENDS = (ast.Raise, ast.Return, ast.Continue, ast.Break)
TEST_FILES_MAX = 6


def drawn(seed: int, count: int) -> list[Mutant]:
    """So many faults, the same for the same seed and source."""
    sites = [site for path in _sources() for site in _sites(path)]
    return random.Random(seed).sample(sites, min(count, len(sites)))


def _sources() -> Iterator[Path]:
    for name in FOLDERS:
        place = ROOT / "pyhudi" / name
        yield from [place] if place.suffix else sorted(place.rglob("*.py"))


def _sites(path: Path) -> Iterator[Mutant]:
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    tests = _tests(path)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = node.left, node.comparators[0]
            new = f"{_source(lines, left)} {TURNED[type(node.ops[0])]} {_source(lines, right)}"
            yield _mutant(path, lines, node, new, tests)
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ENDS) and not node.orelse:
            yield _mutant(path, lines, node.test, "False", tests)


def _mutant(
    path: Path, lines: list[str], node: ast.expr, new: str, tests: tuple[str, ...]
) -> Mutant:
    """The fault at one node.  Lines before it belong to `old`, so that it occurs once."""
    assert node.end_lineno is not None
    old = _source(lines, node)
    first, last = node.lineno - 1, node.end_lineno - 1
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    name = f"{path.relative_to(ROOT)}:{node.lineno}: {' '.join(old.split())} -> {new}"
    text = "".join(lines)
    while text.count(f"{head}{old}{tail}") > 1 and first:
        first -= 1
        head = lines[first] + head
    short = str(path.relative_to(ROOT))
    return Mutant(name[:150], short, f"{head}{old}{tail}", f"{head}{new}{tail}", tests)


def _source(lines: list[str], node: ast.expr) -> str:
    return ast.get_source_segment("".join(lines), node) or ""


def _tests(path: Path) -> tuple[str, ...]:
    """The nearest tests: of the package, those that import the module first."""
    module = str(path.relative_to(ROOT).with_suffix("")).replace("/", ".")
    package = path.relative_to(ROOT).parts[1]
    folder = ROOT / "tests" / package.removesuffix(".py")
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    naming = [each for each in found if module in each.read_text("utf-8")]
    alike = [each for each in found if path.stem.split("_")[0] in each.stem and each not in naming]
    near = [*naming, *(each for each in alike if folder in each.parents)][:TEST_FILES_MAX]
    return tuple(str(each.relative_to(ROOT)) for each in near) or (f"tests/{folder.name}",)
