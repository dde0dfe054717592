"""The contents of a table: properties, partitions, file groups and their slices."""
