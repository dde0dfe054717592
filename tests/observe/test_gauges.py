"""Gauges of tables, and the alert rules and the dashboard that use them."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import pyhudi
from pyhudi.cli.app import commands
from pyhudi.observe import PrometheusEndpoint
from pyhudi.observe.event import COUNTERS, SECONDS
from pyhudi.observe.gauge import TABLE_GAUGES

PAGES = Path(__file__).parents[2] / "docs" / "monitoring"
ROWS = pa.table({"id": ["a", "b"], "ts": [1, 1]})


def new(path: Path, version: int = 9) -> pyhudi.Table:
    table = pyhudi.create_table(
        path, ROWS, record_key="id", ordering="ts", table_type="mor", version=version
    )
    table.insert(ROWS)
    return table


def gauges(table: pyhudi.Table) -> dict[tuple[str, ...], float]:
    """Name and label values besides the table -> value."""
    return {
        (g.name.removeprefix("pyhudi_table_"), *[v for k, v in g.labels.items() if k != "table"]):
        g.value for g in table.gauges()
    }  # fmt: skip


@pytest.mark.parametrize("version", [6, 9])
def test_gauges_follow_the_table(version: int, tmp_path: Path) -> None:
    table = new(tmp_path / "t", version)
    before = gauges(table)
    assert before["log_bytes",] == before["pending_instants", "compaction"] == 0
    assert before["file_groups",] == before["small_files",] == 1
    assert before["index_healthy",] == 1 and before["findings", "error"] == 0
    assert before["service_due", "compaction"] == 0
    for _ in range(5):
        table.upsert(ROWS)
    after = gauges(table)
    assert after["log_files",] == 5 and after["log_bytes",] > 0
    assert after["service_due", "compaction"] == 1
    assert 0 <= after["last_commit_age_seconds",] < 120
    assert abs(after["last_commit_timestamp_seconds",] - time.time()) < 120
    table.schedule_compaction()
    assert gauges(table)["pending_instants", "compaction"] == 1


def test_damage_of_the_index_is_seen(tmp_path: Path) -> None:
    table = new(tmp_path / "t")
    for path in (tmp_path / "t/.hoodie/metadata/files").iterdir():
        path.write_bytes(path.read_bytes()[:9])
    found = gauges(table)
    assert found["index_healthy",] == 0 and found["findings", "error"] > 0


def test_an_endpoint_serves_the_gauges_of_its_tables_and_labels_its_counters(
    tmp_path: Path,
) -> None:
    one, two = new(tmp_path / "one"), new(tmp_path / "two")
    with PrometheusEndpoint(0) as metrics:
        metrics.watch(one)
        metrics.watch(two, every_seconds=0)
        two.upsert(ROWS)
        two.compact()
        read = fetched(metrics.port)
        assert {s.labels["table"] for s in read["pyhudi_table_bytes"]} == {one.path, two.path}
        labels = [s.labels for s in read["pyhudi_operations"] if s.name.endswith("_total")]
        mine = [each for each in labels if each["event"] in ("write", "service", "phase")]
        assert {each["table"] for each in mine} == {two.path}
        for path in sorted((tmp_path / "two").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        up = {s.labels["table"]: s.value for s in fetched(metrics.port)["pyhudi_table_up"]}
        assert up == {one.path: 1.0, two.path: 0.0}


def fetched(port: int) -> dict[str, list[Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    return {f.name: f.samples for f in text_string_to_metric_families(text)}


def test_the_command_prints_what_the_textfile_collector_reads(tmp_path: Path) -> None:
    new(tmp_path / 'a "quoted" table')
    done = CliRunner().invoke(commands, ["table", "gauges", str(tmp_path / 'a "quoted" table')])
    families = {f.name: f for f in text_string_to_metric_families(done.output)}
    assert set(families) == set(TABLE_GAUGES) - {"pyhudi_table_up"}
    (size,) = families["pyhudi_table_bytes"].samples
    assert size.labels == {"table": str(tmp_path / 'a "quoted" table')} and size.value > 0


# ---- alert rules and dashboard -------------------------------------------------------------------

KNOWN = {
    **{name: {"table", *labels} for name, (_, labels) in TABLE_GAUGES.items()},
    **{f"{name}_total": set(labels) for name, (_, labels) in COUNTERS.items()},
    f"{SECONDS[0]}_bucket": {*SECONDS[2], "le"},
}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PAGES / "alerts.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PAGES / "grafana_dashboard.json").read_text("utf-8"))
    return found


def queries() -> Iterator[str]:
    for rule in rules():
        yield rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$table", ".*")


@pytest.mark.parametrize("query", list(queries()))
def test_a_query_is_promql_over_metrics_and_labels_that_exist(query: str) -> None:
    promql_parser.parse(query)
    names = re.findall(r"pyhudi_\w+", query)
    assert names and set(names) <= KNOWN.keys()
    labels = set(re.findall(r'(\w+)(?:=~|!=|!~|=)"', query))
    grouped = re.findall(r"by \(([^)]*)\)", query)
    labels |= {label.strip() for group in grouped for label in group.split(",")}
    assert labels <= set.union(*(KNOWN[name] for name in names))


def test_rules_are_complete_and_name_commands_that_exist() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules()) >= 8
    for rule in rules():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[mhd]", rule["for"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        labels = set.union(*(KNOWN[n] for n in re.findall(r"pyhudi_\w+", rule["expr"])))
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= labels
        for words in re.findall(r"pyhudi ([a-z -]+) TABLE", rule["annotations"]["runbook"]):
            done = CliRunner().invoke(commands, [*words.split(), "--help"])
            assert done.exit_code == 0, words


def test_a_fresh_table_fires_no_alert_that_needs_no_history(tmp_path: Path) -> None:
    found = gauges(new(tmp_path / "t"))
    assert found["findings", "error"] == 0 and found["index_healthy",] == 1
    assert not any(value for name, value in found.items() if name[0] == "service_due")


def test_the_dashboard_has_a_panel_for_each_gauge() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    shown = {name for query in queries() for name in re.findall(r"pyhudi_\w+", query)}
    unseen = TABLE_GAUGES.keys() - shown
    assert unseen <= {"pyhudi_table_instants", "pyhudi_table_last_commit_age_seconds",
                      "pyhudi_table_log_files"}  # fmt: skip
