"""What the process needs, fetched once into a cache: PySpark, the Hudi bundle, compiled sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSIONS = ("0.15.0", "1.1.1", "1.2.0")
PACKAGES = ("pyspark==3.5.6", "pyarrow==21.0.0", "setuptools<81")
BUNDLE = "hudi-spark3.5-bundle_2.12"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
ROOT = Path(__file__).parents[3]
JAVA = Path(__file__).parent / "java"


class CommandFailed(Exception):
    """Hudi refused a command, or a comparison found a difference; detail is part of the answer."""

    def __init__(self, message: str, **detail: object) -> None:
        super().__init__(message)
        self.detail = detail


def cache() -> Path:
    default = Path.home() / ".cache" / "hudi-oracle"
    return Path(os.environ.get("HUDI_ORACLE_CACHE") or default)


def python() -> Path:
    """The interpreter of the environment with PySpark 3.5."""
    return cache() / "venv" / "bin" / "python"


def bundle(version: str) -> Path:
    return cache() / "jars" / f"{BUNDLE}-{version}.jar"


def sources(version: str) -> list[Path]:
    line = "v0" if version.startswith("0.") else "v1"
    return [JAVA / "common" / "Commands.java", JAVA / line / "Compat.java"]


def compiled(version: str) -> Path:
    """The jar of our Java sources; named by their content."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources(version)))
    return cache() / "jars" / f"commands-{version}-{digest.hexdigest()[:12]}.jar"


def missing(version: str) -> str | None:
    """Why this version cannot run on this machine, or None; network failures are not foreseen."""
    if shutil.which(_java("java")) is None:
        return "Java is not installed"
    if not bundle(version).exists() and shutil.which("mvn") is None:
        return "Maven is not installed"
    if not compiled(version).exists() and shutil.which(_java("javac")) is None:
        return "the Java compiler is not installed"
    return None


def setup(version: str) -> None:
    """Fetch and build what is missing; processes that do so concurrently wait for each other."""
    (cache() / "jars").mkdir(parents=True, exist_ok=True)
    with _locked(cache() / ".lock"):
        _make_environment()
        if not bundle(version).exists():
            _fetch(version)
        if not compiled(version).exists():
            _compile(version)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_environment() -> None:
    stamp, expected = cache() / "venv" / ".packages", " ".join(PACKAGES)
    if not stamp.exists() or stamp.read_text() != expected:
        venv.create(cache() / "venv", with_pip=True)
        _run([str(python()), "-m", "pip", "install", "-q", *PACKAGES])
        stamp.write_text(expected)


def _fetch(version: str) -> None:
    artifact = f"-Dartifact=org.apache.hudi:{BUNDLE}:{version}"
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        _run(["mvn", "-q", "-B", COPY, artifact, f"-DoutputDirectory={folder}"])
        (Path(folder) / bundle(version).name).replace(bundle(version))


def _compile(version: str) -> None:
    spark = next((cache() / "venv" / "lib").glob("python3*/site-packages/pyspark/jars"))
    path = f"{bundle(version)}{os.pathsep}{spark}/*"
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        options = ["-nowarn", "-Xlint:none", "-d", folder, "-cp", path]
        _run([_java("javac"), *options, *map(str, sources(version))])
        jar = Path(folder) / "commands.jar"
        with zipfile.ZipFile(jar, "w") as made:
            for file in sorted(Path(folder).glob("interop/*.class")):
                made.write(file, f"interop/{file.name}")
        jar.replace(compiled(version))


def _java(tool: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / tool) if home else tool


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise CommandFailed(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")
