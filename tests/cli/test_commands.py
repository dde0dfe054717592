"""The command line, on real files: what it prints and with which code it ends."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import pyhudi
from pyhudi.cli import app, output
from pyhudi.cli.other_commands import OTHERS
from pyhudi.cli.output import json_text

GOLDEN = Path(__file__).parents[1] / "golden"


def run_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyhudi", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line in this process, without a terminal: a process costs a second."""
    words = [str(each) for each in arguments]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO())
        patch.delenv("COLUMNS", raising=False)
        with pytest.raises(SystemExit) as ended:
            app.run(words)
    printed, errors = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(words, ended.value.code, printed, errors)


def answer(*arguments: object) -> object:
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "trips"
    rows = pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [1, 1]})
    made = pyhudi.create_table(
        path, rows.schema, record_key="id", partition_by="city", ordering="ts", table_type="mor"
    )
    made.bulk_insert(rows)
    made.upsert(rows.slice(0, 1))
    return path


def test_table_info_describes_a_table(table: Path) -> None:
    info = answer("table", "info", table)
    assert isinstance(info, dict)
    assert info["type"] == "MERGE_ON_READ"
    assert info["record_key"] == ["id"]
    assert info["file_groups"] == 2
    assert info["log_files"] == 1


def test_a_process_prints_and_ends_as_the_command_line_does_here(table: Path) -> None:
    for words in (["table", "info", table, "--json"], ["table", "info", table / "none"]):
        process, here = run_process(*words), run(*words)
        found = process.returncode, process.stdout, process.stderr
        assert found == (here.returncode, here.stdout, here.stderr)


def test_table_schema_names_every_column(table: Path) -> None:
    columns = answer("table", "schema", table)
    assert isinstance(columns, list)
    assert [c["column"] for c in columns][-3:] == ["id", "city", "ts"]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_table_create_makes_an_empty_table_of_a_version(version: int, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "city": ["x"], "ts": [1]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    made = answer(
        "table", "create", tmp_path / "t", "--like", tmp_path / "rows.parquet", "--record-key",
        "id", "--partition-by", "city", "--ordering", "ts", "--type", "mor", "--version", version,
    )  # fmt: skip
    assert isinstance(made, dict)
    assert (made["version"], made["merge_mode"]) == (version, "EVENT_TIME_ORDERING")
    table = pyhudi.open_table(tmp_path / "t")
    table.upsert(rows)
    assert table.config.is_merge_on_read
    assert table.scan(["id", "city", "ts"]).to_arrow().equals(rows)


def test_table_create_names_an_unknown_version(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "rows.parquet")
    done = run(
        "table", "create", tmp_path / "t", "--like", tmp_path / "rows.parquet", "--record-key",
        "id", "--version", 7,
    )  # fmt: skip
    assert done.returncode == 2
    assert "version" in done.stderr
    assert not (tmp_path / "t" / ".hoodie").exists()


def test_timeline_show_lists_instants_in_order(table: Path) -> None:
    instants = answer("timeline", "show", table)
    assert isinstance(instants, list)
    assert [i["action"] for i in instants] == ["deltacommit", "deltacommit"]
    assert [i["time"] for i in instants] == sorted(i["time"] for i in instants)


def test_index_lookup_says_where_a_key_lives_and_which_is_absent(table: Path) -> None:
    found = answer("index", "lookup", table, "b", "nobody")
    assert isinstance(found, list)
    assert [row["found"] for row in found] == [True, False]
    assert found[0]["partition_path"] == "y"


def test_log_dump_shows_blocks_and_their_rows(table: Path) -> None:
    log = next(table.rglob(".*.log.*"))
    blocks = answer("log", "dump", next(p for p in table.glob("*/.*.log.*")), "--rows")
    assert log.exists()
    assert isinstance(blocks, list)
    assert blocks[0]["kind"] == "parquet"
    assert blocks[0]["rows"][0]["id"] == "a"


def test_hfile_dump_and_lookup_read_apache_hudis_files() -> None:
    file = next(f for f in sorted((GOLDEN / "hfile").glob("*")) if f.suffix == ".hfile")
    dump = answer("hfile", "dump", file, "--limit", 3)
    assert isinstance(dump, dict)
    key = dump["entries"][0]["key"]
    found = answer("hfile", "lookup", file, key, "no such key")
    assert isinstance(found, list)
    assert found[0]["value"] == dump["entries"][0]["value"]
    assert found[1]["value"] is None


def test_an_error_has_two_lines_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    done = run("table", "info", tmp_path)
    assert done.returncode == 1
    what, remedy = done.stderr.splitlines()
    assert what.startswith("error [TABLE_NOT_FOUND]: no Hudi table") and str(tmp_path) in what
    assert "create" in remedy


def test_debug_prints_the_traceback_before_the_error(tmp_path: Path) -> None:
    done = run("table", "info", tmp_path, "--debug")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-2].startswith("error [TABLE_NOT_FOUND]")


