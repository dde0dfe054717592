"""Build, verification, sampling and statistics of the record index."""
