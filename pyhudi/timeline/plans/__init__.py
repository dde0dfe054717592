"""Plans of table services: typed values, each with one reader and one writer of Avro records.

```
compaction.py   HoodieCompactionPlan, of compactions and log compactions
clustering.py   HoodieRequestedReplaceMetadata; which replace commits are clusterings
cleaning.py     HoodieCleanerPlan
rollback.py     HoodieRollbackPlan
restore.py      HoodieRestorePlan
checks.py       checks of the names and their lengths
```

A plan contains names, not the state of a table: its runner looks up the files.  Input is
untrusted: `from_record` raises CorruptFileError for names that lead out of the table.  Planners
and runners of services call these; `TimelineLog.plan` reads one from the timeline.
Source: table_format 4.
"""