def test_usage_errors_end_with_code_2_and_name_the_help() -> None:
    done = run("table", "inform")
    assert done.returncode == 2
    what, remedy = done.stderr.splitlines()
    assert what.startswith("error [USAGE]: No such command 'inform'.")
    assert remedy == "`pyhudi table --help` describes it"


@pytest.mark.parametrize("name", OTHERS)
def test_a_command_of_another_tool_leads_to_one_that_exists(name: str) -> None:
    done = run(name, "trips")
    assert done.returncode == 2
    typed = done.stderr.splitlines()[1].removeprefix("type `pyhudi ").removesuffix("`")
    assert typed == OTHERS[name].removeprefix("pyhudi ")
    words = itertools.takewhile(lambda word: word.islower() and word[0] != "-", typed.split())
    usage = run(*words, "--help").stdout.splitlines()[0]
    assert usage.startswith(" ".join(["Usage: pyhudi", *words])), usage


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--endpoint-url=http://a", "--storage endpoint=URL"),
        ("--region=us", "--storage region=NAME"), ("-n", "--limit NUMBER"),
    ],
)  # fmt: skip
def test_an_option_of_another_tool_leads_to_one_that_exists(option: str, meant: str) -> None:
    done = run("show", "trips", option)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1] == f"type `{meant}`"
    assert meant.split()[0] in run("show", "--help-all").stdout


def test_a_path_where_a_verb_belongs_is_answered_with_the_verbs() -> None:
    done = run("clean", "trips")
    assert done.returncode == 2
    assert done.stderr.splitlines()[1] == "type `pyhudi clean VERB PATH`; verbs: pins, run"


def test_hints_of_python_calls_name_the_option_of_the_command(table: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,city,fare,extra\nz,sf,1.0,x\n")
    done = run("write", table, rows)
    assert "--schema-mode widen adds the new columns" in done.stderr
    done = run("show", table, "--columns", "id,fare")
    assert "in a command --columns id --columns fare" in done.stderr
    assert "`pyhudi table create`" in run("show", tmp_path / "nowhere").stderr


def test_options_of_a_properties_file_apply_and_single_options_win(
    table: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "small.properties"
    settings.write_text("hoodie.parquet.small.file.limit=0\n")
    small = answer("table", "sizes", table, "--props", settings)
    given = answer(
        "table", "sizes", table, "--props", settings, "--option",
        "hoodie.parquet.small.file.limit=1gb",
    )  # fmt: skip
    assert isinstance(small, list) and isinstance(given, list)
    assert [row["small_files"] for row in small] == [0, 0]
    assert [row["small_files"] for row in given] == [1, 1]


def test_a_change_that_cannot_be_undone_needs_a_confirmation(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "ts": [1]})
    made = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id")
    instant = made.insert(rows).instant
    refused = run("rollback", "run", tmp_path / "t", instant)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    assert made.count() == 1
    assert run("rollback", "run", tmp_path / "t", instant, "--dry-run").returncode == 0
    assert made.count() == 1
    assert run("rollback", "run", tmp_path / "t", instant, "--yes").returncode == 0
    assert made.count() == 0


def test_output_that_is_not_a_terminal_has_no_colours_and_whole_values(table: Path) -> None:
    done = run("table", "info", table)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert str(table) in done.stdout


def test_a_narrow_terminal_folds_names_and_cuts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "output_console", lambda: Console(width=60))
    done = run("config", "list", "--contains", "hoodie.clean.hours")
    assert done.returncode == 0
    names = [line.split("│")[1].strip() for line in done.stdout.splitlines() if "│" in line]
    assert "".join(names) == "hoodie.clean.hours.retained"


def test_numbers_that_json_does_not_have_are_null() -> None:
    assert json.loads(json_text({"a": [float("nan"), 1.5], "b": float("inf")})) == {
        "a": [None, 1.5],
        "b": None,
    }


def test_the_demo_runs_without_spark_and_its_index_agrees() -> None:
    results = answer("demo", "--engine", "local")
    assert isinstance(results, list)
    assert [(r["updated"], r["inserted"], r["deleted"]) for r in results] == [(5, 5, 3)] * 2
    assert all(r["index_agrees"] for r in results)
