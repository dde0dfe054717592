"""The jars with which Spark reads S3: Hadoop's s3a and the parts of the AWS SDK that it needs.

    python -m tests.support.spark_s3 --fetch    fetches them (15 MB), once

They belong to the Hadoop release of PySpark 4.3 and are stored in PYHUDI_CACHE (default
~/.cache/pyhudi).  The Spark session of a test run has them if a test with the marker `s3a` runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

JARS: Final = (
    Path(os.environ.get("PYHUDI_CACHE", Path.home() / ".cache" / "pyhudi")) / "spark-s3" / "lib"
)
_ARTIFACTS: Final = (
    ("org.apache.hadoop", "hadoop-aws", "3.5.0"),
    ("software.amazon.awssdk", "s3-transfer-manager", "2.35.4"),
    ("software.amazon.awssdk", "sts", "2.35.4"),
)
_WITHOUT: Final = (("software.amazon.awssdk", "bundle"), ("org.slf4j", "*"), ("io.netty", "*"))


def jars() -> str:
    """For the property spark.jars."""
    return ",".join(map(str, sorted(JARS.glob("*.jar"))))


def prepare() -> None:
    """Fetch the jars, once."""
    if JARS.is_dir():
        return
    JARS.parent.mkdir(parents=True, exist_ok=True)
    without = "".join(
        f"<exclusion><groupId>{g}</groupId><artifactId>{a}</artifactId></exclusion>"
        for g, a in _WITHOUT
    )
    needed = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version>"
        f"<exclusions>{without}</exclusions></dependency>"
        for g, a, v in _ARTIFACTS
    )
    with tempfile.TemporaryDirectory(dir=JARS.parent) as folder:
        Path(folder, "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>pyhudi.test</groupId>"
            "<artifactId>spark-s3</artifactId><version>1</version>"
            f"<dependencies>{needed}</dependencies></project>"
        )
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(copy, check=True, cwd=folder)
        Path(folder, "lib").replace(JARS)


def properties(options: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's properties for s3a:// URLs on a server with these storage options."""
    return {
        "fs.s3a.endpoint": options["endpoint"],
        "fs.s3a.endpoint.region": options["region"],
        "fs.s3a.access.key": options["access_key_id"],
        "fs.s3a.secret.key": options["secret_access_key"],
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }


@contextmanager
def s3a(spark: Any, options: Mapping[str, str]) -> Iterator[None]:
    """The session opens s3a:// URLs on a server with these storage options."""
    given = properties(options)
    for name, value in given.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in given:
            spark.conf.unset(name)


if __name__ == "__main__":
    if sys.argv[1:] != ["--fetch"]:
        sys.exit(__doc__)
    prepare()
