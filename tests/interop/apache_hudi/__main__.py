"""The program: `setup`, `serve` (one JSON request and one JSON answer a line), or one request."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from typing import Any, TextIO

from tests.interop.apache_hudi import install
from tests.interop.apache_hudi.commands import Commands
from tests.interop.apache_hudi.session import Session


def answer(commands: Commands, request: dict[str, Any]) -> dict[str, Any]:
    """The result of a request with ok=True, or ok=False with the error and its Java causes."""
    arguments = dict(request)
    name = str(arguments.pop("command", ""))
    try:
        if name.startswith("_") or not hasattr(commands, name):
            raise install.CommandFailed(f"unknown command {name!r}")
        return {"ok": True, **getattr(commands, name)(**arguments)}
    except install.CommandFailed as failed:
        return {**failed.detail, "ok": False, "error": str(failed)}
    except Exception as failed:  # what Spark and the JVM raise becomes the answer
        trace = traceback.format_exc()[-6000:]
        return {"ok": False, "error": causes(failed), "trace": trace}


def causes(failed: Exception) -> str:
    """The first line of every cause of a Java exception."""
    java = getattr(failed, "java_exception", None) or getattr(failed, "_origin", None)
    lines: list[str] = []
    while java is not None and len(lines) < 8:
        lines.append(str(java.toString()).split("\n")[0])
        java = java.getCause()
    return " / caused by ".join(lines) or f"{type(failed).__name__}: {failed}"


def serve(commands: Commands, channel: TextIO) -> int:
    """Answer the requests of stdin until it ends or {"command": "quit"} comes."""
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("command") == "quit":
            break
        channel.write(json.dumps(answer(commands, request), default=str) + "\n")
    return 0


def own_stdout() -> TextIO:
    """The channel of the answers; what the JVM prints goes to stderr."""
    channel = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    return channel


def main() -> int:
    parser = argparse.ArgumentParser(description="Apache Hudi, asked by JSON.")
    parser.add_argument("--hudi", choices=install.VERSIONS, default="1.2.0")
    parser.add_argument("request", help="setup, serve, or one request as a JSON object")
    given = parser.parse_args()
    install.setup(given.hudi)
    if given.request == "setup":
        return 0
    home = install.cache() / "venv"
    if os.path.realpath(sys.prefix) != os.path.realpath(home):
        os.environ["PYTHONPATH"] = str(install.ROOT)
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(install.python())
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ.pop("SPARK_HOME", None)
        module = ["-m", "tests.interop.apache_hudi", *sys.argv[1:]]
        os.execv(install.python(), [str(install.python()), *module])
    channel = own_stdout()
    session = Session(given.hudi)
    try:
        if given.request == "serve":
            return serve(Commands(session), channel)
        result = answer(Commands(session), json.loads(given.request))
        channel.write(json.dumps(result, default=str, ensure_ascii=False, indent=1) + "\n")
        return 0 if result["ok"] else 1
    finally:
        session.close()


if __name__ == "__main__":
    sys.exit(main())
