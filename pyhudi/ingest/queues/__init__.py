"""Queues of messages that name new objects of a store."""
