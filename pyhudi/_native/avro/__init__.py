"""Avro records to and from Arrow columns, compiled."""
