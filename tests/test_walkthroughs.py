"""docs/ingest.md and pages below a folder of docs/ run from top to bottom, as a reader types them.

The blocks of a page share their names and one empty folder.  A comment after a `print` is its
output.  Lines of shell blocks: `pyhudi` runs the command line; other lines name targets, extras and
files that exist.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.cli.app import commands
from pyhudi.environment import examine_environment
from pyhudi.options import DEFAULT_TABLE_VERSION
from pyhudi.write import table_creation
from tests.support.fake_metastore import metastore
from tests.support.object_stores import environment_of, shared_s3
from tests.support.spark_views import drop_views

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / "ingest.md", *sorted((ROOT / "docs").glob("*/*.md"))]
OTHER_PAGES = [
    page
    for page in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
    if page not in PAGES
]
ANY_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"```(python|sh)\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text("utf-8"))


def needs_spark(page: Path) -> bool:
    return any(kind == "python" and "spark" in block for kind, block in blocks(page))


def pages(*, spark: bool) -> list[Any]:
    return [
        pytest.param(page, id=str(page.relative_to(ROOT / "docs")))
        for page in PAGES
        if blocks(page) and needs_spark(page) is spark
    ]


@pytest.fixture(autouse=True)
def default_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages describe tables of the default version, whatever version a run requests."""
    monkeypatch.setattr(table_creation, "DEFAULT_TABLE_VERSION", DEFAULT_TABLE_VERSION)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def run_page(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, (kind, block) in enumerate(blocks(page), 1):
        where = f"{page.name}, block {number}"
        if kind == "python":
            run_python(block, names, where)
        else:
            for line in block.replace("\\\n", "").splitlines():
                run_line(shlex.split(line, comments=True), where)


def run_python(block: str, names: dict[str, Any], where: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, f"<{where}>", "exec"), names)
    lines = iter(output.getvalue().splitlines())
    for expected in PRINTED.findall(block):
        assert expected in lines, f"{where}: {expected!r} is not in {output.getvalue()!r}"


def run_line(words: list[str], where: str) -> None:
    match words:
        case []:
            return
        case ["pyhudi", "serve", *arguments]:  # ends when it is stopped
            options = {text for each in commands.commands["serve"].params for text in each.opts}
            assert {text for text in arguments if text.startswith("--")} <= options, where
        case ["pyhudi", "sync", path, *arguments]:
            run_sync(path, arguments, where)
        case ["pyhudi", "sql", *arguments]:
            run_sql(arguments, where)
        case ["pyhudi", *arguments]:
            run_command(arguments, where)
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        case ["pip", "install", *packages]:
            for extras in re.findall(r"pyhudi\[(.*?)\]", " ".join(packages)):
                assert set(extras.split(",")) <= extras_of_the_project()
        case ["python", "-m", "pyhudi", "doctor-env"]:
            assert str(examine_environment())
        case [".venv/bin/python", "-m", "pytest", path, *_]:
            assert (ROOT / path).exists()
        case ["python", "-m", module, *_] if module.startswith("bench"):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists()
        case _:
            raise AssertionError(f"{where}: {shlex.join(words)} is not run by this test")


def run_command(arguments: list[str], where: str) -> None:
    from pyhudi.cli.app import run

    with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as ended:
        run(arguments)
    assert not ended.value.code, f"{where}: pyhudi {shlex.join(arguments)}"


def run_sync(path: str, arguments: list[str], where: str) -> None:
    """With a metastore in this process instead of the one that the page names."""
    if not Path(path).exists():
        pyhudi.create_table(path, pa.schema([("id", pa.string())]), record_key="id")
    with metastore() as (uri, _):
        local = [uri if text.startswith("thrift://") else text for text in arguments]
        run_command(["sync", path, *local], where)


def run_sql(arguments: list[str], where: str) -> None:
    """With tables and a script of its own instead of those that the page names."""
    schema = pa.schema([("id", pa.string()), ("city", pa.string()), ("fare", pa.float64())])
    for place in ("lake/trips", "trips", "news"):
        if not Path(place).exists():
            pyhudi.create_table(place, schema, record_key="id")
    Path("nightly.sql").write_text("select 1;\nselect id from trips;\n", "utf-8")
    run_command(["sql", *(each.replace("s3://lake/", "") for each in arguments)], where)


def extras_of_the_project() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return set(project["project"]["optional-dependencies"])


def test_every_block_states_its_language() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {text[:60]!r}"
        for page in [*OTHER_PAGES, *PAGES]
        for language, text in ANY_BLOCK.findall(page.read_text("utf-8"))
        if language not in ("python", "sh", "text", "json", "properties")
    ]
    assert not found, "\n".join(found)


def test_commands_on_other_pages_exist() -> None:
    for page in OTHER_PAGES:
        for kind, block in blocks(page):
            if kind == "sh":
                for line in block.replace("\\\n", "").splitlines():
                    run_line(shlex.split(line, comments=True), page.name)


@pytest.mark.parametrize("page", pages(spark=False))
def test_a_page_runs_from_top_to_bottom(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "s3://bucket/" in page.read_text("utf-8"):
        for name, value in environment_of(shared_s3()).items():
            monkeypatch.setenv(name, value)
    run_page(page)


@pytest.mark.spark
@pytest.mark.parametrize("page", pages(spark=True))
def test_a_page_runs_from_top_to_bottom_on_spark(spark: Any, page: Path) -> None:
    run_page(page)
    for query in spark.streams.active:
        query.stop()
    drop_views(spark)
