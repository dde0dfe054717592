"""The public API: tables, their methods by area, and conversion of arguments."""
