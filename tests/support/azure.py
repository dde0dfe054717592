"""Azurite, Microsoft's own emulator of Azure's blobs, where node and npm are there.

python -m tests.support.azure --fetch    fetches it (npm), into PYHUDI_CACHE
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import hmac
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from pyhudi.storage.object_store import ObjectStoreFileSystem
from tests.support.zookeeper import free_port

CACHE = Path(os.environ.get("PYHUDI_CACHE", Path.home() / ".cache" / "pyhudi")) / "azurite"
SERVER = CACHE / "node_modules" / ".bin" / "azurite-blob"
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = (  # the one that every emulator has
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_UP_SECONDS = 60


def missing() -> str | None:
    """What Azurite needs and this machine lacks, or None."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not SERVER.exists():
        return "Azurite is not here, make long-azure fetches it"
    return None


def prepare() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "azurite"]
    subprocess.run(install, check=True, cwd=CACHE)


def _create_container(endpoint: str, name: str) -> None:
    date, version = formatdate(usegmt=True), "2021-08-06"
    canonical = f"x-ms-date:{date}\nx-ms-version:{version}\n"
    place = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + canonical + place
    signed = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date, "x-ms-version": version, "Content-Length": "0",
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}",
    }  # fmt: skip
    url = f"{endpoint}/{name}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)).read()


@contextmanager
def azurite() -> Iterator[dict[str, Any]]:
    """Options of a server of its own with the container `bucket`; ended with the block."""
    with tempfile.TemporaryDirectory(prefix="azurite-") as folder:
        port = free_port()
        server = subprocess.Popen(
            ["node", SERVER, "--blobPort", str(port), "--location", folder, "--silent",
             "--skipApiVersionCheck", "--disableTelemetry"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        try:
            end = time.monotonic() + _UP_SECONDS
            while True:
                try:
                    _create_container(endpoint, "bucket")
                    break
                except OSError:
                    if time.monotonic() > end or server.poll() is not None:
                        raise
                    time.sleep(0.2)
            yield {"account_name": ACCOUNT, "account_key": KEY, "endpoint": endpoint}
        finally:
            server.kill()
            server.wait()


@cache
def _options() -> dict[str, Any]:
    if lacks := missing():
        pytest.skip(f"no Azurite here: {lacks}")
    running = azurite()
    atexit.register(lambda: running.__exit__(None, None, None))
    return running.__enter__()


_FOLDERS = itertools.count()


def fresh_azure() -> ObjectStoreFileSystem:
    """A folder of the process's server that no other test has."""
    return ObjectStoreFileSystem(f"abfs://bucket/tests/{next(_FOLDERS)}", _options())


if __name__ == "__main__" and sys.argv[1:] == ["--fetch"]:
    prepare()
