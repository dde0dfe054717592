"""Entries of tables in catalogs: what they should be, and how they get there.

`synchronize` compares what `table_entries` and `partition_values` compute with what a `Catalog`
stores, and writes the difference.  `api.Table.sync`, inline sync after a commit and `pyhudi sync`
call it.  The entries are those of Apache Hudi's HiveSyncTool.
"""
