"""pyhudi: Apache Hudi tables for Python and PySpark, without a jar."""
