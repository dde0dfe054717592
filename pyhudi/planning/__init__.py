"""Pure planners of compaction, cleaning, clustering, archival and TTL.  They write nothing."""
