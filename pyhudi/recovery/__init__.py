"""Recovery: rollback of failed writes and of the newest commit, and restore to an older one.

What a holder of the table's lock does before it begins.  Used by `services/` and `operations/`.
"""
