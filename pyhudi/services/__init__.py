"""Table services: compaction, cleaning, clustering, archival, savepoints, upgrade, indexing."""
