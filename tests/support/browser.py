"""A small client of headless Chromium, by its debugging pipe: pages, screenshots, console errors.

Debian's package `chromium`; no other dependency.  The browser has no network: host names do not
resolve.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DESKTOP, PHONE = (1280, 900), (360, 780)
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-extensions", "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 50) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts a program with a pipe at descriptors 3 and 4, where Chromium expects it."""


@dataclass
class Browser:
    """One page of a running browser.  complaints: console errors, exceptions, failed requests;
    requests: URLs that the pages loaded."""

    incoming: int
    outgoing: int
    session: str = ""
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    buffer: bytes = b""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _loaded: bool = False

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.outgoing, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == number:
                assert "error" not in found, found["error"]
                return dict(found["result"])

    def open(self, url: str, size: tuple[int, int], *, scheme: str) -> None:
        """Show a page.  size: in CSS pixels; scheme: "light" or "dark"."""
        width, height = size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media="screen", features=features)
        self._loaded = False
        self.call("Page.navigate", url=url)
        while not self._loaded:
            self._receive()

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path, *, height_max: int = 6000) -> bytes:
        """A picture of the whole page, stored at `path`."""
        width = self.value("window.innerWidth")
        height = min(self.value("document.documentElement.scrollHeight"), height_max)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self.call(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )
        picture = base64.b64decode(found["data"])
        path.write_bytes(picture)
        return picture

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.incoming], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            data = os.read(self.incoming, 1 << 20)
            assert data, "the browser has ended"
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\0")
        message = dict(json.loads(line))
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, facts: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(facts["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning"):
            self.complaints.append(str(facts["args"]))
        elif method == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.complaints.append(facts["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that ends with the block."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "install Debian's package chromium"
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="pyhudi-browser-") as profile:
        ends = (to_browser[0], from_browser[1])
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *map(str, ends), program, *_FLAGS,
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=ends, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser[0])
        os.close(from_browser[1])
        page = Browser(from_browser[0], to_browser[1])
        try:
            targets = page.call("Target.getTargets")["targetInfos"]
            target = next(t["targetId"] for t in targets if t["type"] == "page")
            attached = page.call("Target.attachToTarget", targetId=target, flatten=True)
            page.session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.call(f"{domain}.enable")
            yield page
        finally:
            os.close(to_browser[1])
            os.close(from_browser[0])
            process.terminate()
            process.wait(timeout=30)
