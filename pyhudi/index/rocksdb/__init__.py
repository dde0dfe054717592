"""The RocksDB index: one store a bucket, and its checkpoints on the storage of the table."""
