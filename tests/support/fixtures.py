"""Files that Apache Hudi and Apache HBase wrote, unpacked from tests/golden/apache_hudi.tar.xz."""

from __future__ import annotations

import hashlib
import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "tests" / "golden" / "apache_hudi.tar.xz"


@cache
def fixtures() -> Path:
    """The folder with golden/*.zip, tables/*.zip, hfile/*.hfile and logs/*/.*.log.*.

    The archive is unpacked once, below build/, in a folder named by its digest.
    """
    digest = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()[:16]
    parent = ROOT / "build" / "fixtures"
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / digest
    with FileLock(parent / f"{digest}.lock"):
        if not folder.is_dir():
            with TemporaryDirectory(dir=parent) as made, tarfile.open(ARCHIVE) as archive:
                archive.extractall(Path(made) / "files", filter="data")
                (Path(made) / "files").rename(folder)
    return folder
