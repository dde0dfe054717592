"""A store that cannot be reached or used says so: soon, in the log meanwhile, and what to do."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pyhudi
from pyhudi.errors import StorageError, UserError
from pyhudi.storage.store_failures import failure, retry_config
from pyhudi.storage.url_resolver import locate

KEYS = {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}


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
        endpoint, True,
    )  # fmt: skip
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
