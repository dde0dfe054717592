"""An ingest described by the flags and properties of Apache Hudi's streamer."""
