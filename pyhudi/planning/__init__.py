"""Pure planners of compaction, cleaning, clustering, archival and TTL.  Nothing is written."""
