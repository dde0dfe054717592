"""Kafka to a table to a query, in five minutes.

    pip install 'pyhudi[ingest]'
    python kafka_to_table.py                                  # a broker in this process
    python kafka_to_table.py --servers localhost:9092         # yours

Produces rides to the topic `rides`, writes them to a table, changes and deletes some, and queries
the table with SQL.  A second run with the same broker and table continues where the first stopped.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import confluent_kafka
import duckdb
import pyarrow as pa

import pyhudi
import pyhudi.duckdb
from pyhudi.ingest import KafkaSource, Stream

CITIES = ("berlin", "lisbon", "oslo")
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string(), "fare": pa.float64()})
QUERY = """
    SELECT city, count(*) AS rides, sum(fare) AS fares
    FROM rides GROUP BY city ORDER BY city
"""


def client(servers: str | None) -> tuple[Any, str]:
    """A producer and the servers of its broker; None: a broker that the client simulates."""
    if servers is not None:
        return confluent_kafka.Producer({"bootstrap.servers": servers}), servers
    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 3})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    return producer, f"{broker.host}:{broker.port}"


def produce(producer: Any, topic: str, first: int, count: int, ts: int, fare: float) -> None:
    """Rides with the keys r0, r1 and so on; a greater ts changes a ride."""
    for number in range(first, first + count):
        city = CITIES[number % len(CITIES)]
        ride = {"id": f"r{number}", "ts": ts, "city": city, "fare": fare}
        producer.produce(topic, json.dumps(ride), key=ride["id"])
    producer.flush(30)


def opened(path: str) -> Any:
    """The table at the path, which may be new."""
    try:
        return pyhudi.open_table(path)
    except pyhudi.errors.TableNotFoundError:
        return pyhudi.create_table(path, SCHEMA, record_key="id", ordering="ts", table_type="mor")


def main() -> None:
    parser = argparse.ArgumentParser(description="Kafka to a table to a query.")
    parser.add_argument("--servers", help="host:port of the brokers; default: a simulated one")
    parser.add_argument("--topic", default="rides")
    parser.add_argument("--table", default="rides_table")
    parser.add_argument("--rides", type=int, default=3_000)
    given = parser.parse_args()

    producer, servers = client(given.servers)
    table = opened(given.table)
    source = KafkaSource(servers, given.topic, key_columns=["id"])
    stream = Stream(source, table, max_rows=100_000)

    produce(producer, given.topic, 0, given.rides, ts=1, fare=10.0)
    stream.run(on_batch=print)

    produce(producer, given.topic, 0, given.rides // 3, ts=2, fare=12.5)
    stream.run(on_batch=print)

    producer.produce(given.topic, None, key="r0")  # a null value deletes the ride
    producer.flush(30)
    stream.run(on_batch=print)
    print("checkpoint:", table.checkpoint())

    with duckdb.connect() as connection:
        pyhudi.duckdb.attach(connection, table, "rides")
        print(connection.sql(QUERY))


if __name__ == "__main__":
    main()
