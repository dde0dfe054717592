"""Transactions on a table: from the lock to the commit point.

begin -> (work) -> finish; conflict detection; heartbeats and markers of running writes.  Used by
`recovery/` (rollback of failed writes), `write/` (markers), `services/`, `operations/`.
"""
