"""The lock of Apache Hudi's ZooKeeper provider, by the library that it uses, beside ours."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyhudi.storage.locks.zookeeper import ZooKeeperMutex, ZooKeeperPlace
from tests.support.zookeeper import jars, shared_zookeeper

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.slow]

HOLDER = """
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

public class Holder {
  public static void main(String[] args) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new RetryNTimes(3, 100));
    client.start();
    Scanner asked = new Scanner(System.in);
    InterProcessMutex lock = null;
    while (asked.hasNext()) {
      String what = asked.next();
      if (what.equals("take")) {
        lock = new InterProcessMutex(client, args[1]);
        boolean held = lock.acquire(asked.nextInt(), TimeUnit.MILLISECONDS);
        System.out.println(held ? ">held" : ">refused");
      } else {
        lock.release();
        System.out.println(">free");
      }
    }
    client.close();
  }
}
"""


class Curator:
    """A process of Apache Hudi's library."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(self, what: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return next(line for line in self._process.stdout if line.startswith(">")).strip(" >\n")


@contextmanager
def curator(place: ZooKeeperPlace, folder: Path) -> Iterator[Curator]:
    source = folder / "Holder.java"
    source.write_text(HOLDER)
    command = ["java", "-Xmx128m", "-cp", f"{jars()}/*", source, place.hosts, place.path]
    process = subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Curator(process)
    finally:
        process.kill()
        process.wait()


def test_curators_lock_and_ours_exclude_each_other(tmp_path: Path) -> None:
    place = ZooKeeperPlace(shared_zookeeper(), "/hudi/shared", session_seconds=10)
    mutex = ZooKeeperMutex(place)
    with curator(place, tmp_path) as theirs:
        for _ in range(2):
            assert theirs.call("take 5000") == "held"
            assert not mutex.acquire(0) and not mutex.acquire(0.2)
            assert theirs.call("leave") == "free"
            assert mutex.acquire(5) and mutex.confirm()
            assert theirs.call("take 300") == "refused"
            mutex.release()
        assert theirs.call("take 5000") == "held"  # and dies with it
    assert mutex.acquire(60) and mutex.confirm()
    mutex.release()
