"""SQL text as Arrow expressions: the filters of reads, and the values of updates and merges."""
