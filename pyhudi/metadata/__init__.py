"""The metadata table: file listing, record index, column statistics, bloom filters."""
