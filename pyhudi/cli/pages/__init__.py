"""Commands that show the state of a table: an HTML page."""
