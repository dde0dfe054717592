"""PySpark is an extra of the package: report how to install it where it is missing."""

from importlib.util import find_spec

if find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        "pyhudi.spark requires PySpark: pip install 'pyhudi[spark]'", name="pyspark"
    )
