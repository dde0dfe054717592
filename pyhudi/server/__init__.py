"""A Flight SQL server over tables: SQL by DuckDB, look-ups by key, writes where they are allowed.

`SqlServer` is used by `pyhudi serve`.  Clients are those of Flight SQL: ADBC, JDBC, ODBC.
"""
