"""Expression indexes: ranges or bloom filters of a function of a column for each data file, in
partitions `expr_index_<name>` of the metadata table.  Used by reads with a filter on the function,
and maintained by writes."""
