"""Ingests on Spark: batches of a source that tasks read; called by `pyhudi.spark.ingest`."""
