"""Transactions on a table: from the lock to the commit point.

begin -> (work) -> finish; recovery and rollback of what crashed writers left; conflict detection;
heartbeats and markers of running writes.  Used by `write/` (markers), `services/`, `operations/`.
"""
