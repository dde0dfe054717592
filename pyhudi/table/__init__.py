"""What a table is: properties, partitions, file groups and their slices."""
