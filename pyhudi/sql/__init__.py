"""SQL over tables: one grammar and one planner, with DuckDB or Spark as the engine of queries.

    parse        text -> a statement (`statements`), by sqlglot; `parse_ddl` those of tables,
                 `grammar` what both read of sqlglot
    names        names in the text -> tables, rows and folders of tables
    relations    references in a query -> views of snapshots that are pinned once for the statement
    planner      a statement -> a query of the engine and a verb of `pyhudi.api`
    ddl          CREATE, ALTER, DROP, TRUNCATE TABLE and indexes -> calls of `pyhudi.api`
    merge        MERGE INTO -> `Table.merge`
    engine       what the planner asks of an engine; `duckdb_engine` is the one of this machine

`pyhudi.sql` is this package, which can be called: `session.sql`.  `pyhudi.spark.sql` has the engine
of Spark.
"""
