"""Files of a folder as a source: listing, order and checkpoints, formats; for `pyhudi.ingest`."""
