"""Plans of table services as values: one reader and one writer each, from and to Avro records.

```
compaction.py   HoodieCompactionPlan, of compactions and log compactions
clustering.py   HoodieRequestedReplaceMetadata; which replace commits are clusterings
cleaning.py     HoodieCleanerPlan
rollback.py     HoodieRollbackPlan
restore.py      HoodieRestorePlan
checks.py       names and lengths of what was read
```

A plan holds names, no state of a table: whoever runs it looks the files up.  What is read is
untrusted: `from_record` raises CorruptFileError for names that lead out of the table.  Planners
and runners of services call these; `TimelineLog.plan` reads one from the timeline.
Source: table_format 4.
"""
