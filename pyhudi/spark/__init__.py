"""Tables on Spark; except for this package and `pyspark_pyhudi`, pyhudi needs no PySpark."""

import pyhudi.spark.availability  # noqa: F401
from pyhudi.spark.engine import SparkEngine as SparkEngine
from pyhudi.spark.foreach_batch import foreach_batch as foreach_batch
from pyhudi.spark.job_submission import WorkerPythonError as WorkerPythonError
from pyhudi.spark.session_format import disable as disable
from pyhudi.spark.session_format import enable as enable
from pyhudi.spark.table import SparkTable as SparkTable
from pyhudi.spark.table import create_table as create_table
from pyhudi.spark.table import open_table as open_table
from pyhudi.spark.table import read as read
from pyhudi.spark.table import upsert as upsert
