"""Measurements that a command runs on the user's own machine and store."""
