"""The daemon of Spark's Python workers, whose tasks die or stall.

`spark.python.daemon.module` starts it.  PYHUDI_TEST_FAULTS names a folder: each task that is killed
or delayed leaves a file there.  A third of the tasks die at some moment, files they wrote stay; of
the others, some are so slow that Spark starts a second attempt where it speculates.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark import daemon, worker

_run = worker.main


def failing(infile: Any, outfile: Any) -> None:
    dice = random.Random(uuid.uuid4().int)
    turn = dice.random()
    folder = Path(os.environ["PYHUDI_TEST_FAULTS"])
    if turn < 0.3:
        # most within the first hundredths of a second: on a fast machine tasks soon end
        threading.Timer(0.4 * dice.random() ** 4, _die, (folder,)).start()
    elif turn < 0.6:
        (folder / f"slow-{uuid.uuid4()}").touch()
        time.sleep(dice.uniform(0.2, 1.5))
    _run(infile, outfile)


def _die(folder: Path) -> None:
    (folder / f"killed-{uuid.uuid4()}").touch()
    os._exit(9)


worker.main = failing
daemon.worker_main = failing  # PySpark 3.5 imports it with the module

if __name__ == "__main__":
    daemon.manager()
