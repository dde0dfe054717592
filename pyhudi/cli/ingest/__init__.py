"""`pyhudi ingest`: rows of a source into a table, with the flags of Apache Hudi's streamer."""
