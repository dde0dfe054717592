"""Commands that show the state of a table: an HTML page, and a live view."""
