"""Column ranges and bloom filters of data files: collect, store, verify."""
