"""A store that cannot be reached or used says so: soon, in the log meanwhile, and what to do."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import StorageError, UserError
from pyhudi.storage.store_failures import denied, failure, retry_config
from pyhudi.storage.url_resolver import locate
from tests.support.object_stores import s3_server

KEYS = {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("S3://bucket/t", "s3://bucket/t"), ("https://b.s3.amazonaws.com/t", "s3://bucket/path"),
        ("s3:/bucket/t", "s3://bucket/t, with two slashes"),
    ],
)  # fmt: skip
def test_a_url_with_a_mistake_is_answered_with_the_right_one(url: str, hint: str) -> None:
    with pytest.raises(UserError, match=hint):
        locate(url)


def test_a_storage_option_that_is_no_text_is_answered_with_the_form() -> None:
    with pytest.raises(UserError, match="values of storage_options as text"):
        pyhudi.open_table("s3://bucket/t", storage_options={**KEYS, "region": 5})


def test_a_refused_endpoint_without_tls_names_the_option() -> None:
    given = KEYS | {"endpoint": "http://127.0.0.1:1", "allow_http": "false"}
    with pytest.raises(StorageError, match="AWS_ALLOW_HTTP=true"):
        pyhudi.open_table("s3://bucket/t", storage_options=given)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def silent_server() -> Iterator[int]:
    """A server that takes connections and never answers."""
    connections = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            while True:
                try:
                    connections.append(server.accept())
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1]


def test_an_unreachable_endpoint_is_given_up_in_time_and_named() -> None:
    endpoint = f"http://127.0.0.1:{closed_port()}"
    began = time.monotonic()
    with pytest.raises(StorageError, match="does not answer") as raised:
        pyhudi.open_table(
            "s3://bucket/t", storage_options={**KEYS, "endpoint": endpoint, "retry_timeout": 1}
        )
    assert time.monotonic() - began < 6
    error = raised.value
    assert (error.facts["endpoint"], error.facts["path"].startswith("s3://bucket/t")) == (
        endpoint,
        True,
    )
    assert error.retryable and "retry_timeout" in (error.hint or "")


def test_a_request_that_waits_is_logged_while_it_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyhudi.storage.store_failures._WARN_SECONDS", 0.3)
    with silent_server() as port, caplog.at_level(logging.WARNING, "pyhudi"):
        given = {**KEYS, "endpoint": f"http://127.0.0.1:{port}", "timeout": "2s", "max_retries": 0}
        with pytest.raises(StorageError, match="does not answer"):
            locate("s3://bucket/t", storage_options=given).read("x")
    waits = [r.message for r in caplog.records if "has not answered" in r.message]
    assert len(waits) == 1 and "s3://bucket/t/x" in waits[0]


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/latest/api/token", "http://169.254.170.2/v2/credentials"]
)
def test_without_credentials_it_says_which_to_give(address: str) -> None:
    text = f"Generic S3 error: Error performing PUT {address} in 58ms - HTTP error"
    error = failure(RuntimeError(text), "s3://bucket/t", retryable=True)
    assert "no credentials" in error.what and "access_key_id" in (error.hint or "")
    assert "169.254" not in str(error) and not error.retryable


@pytest.mark.parametrize(
    ("given", "seconds", "retries"),
    [
        ({}, 10.0, 10),
        ({"retry_timeout": 30}, 30.0, 10),
        ({"retry_timeout": "1.5s", "max_retries": "3"}, 1.5, 3),
        ({"retry_timeout": "500ms"}, 0.5, 10),
    ],
)
def test_how_long_it_tries_is_an_option(
    given: dict[str, Any], seconds: float, retries: int
) -> None:
    config = retry_config(given)
    assert config["retry_timeout"].total_seconds() == seconds
    assert config["max_retries"] == retries
    assert not given


@pytest.mark.parametrize(
    "given", [{"retry_timeout": 0}, {"retry_timeout": "soon"}, {"max_retries": -1}]
)
def test_what_no_time_is_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="must be"):
        locate("s3://bucket/t", storage_options={**KEYS, **given})


NO_BUCKET = {
    "create": lambda url, given: pyhudi.create_table(
        url, pa.schema({"id": pa.string()}), record_key="id", storage_options=given
    ),
    "open": lambda url, given: pyhudi.open_table(url, storage_options=given),
    "replace": lambda url, given: locate(url, storage_options=given).replace("x", b"1"),
}


@pytest.mark.parametrize("act", NO_BUCKET)
def test_a_bucket_that_does_not_exist_is_named_at_once(act: str) -> None:
    with s3_server() as server:
        began = time.monotonic()
        with pytest.raises(StorageError, match="bucket does not exist") as raised:
            NO_BUCKET[act]("s3://no-such-bucket/t", server.options)
        assert time.monotonic() - began < 20
        assert raised.value.facts["path"] == "s3://no-such-bucket"


@pytest.mark.parametrize(
    ("request_", "operation"),
    [("get", "s3:GetObject"), ("put", "s3:PutObject"), ("list", "s3:ListBucket")],
)
def test_denied_access_names_what_a_policy_has_to_allow(request_: str, operation: str) -> None:
    error = denied(OSError("403"), "s3a://b/t/x", scheme="s3a", request=request_)
    assert error.facts["operation"] == operation and operation in (error.hint or "")
    assert error.facts["path"] == "s3a://b/t/x"


def test_errors_of_the_lock_name_its_path_once() -> None:
    endpoint = f"http://127.0.0.1:{closed_port()}"
    given = {**KEYS, "endpoint": endpoint, "retry_timeout": 1}
    with pytest.raises(StorageError) as raised:
        pyhudi.create_table(
            "s3://bucket/t", pa.schema({"id": pa.string()}), record_key="id", storage_options=given,
            other_files=True,
        )  # fmt: skip
    assert raised.value.facts["path"] == "s3://bucket/t/.hoodie/.pyhudi.lock"


def test_an_endpoint_without_tls_may_stand_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with s3_server() as server:
        given = dict(server.options)
        monkeypatch.setenv("AWS_ENDPOINT_URL", given.pop("endpoint"))
        fs = locate("s3://bucket/t", storage_options=given)
        fs.replace("x", b"1")
        assert fs.read("x") == b"1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"endpont": "https://s"}, "did you mean endpoint"),
        ({"acces_key_id": "a"}, "did you mean access_key_id"),
        ({"endpoint": "127.0.0.1:9000"}, "write https://127.0.0.1:9000"),
    ],
)
def test_misspelled_storage_options_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        locate("s3://bucket/t", storage_options=given)
    assert message in str(raised.value)
