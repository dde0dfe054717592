"""Tables on Spark: the only package that imports PySpark."""

from pyhudi.spark.batches import foreach_batch as foreach_batch
from pyhudi.spark.door import SparkTable as SparkTable
from pyhudi.spark.door import create_table as create_table
from pyhudi.spark.door import open_table as open_table
from pyhudi.spark.door import read as read
from pyhudi.spark.door import upsert as upsert
from pyhudi.spark.engine import SparkEngine as SparkEngine
from pyhudi.spark.shipping import WorkerPythonError as WorkerPythonError
