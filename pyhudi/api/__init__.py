"""The public API: tables, their methods by area, and the conversion of what callers pass."""
