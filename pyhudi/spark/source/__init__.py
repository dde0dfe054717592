"""Spark data source `format("pyhudi")`: batch and streaming reads and writes.

PySpark runs it in processes of its own, in which nobody configures logging: warnings go to their
standard error, which Spark copies to that of the driver or the executor.
"""

import logging
import sys

from pyhudi.spark.error_lines import in_worker

if in_worker() and not logging.getLogger().handlers:  # nobody configures logging there
    _handler = logging.StreamHandler(sys.stderr)
    _handler.setLevel(logging.WARNING)
    _handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s pyhudi: %(message)s"))
    logging.getLogger("pyhudi").addHandler(_handler)
