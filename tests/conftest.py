"""Settings of every test, and the one Spark session they share."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import sys
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pyhudi.write import table_creation
from tests.support import conformance, covering, spark_s3
from tests.support.not_run import (  # noqa: F401
    pytest_deselected,
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

settings.register_profile(
    "house",
    deadline=None,  # shared machines stall; a hang is found by the whole run
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-case", action="store_true", help="of tests with parameters, not the covering ones"
    )
    parser.addoption(
        "--table-version", type=int, default=None, help="the version of tables that tests create"
    )

    parser.addoption(
        "--part", default="0/1", help="i/n: of n parts of the tests the one with number i, from 0"
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Mark long forms before -m selects; then retain the tests of one part, which the name of a
    test decides, so that a new test moves no other."""
    conformance.note_checks(config, items)
    if not config.getoption("--every-case"):
        covering.mark_others_slow(items)
    yield
    part, parts = map(int, config.getoption("--part").split("/"))
    left = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts != part]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts == part]


def pytest_collection_finish() -> None:
    """Modules and collected tests stay: the search for garbage passes over them, and while they are
    collected it would take a third of the time."""
    gc.freeze()
    gc.enable()


MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    """New tables have the requested version where a test names none; folders of tests are in
    memory if there is room: on a disk, tests wait for fsync longer than they compute."""
    gc.disable()  # until the tests are collected
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 6 * 2**30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    version = config.getoption("--table-version")
    if version is not None:
        table_creation.DEFAULT_TABLE_VERSION = version  # type: ignore[misc]


OLDER = {6: 6, 8: 8}
"""The version of new tables by the name of a test, of 32: one test in 32 for each older version."""


@pytest.fixture(autouse=True)
def older_version(request: pytest.FixtureRequest) -> Iterator[None]:
    """A few tests that name no version create tables of an older one, the same ones each time.

    With --table-version, and in those that need a JVM, none does; fixtures of a module do not.
    """
    version = OLDER.get(zlib.crc32(request.node.nodeid.encode()) % 32)
    item, given = request.node, request.config.getoption("--table-version")
    has_jvm = item.get_closest_marker("interop") or item.get_closest_marker("spark")
    if version is None or given is not None or has_jvm:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_creation, "DEFAULT_TABLE_VERSION", version)
        yield


@pytest.fixture(scope="session", autouse=True)
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Stores of the RocksDB index go to a folder that ends with the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYHUDI_STORES", str(tmp_path_factory.mktemp("stores")))
        yield


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The one session of a process: two slots, three attempts a task, batches of a thousand rows;
    with the jars of S3 if a test needs them.

    No test stops it: a session built elsewhere would be this one, and its end the end of all.
    """
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is not installed")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    needs_s3 = any(item.get_closest_marker("s3a") for item in request.session.items)
    session = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.jars", spark_s3.jars() if needs_s3 else "")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
        .config("spark.sql.session.timeZone", "America/New_York")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
