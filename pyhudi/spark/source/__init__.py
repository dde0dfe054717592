"""`format("pyhudi")`: batch and stream sources and sinks of Spark."""
