"""SQL text as filter trees: the filters of reads, and the values of updates and merges."""
