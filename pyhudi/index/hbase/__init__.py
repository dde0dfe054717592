"""Apache Hudi's HBase index: entries in an HBase table, accessed through its Thrift gateway."""
