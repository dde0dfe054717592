"""Column ranges and bloom filters of data files: creation, reading, verification."""
