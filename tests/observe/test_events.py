"""Events of operations, and what logs, OpenTelemetry, Prometheus and callbacks get of them."""

from __future__ import annotations

import logging
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import pyhudi
from pyhudi.errors import OptionError, SchemaError, UserError
from pyhudi.observe import Event, PrometheusEndpoint, add_receiver, remove_receiver
from tests.support.callbacks import server, taking
from tests.support.object_stores import fresh_s3

ROWS = pa.table({"id": ["a", "b"], "city": ["sf", "sf"], "ts": [1, 1]})
CALLBACK = "hoodie.write.commit.callback."


def new(path: Any, **arguments: Any) -> pyhudi.Table:
    return pyhudi.create_table(
        path, ROWS.schema, record_key="id", ordering="ts", table_type="mor", **arguments
    )


@contextmanager
def received() -> Iterator[list[Event]]:
    found: list[Event] = []
    add_receiver(found.append)
    try:
        yield found
    finally:
        remove_receiver(found.append)


def test_a_write_its_phases_and_its_services_are_events(tmp_path: Path) -> None:
    table = new(tmp_path / "t")
    with received() as events:
        table.insert(ROWS)
        table.upsert(ROWS)
        table.compact()
        table.lookup(["a"])
    writes = [e for e in events if e.name == "write"]
    assert [e.facts["operation"] for e in writes] == ["insert", "upsert"]
    assert writes[1].facts["updated"] == 2 and writes[1].facts["bytes_written"] > 0
    phases = {e.facts["operation"] for e in events if e.name == "phase"}
    assert {"key", "tag", "assign", "write", "commit"} <= phases
    assert "compaction" in [e.facts["operation"] for e in events if e.name == "service"]
    (found,) = [e for e in events if e.name == "lookup"]
    assert found.facts["operation"] == "record" and found.facts["rows"] == 1


def test_a_failed_write_is_an_event_with_its_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = new(tmp_path / "t")
    with received() as events, pytest.raises(SchemaError):
        table.upsert(ROWS.set_column(2, "ts", pa.array(["x", "y"])))
    (write,) = [e for e in events if e.name == "write"]
    assert write.error == "SchemaError"
    (record,) = [r for r in caplog.records if r.name == "pyhudi.write"]
    assert record.levelno == logging.WARNING and record.__dict__["pyhudi"]["error"] == "SchemaError"


def test_log_records_have_the_facts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pyhudi")
    report = new(tmp_path / "t").insert(ROWS)
    (record,) = [r for r in caplog.records if r.name == "pyhudi.write"]
    facts = record.__dict__["pyhudi"]
    assert facts["inserted"] == 2 and facts["instant"] == report.instant
    assert not [r for r in caplog.records if r.name == "pyhudi.phase"]


def test_requests_of_a_store_are_counted_with_their_bytes() -> None:
    fs = fresh_s3()
    with received() as events:
        fs.create("a", b"12345")
        assert fs.read("a") == b"12345"
    requests = [e for e in events if e.name == "request"]
    assert [(e.facts["operation"], e.facts["bytes"]) for e in requests] == [("s3", 5), ("s3", 5)]


def test_a_failing_receiver_never_fails_a_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(event: Event) -> None:
        raise RuntimeError("full")

    add_receiver(fails)
    try:
        assert new(tmp_path / "t").insert(ROWS).inserted == 2
    finally:
        remove_receiver(fails)
    assert "a receiver of events failed: full" in caplog.text


def test_open_telemetry_gets_nested_spans_and_metrics(tmp_path: Path) -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    new(tmp_path / "t").insert(ROWS)
    found = {span.name: span for span in spans.get_finished_spans()}
    write, phase = found["pyhudi write insert"], found["pyhudi phase write"]
    assert phase.parent is not None and phase.parent.span_id == write.context.span_id
    assert write.attributes is not None and write.attributes["pyhudi.inserted"] == 2
    data = reader.get_metrics_data()
    assert data is not None
    names = {m.name for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert {"pyhudi.operations", "pyhudi.rows", "pyhudi.seconds"} <= names


def test_prometheus_reads_the_metrics_of_the_process(tmp_path: Path) -> None:
    with PrometheusEndpoint(0) as endpoint:
        new(tmp_path / "t").insert(ROWS)
        url = f"http://127.0.0.1:{endpoint.port}/metrics"
        text = urllib.request.urlopen(url).read().decode()
        with pytest.raises(UserError, match="cannot listen"):
            PrometheusEndpoint(endpoint.port)
    labels = f'event="write",kind="inserted",operation="insert",table="{tmp_path / "t"}"'
    line = f"pyhudi_rows_total{{{labels}}} 2.0"
    assert line in text.splitlines()
    assert "pyhudi_seconds_bucket" in text


def test_a_commit_is_posted_with_the_message_of_apache_hudi(tmp_path: Path) -> None:
    options = {CALLBACK + "on": "true", CALLBACK + "http.url": server() + "/commits"}
    with taking() as requests:
        table = new(tmp_path / "t", options=options)
        report = table.insert(ROWS)
        table.insert(ROWS, dry_run=True)
        deferred = table.insert(ROWS, publish=False)
        assert len(requests) == 1
        assert deferred.instant is not None
        table.publish(deferred.instant)
    message = requests[0].message
    assert message["commitTime"] == report.instant and message["tableName"] == "t"
    assert message["basePath"].endswith("/t") and message["commitActionType"] == "deltacommit"
    assert sum(stat["numInserts"] for stat in message["hoodieWriteStat"]) == 2
    assert [r.message["commitTime"] for r in requests] == [report.instant, deferred.instant]


@pytest.mark.parametrize("url", ["failing", "nobody"])
def test_a_failing_callback_never_loses_a_commit(tmp_path: Path, url: str) -> None:
    place = server() + "/failing" if url == "failing" else "http://127.0.0.1:1/x"
    options = {CALLBACK + "on": "true", CALLBACK + "http.url": place}
    table = new(tmp_path / "t", options=options)
    with received() as events:
        report = table.insert(ROWS)
    assert [n for n in report.notes if n.startswith("the commit callback failed")]
    assert table.count() == 2
    assert [e.error for e in events if e.name == "callback"] != [None]


def test_settings_of_a_callback_are_checked_before_a_write() -> None:
    for given in (
        {CALLBACK + "on": "true"},
        {CALLBACK + "http.url": "file:///etc/passwd"},
        {CALLBACK + "http.custom.headers": "no colon"},
        {
            CALLBACK
            + "class": "org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback"
        },
    ):
        with pytest.raises(OptionError):
            pyhudi.create_table("memory://callbacks", ROWS.schema, record_key="id", options=given)


def test_a_program_without_logging_sees_no_log_of_a_failure(tmp_path: Path) -> None:
    program = f"""
import pyarrow as pa, pyhudi
rows = pa.table({{"id": ["a"]}})
table = pyhudi.create_table({str(tmp_path / "t")!r}, rows.schema, record_key="id")
try:
    table.upsert(pa.table({{"other": [1]}}))
except pyhudi.PyhudiError:
    print("raised")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("raised\n", "")
