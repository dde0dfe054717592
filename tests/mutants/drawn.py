"""Faults that a rule draws: comparisons turned round, and guards that never hold.

Every comparison and every guard of the packages that decide about data is a site, but no assertion;
a seed draws some of them.  The tests of a site are the files whose words are most like those of its
function and of its module's name: rare words count more, and a file that imports the module more.
"""

from __future__ import annotations

import ast
import math
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.mutants.seeded import Mutant

ROOT = Path(__file__).parents[2]
FOLDERS = ("planning", "transaction", "services", "ingest/stream.py", "engines", "operations")
TURNED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
ENDS = (ast.Raise, ast.Return, ast.Continue, ast.Break)
TEST_FILES_MAX = 4
LONG = ("interop", "spark", "crash", "properties", "model", "fuzz", "mutants", "newcomer", "cli")


def drawn(seed: int, count: int) -> list[Mutant]:
    """So many faults, the same for the same seed and source."""
    sites = [site for path in _sources() for site in _sites(path)]
    chosen = random.Random(seed).sample(sites, min(count, len(sites)))
    return [replace(mutant, tests=_nearest(mutant.path, scope)) for mutant, scope in chosen]


def _sources() -> Iterator[Path]:
    for name in FOLDERS:
        place = ROOT / "pyhudi" / name
        yield from [place] if place.suffix else sorted(place.rglob("*.py"))


def _sites(path: Path) -> Iterator[tuple[Mutant, str]]:
    """Each fault of a module, with the source of the function it is in."""
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    tree = ast.parse(text)
    for part in tree.body:
        inside = {n for n in ast.walk(part) if isinstance(n, ast.FunctionDef)}
        stated = {n for a in ast.walk(part) if isinstance(a, ast.Assert) for n in ast.walk(a)}
        for node in ast.walk(part):
            if node in stated:
                continue
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                left, right = (_source(lines, n) for n in (node.left, node.comparators[0]))
                new = f"({left}) {TURNED[type(node.ops[0])]} ({right})"
            elif isinstance(node, ast.If) and isinstance(node.body[-1], ENDS) and not node.orelse:
                node, new = node.test, "False"
            else:
                continue
            around = [n for n in inside if n.lineno <= node.lineno <= (n.end_lineno or 0)]
            scope = max(around, key=lambda n: n.lineno, default=part)
            yield _mutant(path, lines, node, new), _source(lines, scope)


def _mutant(path: Path, lines: list[str], node: ast.expr, new: str) -> Mutant:
    """The fault at one node.  Lines before it belong to `old`, so that it occurs once."""
    assert node.end_lineno is not None
    old = _source(lines, node)
    first, last = node.lineno - 1, node.end_lineno - 1
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    change = " ".join(f"{old} -> {new}".split())
    name = f"{path.relative_to(ROOT)}:{node.lineno}: {change}"
    text = "".join(lines)
    while text.count(f"{head}{old}{tail}") > 1 and first:
        first -= 1
        head = lines[first] + head
    short = str(path.relative_to(ROOT))
    return Mutant(name[:150], short, f"{head}{old}{tail}", f"{head}{new}{tail}", ())


def _source(lines: list[str], node: ast.expr) -> str:
    return ast.get_source_segment("".join(lines), node) or ""


def _nearest(path: str, scope: str) -> tuple[str, ...]:
    """The nearest tests of a function of a module, nearest first."""
    known = _known()
    rarity = Counter(word for words, _ in known.values() for word in words)
    sought = Counter(_words(scope))
    sought.update(dict.fromkeys(_words(Path(path).stem), 9))
    module = path.removesuffix(".py").replace("/", ".")

    def likeness(test: Path) -> float:
        words, text = known[test]
        total = sum(
            min(sought[word], 9) * math.log(len(known) / rarity[word])
            for word in words & sought.keys()
        )
        return total * (3 if f"{module} import" in text else 1) / math.sqrt(len(words))

    nearest = sorted(known, key=likeness, reverse=True)[:TEST_FILES_MAX]
    return tuple(str(test.relative_to(ROOT)) for test in nearest)


@cache
def _known() -> dict[Path, tuple[frozenset[str], str]]:
    """The words and the text of each file of tests that is not long."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    texts = {p: p.read_text("utf-8") for p in found if p.relative_to(ROOT).parts[1] not in LONG}
    return {path: (frozenset(_words(f"{path.stem} {text}")), text) for path, text in texts.items()}


def _words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]{2,}", text)]
