"""Secondary indexes: the record keys of each value of a column, in partitions
`secondary_index_<name>` of the metadata table.  Used by reads with a filter on the column, and
maintained by writes."""
