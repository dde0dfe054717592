"""A standalone Spark cluster of this machine: one master and two workers with different hosts.

Spark starts speculative attempts of a task only on other hosts than the first attempt, so neither
`local` nor `local-cluster` speculates.
"""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.zookeeper import free_port

_HOSTS = ("127.0.0.2", "127.0.0.3")
_UP_SECONDS = 120


@contextmanager
def spark_cluster(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The URL of a master with two workers of one core and 512 MiB each, which end with the block.

    environment: of the processes, executors and Python workers; names SPARK_HOME.  folder: of logs
    and work files.
    """
    port, status = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(status)]
    with ExitStack() as started:
        _start(started, folder, "master.Master", master, environment)
        for host in _HOSTS:
            options = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "512m"]
            options += ["--work-dir", str(folder / host), url]
            _start(started, folder, "worker.Worker", options, environment)
        _await_workers(status)
        yield url


def _start(
    started: ExitStack, folder: Path, role: str, options: list[str], environment: Mapping[str, str]
) -> None:
    command = [f"{environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{role}"]
    log = started.enter_context((folder / f"{role}.log").open("a"))
    process = subprocess.Popen(
        [*command, *options], env=dict(environment), stdout=log, stderr=subprocess.STDOUT
    )
    started.callback(process.wait)
    started.callback(process.terminate)


def _await_workers(port: int) -> None:
    """Wait until both workers are registered.  Raises TimeoutError."""
    until = time.monotonic() + _UP_SECONDS
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/", timeout=5) as answer:
                if answer.read().count(b'"ALIVE"') > len(_HOSTS):  # the master is alive too
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise TimeoutError("the workers of the Spark cluster have not registered")
