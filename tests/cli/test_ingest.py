"""`pyhudi ingest`: a table from a properties file of Apache Hudi's streamer."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.cli.app import run
from pyhudi.errors import OptionError
from pyhudi.ingest.streamer.properties import read_properties

PROPERTIES = """
include=base.properties
hoodie.datasource.write.recordkey.field=id
hoodie.datasource.write.partitionpath.field=city
hoodie.deltastreamer.source.dfs.root={folder}
"""
ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [1, 1], "fare": [1.0, 2.0]})
COUNTING = ("--source-class", "tests.support.row_sources:counting", "--hoodie-conf", "stop=6")
KEY = ("--hoodie-conf", "hoodie.datasource.write.recordkey.field=id")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code = called(*words, "--json")
    output = capsys.readouterr()
    assert code == 0, output.err
    return json.loads(output.out)


def put(folder: Path, name: str, rows: pa.Table, second: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(rows, folder / name)
    os.utime(folder / name, (1_700_000_000 + second,) * 2)


def test_a_properties_file_of_the_streamer_makes_and_follows_a_table(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "landing", "a.parquet", ROWS, 0)
    (here / "base.properties").write_text("hoodie.parquet.compression.codec=gzip\n")
    (here / "ingest.properties").write_text(PROPERTIES.format(folder=here / "landing"))
    flags = (
        "--props", "ingest.properties",
        "--source-class", "org.apache.hudi.utilities.sources.ParquetDFSSource",
        "--target-base-path", "trips", "--target-table", "rides", "--table-type", "MERGE_ON_READ",
        "--source-ordering-field", "ts", "--op", "UPSERT", "--spark-master", "local[2]",
    )  # fmt: skip
    assert answer(capsys, "ingest", "once", *flags)["report"]["inserted"] == 2
    config = pyhudi.open_table("trips").config
    assert (config.name, config.table_type.value) == ("rides", "MERGE_ON_READ")
    assert (config.record_key_fields, config.partition_fields) == (("id",), ("city",))
    assert config.ordering_fields == ("ts",)
    assert answer(capsys, "ingest", "once", *flags) == {"batches": 0}
    put(here / "landing", "b.parquet", ROWS.set_column(2, "ts", pa.array([2, 0])), 1)
    assert answer(capsys, "ingest", "run", *flags)["batches"] == 1
    stored = pyhudi.open_table("trips").scan(["id", "ts"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["ts"]) for row in stored) == [("a", 2), ("b", 1)]


def test_properties_are_lines_of_utf_8_without_escapes(here: Path) -> None:
    (here / "one").write_text("a=of one\nb=of one\n")
    (here / "two").write_text("b=of two\nc=of two\n")
    (here / "main").write_text(
        "a=early\n"
        "include=one\r\n"
        "include = two\n"
        "# d=comment\n\n"
        "c = late\n"
        "query=select * from <SRC> where city = 'Zürich' and a rlike '\\d+'\n"
        "escape=\\\n",
        encoding="utf-8",
    )
    assert read_properties(str(here / "main")) == {
        "a": "of one", "b": "of two", "c": "late", "escape": "\\",
        "query": r"select * from <SRC> where city = 'Zürich' and a rlike '\d+'",
    }  # fmt: skip
    for wrong in ("a=b,\\\nc=d", "a b", "=b"):
        (here / "main").write_text(f"first=1\n{wrong}\n")
        with pytest.raises(OptionError, match="line=2"):
            read_properties(str(here / "main"))


def test_the_status_has_checkpoint_lag_and_commits(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (*COUNTING, "--hoodie-conf", "step=2")
    answer(capsys, "ingest", "once", *flags, *KEY, "--target-base-path", "t")
    found = answer(capsys, "ingest", "status", "t", *flags)
    assert (found["checkpoint"], found["lag"]["rows"]) == ("2", 4)
    assert [commit["changed_rows"] for commit in found["commits"]] == [2]


def test_a_reset_moves_the_next_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (*COUNTING, *KEY, "--target-base-path", "t")
    assert answer(capsys, "ingest", "run", *flags)["rows"] == 6
    answer(capsys, "ingest", "reset", "t", "4", "--yes", "--dry-run")
    assert pyhudi.open_table("t").checkpoint() == "6"
    answer(capsys, "ingest", "reset", "t", "4", "--yes")
    report = answer(capsys, "ingest", "once", *flags)["report"]
    assert (report["updated"], report["inserted"]) == (2, 0)


@pytest.mark.parametrize(
    "flags", [("--table-type", "MERGE_ON_READ"), ("--target-table", "other")], ids=lambda f: f[0]
)
def test_flags_of_a_new_table_agree_with_one_that_exists(
    here: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str]
) -> None:
    same = (*COUNTING, *KEY, "--target-base-path", "t")
    answer(capsys, "ingest", "once", *same, "--table-type", "COPY_ON_WRITE", "--target-table", "t")
    capsys.readouterr()
    assert called("ingest", "once", *same, *flags) == 2
    assert "conflicts with the table's configuration" in capsys.readouterr().err
    answer(capsys, "ingest", "once", *same, "--table-type", "COPY_ON_WRITE")


def test_filtered_duplicates_and_transforms(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (*COUNTING, *KEY, "--target-base-path", "t")
    query = "hoodie.streamer.transformer.sql=SELECT id, n * 10 AS n FROM <SRC> WHERE n < 3"
    sql = ("--transformer-class", "SqlQueryBasedTransformer", "--hoodie-conf", query)
    assert answer(capsys, "ingest", "once", *flags, *sql)["report"]["inserted"] == 3
    again = ("--filter-dupes", "--op", "INSERT", "--ignore-checkpoint", "1")
    assert answer(capsys, "ingest", "once", *flags, *again)["report"]["inserted"] == 3
    stored = pyhudi.open_table("t").scan(["n"]).to_arrow()["n"].to_pylist()
    assert sorted(stored) == [0, 3, 4, 5, 10, 20]


def test_a_schema_file_types_the_rows_of_a_new_table(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = [{"name": "id", "type": "string"}, {"name": "n", "type": ["null", "double"]}]
    schema = {"type": "record", "name": "rows", "fields": fields}
    (here / "rows.avsc").write_text(json.dumps(schema))
    given = f"hoodie.deltastreamer.schemaprovider.source.schema.file={here / 'rows.avsc'}"
    provider = "org.apache.hudi.utilities.schema.FilebasedSchemaProvider"
    answer(
        capsys, "ingest", "once", *COUNTING, *KEY, "--target-base-path", "t",
        "--schemaprovider-class", provider, "--hoodie-conf", given,
    )  # fmt: skip
    assert pyhudi.open_table("t").schema.field("n").type == pa.float64()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--initial-checkpoint-provider", "x"), "pass --checkpoint"),
        (("--enable-sync",), "pyhudi sync"),
        (("--hoodie-conf", "hoodie.streamer.nonsense=1"), "unknown option"),
        (("--hoodie-conf", "hoodie.streamer.source.sql.file=x"), "Spark SQL"),
        (("--hoodie-conf", "hoodie.streamer.kafka.source.maxEvents=many"), "invalid option value"),
        (("--hoodie-conf", "hoodie.nonsense=1"), "unknown option"),
        (("--source-class", "org.apache.hudi.utilities.sources.PulsarSource"), "Kafka"),
        (("--schemaprovider-class", "org.example.Mine"), "FilebasedSchemaProvider"),
        (("--op", "DELETE"), "upsert"),
        (("--props", "missing.properties"), "cannot be read"),
    ],
)
def test_what_cannot_be_done_says_what_to_use(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    assert called("ingest", "once", *COUNTING, *KEY, "--target-base-path", "t", *words) == 2
    assert text in capsys.readouterr().err
    assert not (here / "t").exists()


def test_a_new_table_needs_a_key(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("ingest", "once", *COUNTING, "--target-base-path", "t") == 2
    assert "recordkey" in capsys.readouterr().err


def test_a_run_ends_after_the_batch_in_flight_and_serves_its_health(here: Path) -> None:
    words = ("ingest", "run", *COUNTING, "--hoodie-conf", "step=2", *KEY, "--target-base-path", "t",
             "--continuous", "--health-file", "health.json", "--http", "0", "--json")  # fmt: skip
    program = "import sys; from pyhudi.cli.app import run; run(sys.argv[1:])"
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": root}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    state: dict[str, Any] = {}
    deadline = time.monotonic() + 120
    while state.get("state") != "idle" and time.monotonic() < deadline:
        time.sleep(0.2)
        if (here / "health.json").exists():
            state = json.loads((here / "health.json").read_text())
    assert (state["checkpoint"], state["rows"], state["lag"]) == ("6", 6, {"rows": 0})
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(output)["state"] == "stopped"
    assert json.loads((here / "health.json").read_text())["state"] == "stopped"


def test_the_log_is_lines_of_json_on_request(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*COUNTING, "--hoodie-conf", "step=2", *KEY, "--target-base-path", "t")
    assert called("ingest", "run", *words, "--log-format", "json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    batches = [line for line in lines if line.get("event") == "ingest"]
    assert [line["inserted"] for line in batches] == [2, 2, 2]
    assert {"time", "level", "logger", "message", "seconds", "instant"} <= batches[0].keys()
    assert (lines[-1]["state"], lines[-1]["checkpoint"]) == ("stopped", "6")


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_terminal_shows_the_progress(here: Path, table_type: str) -> None:
    words = ("ingest", "run", *COUNTING, "--hoodie-conf", "step=2", *KEY,
             "--target-base-path", "t", "--continuous", "--table-type", table_type)  # fmt: skip
    program = "import sys; from pyhudi.cli.app import run; run(sys.argv[1:])"
    terminal, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdin=inner, stdout=inner, stderr=inner,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm",
             "COLUMNS": "100", "LINES": "40"},
    )  # fmt: skip
    os.close(inner)
    shown, deadline, is_ended = "", time.monotonic() + 120, False
    while time.monotonic() < deadline:
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # the end of a terminal whose process has ended
            break
        if "idle" in shown and not is_ended:
            is_ended = True
            process.send_signal(signal.SIGTERM)
    os.close(terminal)
    assert process.wait(30) == 0, shown
    for text in ("lag", "0 rows", "rows", "/s", "commit time", "table size", "KiB", "services"):
        assert text in shown, shown[-2000:]


def test_the_health_server_answers(here: Path) -> None:
    from pyhudi.ingest.health_server import HealthServer
    from pyhudi.ingest.status import IngestState, IngestStatus

    with HealthServer() as server:
        address = f"http://127.0.0.1:{server.port}"
        server.receive(IngestStatus("t", "s", IngestState.IDLE, rows=5))
        with urllib.request.urlopen(f"{address}/health") as found:
            assert json.load(found)["tables"]["t"]["rows"] == 5
        with urllib.request.urlopen(f"{address}/metrics") as found:
            assert 'pyhudi_ingest_rows{table="t"} 5.0' in found.read().decode()
        server.receive(IngestStatus("t", "s", IngestState.RETRYING, error="down"))
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{address}/health")
