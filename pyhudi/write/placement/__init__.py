"""Which file group takes which rows: tagging, assignment, routing."""
