"""Kafka topics as a source: positions, the client, messages as columns."""
