"""Indexes opened for a write or a look-up, and kept complete: record index, RocksDB, HBase."""
