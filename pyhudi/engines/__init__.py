"""Query engines of one machine: how a snapshot is divided between an engine's reader and pyhudi's.

`pyhudi.duckdb`, `pyhudi.polars`, `pyhudi.datafusion`, `pyhudi.daft` and `pyhudi.server` use it.
"""
