"""Apache Hudi's HBase index: entries in a table of HBase, read and written through its gateway."""
