"""The steps of a write: input, tagging, assignment, files, index entries."""
