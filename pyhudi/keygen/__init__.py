"""Key generators: record keys and partition paths out of the columns of a row."""
