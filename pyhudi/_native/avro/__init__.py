"""Compiled conversion between Avro records and Arrow columns."""
