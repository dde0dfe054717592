"""The documentation site: every link leads somewhere, and every public name is documented."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pyhudi
import pyhudi.errors
from docs._build.parameters import listed

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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; dead links and anchors, pages outside the navigation and unknown names fail."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert (site / "reference" / "api.html").exists()


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
    packages = re.compile(r"pyhudi\.(api\.path_calls|sql\.session)\.")
    written = {packages.sub("pyhudi.", name) for name in documented()}
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


def test_parameters_of_a_docstring_become_a_list() -> None:
    text = (
        "Opens.\n\nversion: of\nthe format; `name` is kept.  name, path: of it.  Raises UserError."
    )
    assert listed(text, ["name", "path", "version"]) == (
        "Opens.\n\n- `version`: of the format; `name` is kept.\n- `name, path`: of it.\n\n"
        "Raises UserError."
    )
    assert listed(text, ["other"]) == text


def test_the_site_lists_the_parameters_of_a_function(site: Path) -> None:
    page = (site / "reference" / "table.html").read_text("utf-8")
    assert re.search(r"<li>\s*(<p>)?<code>schema</code>:", page)
