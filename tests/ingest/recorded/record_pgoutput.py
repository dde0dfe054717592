"""Records messages of logical replication from a real PostgreSQL.

    python -m tests.ingest.recorded.record_pgoutput > tests/ingest/recorded/pgoutput.txt

Each message is a line of hexadecimal digits.
"""

from __future__ import annotations

import psycopg

from tests.support.postgres import postgres_url

COLUMNS = (
    "id text, n bigint, small smallint, number int, price numeric(10, 2), free numeric, flag bool, "
    "day date, at timestamptz, local timestamp, raw bytea, half real, whole double precision, "
    "PRIMARY KEY (id)"
)
CHANGES = (
    "INSERT INTO recorded VALUES ('a', 1, 2, 3, 4.50, 1.23456, true, '2026-01-02', "
    "'2026-01-02 03:04:05.678+00', '2026-01-02 03:04:05', '\\x00ff', 0.5, 1e300), "
    "('ü', -9223372036854775808, -1, -2, -0.01, 'NaN', false, '0001-01-01', "
    "'1969-12-31 23:59:59+00', NULL, '', NULL, NULL)",
    "UPDATE recorded SET n = 7 WHERE id = 'a'",
    "UPDATE recorded SET id = 'b' WHERE id = 'a'",
    "DELETE FROM recorded WHERE id = 'ü'",
    "ALTER TABLE recorded REPLICA IDENTITY FULL",
    "UPDATE recorded SET n = 8 WHERE id = 'b'",
    "ALTER TABLE recorded REPLICA IDENTITY DEFAULT",
    "ALTER TABLE recorded ADD COLUMN large text",
    "ALTER TABLE recorded ALTER large SET STORAGE EXTERNAL",
    "INSERT INTO recorded (id, large) VALUES ('c', repeat('x', 3000))",
    "UPDATE recorded SET n = 9 WHERE id = 'c'",
    "INSERT INTO other VALUES (1)",
    "TRUNCATE recorded",
)


def main() -> None:
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        version = connection.execute("SHOW server_version").fetchone()
        connection.execute(f"CREATE TABLE recorded ({COLUMNS})")
        connection.execute("CREATE TABLE other (id int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION recorded FOR TABLE recorded, other")
        slot = "SELECT pg_create_logical_replication_slot('recorded', 'pgoutput')"
        connection.execute(slot)
        try:
            for change in CHANGES:
                connection.execute(change)
            found = connection.execute(
                "SELECT encode(data, 'hex') FROM pg_logical_slot_peek_binary_changes('recorded', "
                "NULL, NULL, 'proto_version', '1', 'publication_names', 'recorded')"
            ).fetchall()
        finally:
            connection.execute("SELECT pg_drop_replication_slot('recorded')")
            connection.execute("DROP PUBLICATION recorded")
            connection.execute("DROP TABLE recorded, other")
    print(f"# PostgreSQL {version[0] if version else ''}; tests/ingest/recorded/record_pgoutput.py")
    for (message,) in found:
        print(message)


if __name__ == "__main__":
    main()
