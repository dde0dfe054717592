"""Locks of a table: on the local disk, in object stores, and those that Apache Hudi takes."""
