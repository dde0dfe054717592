"""Commands that show a table to others: an HTML page, a live view, a server."""
