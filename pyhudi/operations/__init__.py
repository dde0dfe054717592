"""Commands, one per module, from the table's lock to the report; used by the API and the CLI."""
