"""Key generators: record keys and partition paths from the columns of a row."""
