"""Objects that messages of a queue name: which, once, in what order, and what is deleted."""

from __future__ import annotations

import io
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import OptionError, SourceDataLostError, StorageError, UserError
from pyhudi.ingest import ErrorTable, S3EventSource, SourceBatch, SourceLimits, Stream
from pyhudi.ingest.queues.object_events import EventPosition, ObjectEvent, object_events
from pyhudi.ingest.streamer.settings import IngestSettings
from tests.ingest.contract import SCHEMA, UNLIMITED, SourceContract, SourceHarness, some_rows
from tests.ingest.queues.s3_events import Bucket
from tests.support.object_stores import environment_of, shared_s3


def parquet(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out)
    return out.getvalue()


def lines(rows: pa.Table) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows.to_pylist()).encode()


class BucketHarness(SourceHarness):
    def __init__(self, form: str) -> None:
        self.bucket, self.form, self.count = Bucket(), form, 0
        self.has_undecodable_rows = form == "json"

    def source(self) -> S3EventSource:
        return self.bucket.source()

    def put(self, content: bytes) -> str:
        self.count += 1
        key = f"in/{self.count:03}.{self.form}"
        self.bucket.put(key, content)
        return key

    def add(self, rows: pa.Table) -> None:
        self.put((parquet if self.form == "parquet" else lines)(rows))

    def lose(self) -> None:
        for number in range(1, self.count + 1):
            self.bucket.remove(f"in/{number:03}.{self.form}")

    def add_undecodable(self) -> tuple[bytes, str]:
        row = b'{"id": "k9", "ts": }'
        key = self.put(b"\n" + row + b"\n")
        return row, f"s3://{self.bucket.name}/{key}:2"


class TestS3EventSource(SourceContract):
    @pytest.fixture(params=["parquet", "json"])
    def harness(self, request: pytest.FixtureRequest) -> BucketHarness:
        return BucketHarness(request.param)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def batch_of(source: S3EventSource, checkpoint: str | None = None) -> SourceBatch:
    found = source.read(checkpoint, UNLIMITED, SCHEMA)
    assert found is not None
    return found


def ids(batch: SourceBatch) -> list[str]:
    return sorted(batch.rows.read_all()["id"].to_pylist())


def record(bucket: Bucket, key: str, name: str = "ObjectCreated:Put", **facts: Any) -> Any:
    return {
        "eventName": name,
        "eventTime": "2024-05-01T10:00:00.123Z",
        "s3": {"bucket": {"name": bucket.name}, "object": {"key": key, "size": 3, **facts}},
    }


def test_a_table_follows_the_objects_of_a_bucket_and_the_queue_is_emptied(
    bucket: Bucket, tmp_path: Path
) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", ordering="ts")
    stream = Stream(bucket.source(), table)
    bucket.put("a.parquet", parquet(some_rows(0)))
    bucket.put("b.jsonl", lines(some_rows(5, ts=1)))
    assert [(r.inserted, r.updated) for r in stream.available()] == [(15, 0)]
    bucket.put("a.parquet", parquet(some_rows(0, ts=2)))
    assert [(r.inserted, r.updated) for r in stream.available()] == [(0, 10)]
    assert bucket.bodies() == []
    assert stream.run_once() is None


def test_messages_stay_in_the_queue_until_the_commit(bucket: Bucket) -> None:
    bucket.put("a.parquet", parquet(some_rows(0)))
    batch = batch_of(bucket.source())
    assert len(bucket.bodies()) == 1
    batch.committed()
    assert bucket.bodies() == []


@pytest.mark.parametrize("bad", [b"{bad", b"{}"])
def test_bad_rows_of_two_buckets_with_one_key_are_two_rejects(
    bucket: Bucket, bad: bytes, tmp_path: Path
) -> None:
    other = Bucket()
    for each in (bucket, other):
        each.put("in/a.jsonl", lines(some_rows(0, 1)) + bad + b"\n")
    for body in other.bodies():
        bucket.send(body)
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", ordering="ts")
    Stream(bucket.source(), table, bad_rows=ErrorTable(str(tmp_path / "bad"))).run()
    found = pyhudi.open_table(tmp_path / "bad").scan(["position"]).to_arrow()
    assert {p.rpartition("/in/")[0] for p in found["position"].to_pylist()} == {
        f"s3://{each.name}" for each in (bucket, other)
    }


def test_a_message_that_is_delivered_again_adds_no_rows_and_is_deleted_with_the_next_batch(
    bucket: Bucket,
) -> None:
    bucket.put("a.parquet", parquet(some_rows(0)))
    (body,) = bucket.bodies()
    first = batch_of(bucket.source())
    assert ids(first) == [f"k{n:04}" for n in range(10)]  # and a crash before `committed`
    bucket.send(body)
    assert bucket.source().read(first.checkpoint, UNLIMITED, SCHEMA) is None
    bucket.put("b.parquet", parquet(some_rows(10)))
    second = batch_of(bucket.source(), first.checkpoint)
    assert ids(second) == [f"k{n:04}" for n in range(10, 20)]
    second.committed()
    assert bucket.bodies() == []


