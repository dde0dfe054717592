"""A process that runs Apache Hudi (Java, on Spark) and answers commands with JSON.

Tests use it to read, change and decode tables with the reference implementation.  It runs in a
Python environment of its own, with PySpark 3.5; pyhudi is not imported here.

    python -m tests.interop.apache_hudi --hudi 1.2.0 setup
    python -m tests.interop.apache_hudi --hudi 1.2.0 serve
    python -m tests.interop.apache_hudi '{"command": "timeline", "path": "PATH"}'

Needs a JDK 11 or 17 and Maven.  The environment, the Hudi bundle and the compiled Java sources are
stored in ~/.cache/hudi-oracle or $HUDI_ORACLE_CACHE.  $HUDI_ORACLE_MEMORY sets the heap (3g),
$HUDI_ORACLE_LOG the log level of Hudi (OFF), $HUDI_ORACLE_JVM the options of the JVM (those for
small queries; empty for a measurement).
"""
