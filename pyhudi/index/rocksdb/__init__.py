"""The RocksDB index: one store a bucket, with checkpoints on the table's storage."""