def test_one_source_reads_a_batch_again_while_its_messages_are_hidden(bucket: Bucket) -> None:
    source = bucket.source(visibility_seconds=600)
    bucket.put("a.parquet", parquet(some_rows(0)))
    assert ids(batch_of(source)) == ids(batch_of(source))


def test_messages_beyond_a_limit_are_in_the_next_batch_though_they_are_hidden(
    bucket: Bucket,
) -> None:
    source, counts, checkpoint = bucket.source(visibility_seconds=600, max_messages=25), [], None
    for number in range(30):
        bucket.put(f"{number:02}.jsonl", lines(some_rows(number, 1)))
    while (batch := source.read(checkpoint, SourceLimits(10, None), SCHEMA)) is not None:
        counts.append(batch.rows.read_all().num_rows)
        checkpoint = batch.checkpoint
        batch.committed()
    assert counts == [10, 10, 10]
    assert bucket.bodies() == []


def test_a_batch_ends_at_an_object_when_its_time_has_passed(bucket: Bucket, tmp_path: Path) -> None:
    for number in range(3):
        bucket.put(f"{number}.jsonl", lines(some_rows(number, 1)))
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", ordering="ts")
    stream = Stream(bucket.source(), table, max_seconds=1e-6)
    assert [report.inserted for report in stream.available()] == [1, 1, 1]


def test_keys_with_other_characters_are_found(bucket: Bucket) -> None:
    bucket.put("day=2024-05-01/a b+c é&1.parquet", parquet(some_rows(0)))
    assert len(ids(batch_of(bucket.source()))) == 10


def test_an_object_that_two_messages_name_is_read_once(bucket: Bucket) -> None:
    bucket.put("a.parquet", parquet(some_rows(0)))
    bucket.put("a.parquet", parquet(some_rows(50)))
    batch = batch_of(bucket.source())
    assert ids(batch) == [f"k{n:04}" for n in range(50, 60)]
    batch.committed()
    assert bucket.bodies() == []


