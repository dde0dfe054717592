"""Changes between two instants: incremental queries, CDC, snapshot comparison."""
