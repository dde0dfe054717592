"""Spark data source `format("pyhudi")`: batch and streaming reads and writes."""
