"""House rules that a machine can check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs._build import generated
from tests import messages

ROOT = Path(__file__).parents[1]
SOURCES = sorted(p for p in (ROOT / "pyhudi").rglob("*.py"))
NATIVE = sorted(p for p in (ROOT / "pyhudi").rglob("*.p[yx][xdi]"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TEXTS = sorted(
    p
    for pattern in ("*.md", "*.toml", "*.cfg", "Makefile", "setup.py", "docs/**/*.md", ".ci/*")
    for p in ROOT.glob(pattern)
)
OTHERS = sorted(p for name in ("bench", "tools") for p in (ROOT / name).rglob("*.py"))
EVERYTHING = [*SOURCES, *NATIVE, *TESTS, *TEXTS, *OTHERS]

FUNCTION_LINES_MAX = 60
POSITIONAL_MAX = 6
UNUSUAL = re.compile(
    r"\b(told|tells?|asks?|asked|beside|mend(s|ed|ing)?|anew|somebody|nobody|the dead|"
    r"dead writers?|puts? aside|of (one's|your|its) own|what becomes of|gives? way|stands? for)\b",
    re.IGNORECASE,
)
"""Words that manuals of databases do not use, and for which there is a standard term."""
UNUSUAL_IN_NAMES = re.compile(
    r"told|tells?|asks?|asked|asking|kept|beside|mend(s|ed|ing)?|anew|somebody|nobody|dead|"
    r"believed?|wanted|wants|parked|pieces?|doors?|aside|settled?|standing"
)
"""Words of the code that stand for a standard term: reported, requested, retained, repaired..."""
PROMISED_NAMES = {
    "tell",  # the position of a file, as Python's files call it
    "kept_from",  # a field of the report of a clean, and of its JSON
}
BANNED = re.compile(r"(Manager|Helper|Utils?|Handler|Processor|Base)$|^Abstract[A-Z]")
_MACHINE = "|".join(("/wor" + "k/", "/tm" + "p/team", "/ho" + "me/", "/roo" + "t/", "/Use" + "rs/"))
MACHINE_PATH = re.compile(rf"(?<![\w.]){_MACHINE}")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module", autouse=True)
def trees_of_this_module() -> Iterator[None]:
    """They are large."""
    yield
    trees.cache_clear()


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text("utf-8"))) for path in SOURCES]


def test_no_file_holds_the_path_of_a_machine() -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()[:80]}"
        for path in EVERYTHING
        if path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found, "\n".join(found)


def test_errors_are_not_caught_wholesale() -> None:
    """`except Exception` only at the command line's door."""
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            caught = ast.unparse(node.type) if node.type else "BaseException"
            wholesale = re.search(r"\b(Base)?Exception\b", caught)
            raises = any(isinstance(n, ast.Raise) for n in ast.walk(node))
            if wholesale and not raises and "cli" not in path.parts:
                found.append(f"{relative(path)}:{node.lineno}")
    assert not found, "\n".join(found)


def test_only_layouts_compare_the_instant_in_the_names_of_logs() -> None:
    """Other packages use the properties of `TableLayout`, which say what follows from it."""
    assert not [
        relative(path)
        for path in [*SOURCES, *TESTS]
        if path != Path(__file__)
        and path.parent.name != "layouts"
        and "LogInstant" in path.read_text("utf-8")
    ]


def test_functions_fit_a_screen() -> None:
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    found.append(f"{relative(path)}:{node.lineno}: {node.name} has {lines} lines")
    assert not found, "\n".join(found)


def test_functions_take_few_positional_arguments() -> None:
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and "cli" not in path.parts:
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
                if len([name for name in names if name not in ("self", "cls")]) > POSITIONAL_MAX:
                    found.append(f"{relative(path)}:{node.lineno}: {node.name}")
    assert not found, "\n".join(found)


def test_names_say_what_things_are() -> None:
    found = [
        f"{relative(path)}:{node.lineno}: {node.name}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and BANNED.search(node.name)
    ]
    assert not found, "\n".join(found)


def test_every_module_says_what_it_is() -> None:
    silent = [relative(path) for path, tree in trees() if tree.body and not ast.get_docstring(tree)]
    assert not silent, "\n".join(silent)


def test_arguments_have_no_mutable_defaults_and_at_most_one_bool() -> None:
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or "cli" in path.parts:
                continue
            defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
            if any(isinstance(d, ast.List | ast.Dict | ast.Set) for d in defaults):
                found.append(f"{relative(path)}:{node.lineno}: {node.name}: mutable default")
            plain = node.args.args
            bools = [
                a for a in plain if isinstance(a.annotation, ast.Name) and a.annotation.id == "bool"
            ]
            if len(bools) > 1:
                found.append(f"{relative(path)}:{node.lineno}: {node.name}: two positional bools")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", NATIVE, ids=relative)
def test_native_code_neither_includes_nor_leaves_return_types_open(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"^\s*include\s+[\"']", text, re.MULTILINE)
    untyped = re.findall(r"^cdef (?:inline )?(\w+)\(", text, re.MULTILINE)
    assert not untyped, untyped


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a module defines, binds, calls or reads by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name)):
                yield node.value.lineno, name


def words_of(name: str) -> list[str]:
    """Words of a name in lower case, for names in snake case, camel case and capitals."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


@cache
def is_unusual(name: str) -> bool:
    return name not in PROMISED_NAMES and any(map(UNUSUAL_IN_NAMES.fullmatch, words_of(name)))


def test_words_of_names_are_found_in_every_spelling() -> None:
    assert words_of("_is_keptFile") == ["is", "kept", "file"]
    assert words_of("ToldAPI") == ["told", "api"]
    assert words_of("KEPT_2_told") == ["kept", "told"]


@pytest.mark.parametrize(
    "folder", ["pyhudi", "pyspark_pyhudi", "bench", "examples", "tests", "tools"]
)
def test_names_use_standard_terms(folder: str) -> None:
    parsed = (
        iter(trees())
        if folder == "pyhudi"
        else ((p, ast.parse(p.read_text("utf-8"))) for p in (ROOT / folder).rglob("*.py"))
    )
    found = {
        f"{relative(path)}:{line}: {name}"
        for path, tree in parsed
        for line, name in [(0, path.stem), *identifiers(tree)]
        if is_unusual(name)
    }
    assert not found, "\n".join(sorted(found))


def user_facing() -> list[Path]:
    """Documentation and the texts of the command line."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [*pages, *sorted((ROOT / "pyhudi/cli").glob("*.py"))]


def unusual(text: str) -> list[str]:
    return [
        f"{number}: {match.group()}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        if (match := UNUSUAL.search(line))
    ]


@pytest.mark.parametrize("part", generated.PARTS)
def test_generated_parts_of_pages_use_standard_terms(part: str) -> None:
    assert not unusual(generated.PARTS[part]())


@pytest.mark.parametrize("path", user_facing(), ids=relative)
def test_texts_for_users_use_standard_terms(path: Path) -> None:
    assert not unusual(path.read_text("utf-8"))


def test_error_messages_use_standard_terms() -> None:
    assert not unusual(messages.render())
