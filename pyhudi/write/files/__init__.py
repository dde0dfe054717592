"""Data files of a write: base files, log files and CDC logs."""
