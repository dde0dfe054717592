"""One module a command, from the table's lock to the report.  Called by the API and the CLI."""
