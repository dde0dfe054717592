"""The archived timeline of layout 2 (table versions 8 and 9): a log-structured merge tree.

`manifest` names the live files, `rows` reads and writes one file, `reader` answers questions
about archived instants, `writer` archives instants, merges levels and deletes old versions.
Used by `timeline.archive`, `timeline.archive_files` and the archival service.
"""
