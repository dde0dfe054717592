"""File formats: Parquet base files, log files and their blocks, Avro schemas."""
