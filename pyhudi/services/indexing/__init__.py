"""Opening, building, verification and repair of indexes: record index, elastic, RocksDB, HBase."""
