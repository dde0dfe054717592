"""Transactions on a table: from the lock to the commit point.

begin -> (work) -> finish; recovery and rollback after crashed writers; conflict detection;
heartbeats and markers of running writes.  Used by `write/` (markers), `services/`, `operations/`.
"""