def test_other_messages_of_s3_are_deleted_and_read_as_nothing(bucket: Bucket) -> None:
    bucket.send({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": bucket.name})
    bucket.send({"Records": [record(bucket, "a.parquet", "ObjectRemoved:Delete")]})
    bucket.send({"Records": [record(bucket, "folder/"), record(bucket, "_SUCCESS")]})
    assert bucket.source().read(None, UNLIMITED, SCHEMA) is None
    assert bucket.bodies() == []


@pytest.mark.parametrize("body", ["no json", "[]", "{}", '{"Records": [{"eventName": "x"}, 1]}'])
def test_a_message_that_is_no_notification_is_left_in_the_queue(
    bucket: Bucket, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.send(body)
    with caplog.at_level(logging.WARNING):
        assert bucket.source().read(None, UNLIMITED, SCHEMA) is None
    assert bucket.bodies() == [body]
    assert "no event of S3" in caplog.text


def test_an_envelope_of_sns_is_opened(bucket: Bucket) -> None:
    other = Bucket()
    topic = bucket.sns.create_topic(Name=bucket.name)["TopicArn"]
    bucket.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=bucket.arn)
    other.put("a.parquet", parquet(some_rows(0)))
    (body,) = other.bodies()
    bucket.sns.publish(TopicArn=topic, Message=body)
    assert json.loads(bucket.bodies()[0])["Type"] == "Notification"
    assert len(ids(batch_of(bucket.source()))) == 10


def test_an_object_that_no_longer_exists_is_an_error_or_is_left_out(
    bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.put("a.parquet", parquet(some_rows(0)))
    bucket.remove("a.parquet")
    with pytest.raises(SourceDataLostError, match=r"a\.parquet"):
        bucket.source().read(None, UNLIMITED, SCHEMA)
    bucket.put("b.parquet", parquet(some_rows(10)))
    batch = batch_of(bucket.source(skip_missing=True))
    assert len(ids(batch)) == 10
    assert "a.parquet no longer exists" in caplog.text
    batch.committed()
    assert bucket.bodies() == []


def test_messages_of_which_no_object_exists_are_deleted(bucket: Bucket) -> None:
    bucket.put("a.parquet", parquet(some_rows(0)))
    bucket.remove("a.parquet")
    assert bucket.source(skip_missing=True).read(None, UNLIMITED, SCHEMA) is None
    assert bucket.bodies() == []


def test_keys_are_selected_by_prefix_pattern_and_exclusion(bucket: Bucket) -> None:
    for number, key in enumerate(("in/a.jsonl", "in/a.csv", "out/a.jsonl", "in/old/b.jsonl")):
        bucket.put(key, lines(some_rows(number, 1)))
    source = bucket.source(prefix="in/", pattern="*.jsonl", excluded=["in/old/*"])
    assert ids(batch_of(source)) == ["k0000"]


def test_the_lag_is_the_number_of_messages(bucket: Bucket) -> None:
    for number in range(3):
        bucket.put(f"{number}.jsonl", lines(some_rows(number, 1)))
    assert bucket.source().lag(None).files == 3


def test_the_checkpoint_begins_with_the_time_of_the_newest_event(bucket: Bucket) -> None:
    bucket.put("a.jsonl", lines(some_rows(0, 1)))
    (body,) = bucket.bodies()
    (event,) = object_events(body) or []
    assert batch_of(bucket.source()).checkpoint == f"{event.millis};{event.digest}"
    assert batch_of(bucket.source(), str(event.millis)).rows.read_all().num_rows == 1


def test_a_checkpoint_lists_a_limited_number_of_events_and_all_of_its_batch() -> None:
    events = [ObjectEvent("b", str(n), n, 0, f"d{n}") for n in range(6)]
    position = EventPosition().after(events[:3], 4).after(events[3:5], 4)
    assert position.read == ("d1", "d2", "d3", "d4")
    assert position.after(events, 4).read == tuple(f"d{n}" for n in range(6))
    assert position.after([], 4) == position


def test_a_queue_that_does_not_exist_is_an_error(bucket: Bucket) -> None:
    bucket.sqs.delete_queue(QueueUrl=bucket.queue)
    with pytest.raises(UserError, match="the queue does not exist"):
        bucket.source().read(None, UNLIMITED, SCHEMA)


def test_a_service_that_does_not_answer_is_an_error_that_may_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    source = S3EventSource(
        "http://127.0.0.1:9/1/q", region="us-east-1", endpoint="http://127.0.0.1:9",
        storage_options={"access_key_id": "x", "secret_access_key": "y"},
    )  # fmt: skip
    with pytest.raises(StorageError) as found:
        source.read(None, UNLIMITED, SCHEMA)
    assert found.value.retryable


@pytest.mark.parametrize(
    ("status", "code", "is_passing"),
    [(503, "ServiceUnavailable", True), (400, "ThrottlingException", True),
     (403, "AccessDenied", False), (400, "UnrecognizedClientException", False),
     (403, "ExpiredToken", False), (400, "InvalidAddress", False)],
)  # fmt: skip
def test_errors_of_the_service_pass_unless_a_person_must_act(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, is_passing: bool
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    body = json.dumps({"__type": code, "message": "no"}).encode()

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        source = S3EventSource(
            f"{address}/1/q", region="us-east-1", endpoint=address,
            storage_options={"access_key_id": "x", "secret_access_key": "y"},
        )  # fmt: skip
        with pytest.raises(StorageError, match=code) as found:
            source.read(None, UNLIMITED, SCHEMA)
        server.shutdown()
    assert found.value.retryable is is_passing
    assert is_passing or "credentials" in (found.value.hint or "")


@pytest.mark.parametrize("wrong", [{"format": "text"}, {"max_messages": 0}, {"wait_seconds": 21}])
def test_wrong_arguments_of_a_queue_source_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        S3EventSource("http://q", **wrong)


@pytest.mark.parametrize("name", ["S3EventsSource", "S3EventsHoodieIncrSource"])
def test_properties_of_the_streamer_make_the_source(
    bucket: Bucket, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in environment_of(shared_s3()).items():
        monkeypatch.setenv(variable, value)
    for number, key in enumerate(("in/a.json", "in/a.txt", "in/no.json", "in/tmp/a.json")):
        bucket.put(key, lines(some_rows(number, 1)))
    prefix = "hoodie.streamer."
    given = {
        prefix + "s3.source.queue.url": bucket.queue,
        prefix + "s3.source.queue.region": "us-east-1",
        prefix + "s3.source.queue.long.poll.wait": "0",
        prefix + "s3.source.queue.max.messages.per.request": "10",
        prefix + "source.cloud.data.datafile.format": "json",
        prefix + "source.cloud.data.select.relpath.prefix": "in/",
        prefix + "source.cloud.data.select.file.extension": ".json",
        prefix + "source.cloud.data.ignore.relpath.substring": "/tmp/",
        prefix + "source.s3incr.ignore.key.prefix": "in/no",
    }
    source = IngestSettings(given, source_class=f"org.apache.hudi.{name}").source()
    batch = source.read(None, UNLIMITED, SCHEMA)
    assert batch is not None and ids(batch) == ["k0000"]
    other = {**given, prefix + "s3.source.queue.fs": "gs"}
    with pytest.raises(OptionError, match=r"queue\.fs"):
        IngestSettings(other, source_class=name).source()
    with pytest.raises(OptionError, match=r"s3\.source\.queue\.url"):
        IngestSettings({}, source_class=name).source()
