"""Merging of records with the same key; no other package implements merge semantics.

merge_rules       the rules of a table, from its properties and payload_classes
ordering_values   ordering columns as ranks; precedence: which of two records is the greater
column_merge      two records merged column by column; partial_updates
combine_batch     rows of one key in a batch             -> write
resolve_updates   incoming rows and stored rows          -> write
slice_merge       log entries and base rows: the native keyfold kernel, or log_fold in rounds
row_match         log entries matched with base rows: by record key, or by position
log_only_merge    log entries without a base file        -> log compaction
merge_cache       decisions of a merge, by file slice    -> read
"""
