"""The documentation site: every link leads somewhere, and every public name is documented."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pyhudi
import pyhudi.errors

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def test_every_link_names_a_file() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {match[1]}"
        for page in PAGES
        for match in LINK.finditer(page.read_text("utf-8"))
        if not (page.parent / match[1]).exists()
    ]
    assert not found, "\n".join(found)


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Dead links and anchors, pages outside the navigation and unknown names are warnings."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "reference" / "api.html").exists()


def documented() -> set[str]:
    """Names of the API reference."""
    pages = sorted((ROOT / "docs/reference").glob("*.md"))
    text = "\n".join(page.read_text("utf-8") for page in pages)
    members = re.search(r"members: \[(.*?)\]", text, re.DOTALL)
    assert members
    errors = {f"pyhudi.errors.{name.strip()}" for name in members[1].split(",")}
    names = re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)
    return errors | set(names)


def test_the_reference_documents_every_public_name() -> None:
    names = {
        f"pyhudi.errors.{name}" if name.endswith("Error") else f"pyhudi.{name}"
        for name in dir(pyhudi)
    }
    written = {name.replace("pyhudi.api.path_calls.", "pyhudi.") for name in documented()}
    assert not names - {"pyhudi.__version__"} - written


def test_the_reference_documents_every_method_of_a_table() -> None:
    names = {f"pyhudi.Table.{name}" for name in dir(pyhudi.Table) if not name.startswith("_")}
    assert names <= documented()


def test_the_reference_documents_every_public_name_on_spark() -> None:
    tree = ast.parse((ROOT / "pyhudi/spark/__init__.py").read_text("utf-8"))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found = {alias.asname for node in imported for alias in node.names if alias.asname}
    names = {f"pyhudi.spark.{name}" for name in found}
    assert names and not names - documented()


def test_the_reference_documents_every_error() -> None:
    kinds = {
        f"pyhudi.errors.{name}"
        for name, kind in vars(pyhudi.errors).items()
        if isinstance(kind, type) and issubclass(kind, pyhudi.errors.PyhudiError)
    }
    assert not kinds - documented()


def test_the_page_of_the_installation_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    page = (ROOT / "docs/start/install.md").read_text("utf-8")
    named = set(re.findall(r"`pyhudi\[(\w+)\]`", page))
    assert named == project["optional-dependencies"].keys() - {"dev", "docs"}


def test_the_front_page_fits_two_screens() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120
