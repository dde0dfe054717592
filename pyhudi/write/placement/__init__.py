"""Placement of rows in file groups: tagging, assignment, routing."""
