"""An Airflow DAG that ingests the new rows of a source every quarter of an hour.

The checkpoint is in the table, so a task that is repeated or runs late neither loses nor repeats
rows.  `max_active_runs=1`: one ingest a table.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.decorators import dag, task


@dag(
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
)
def ingest_trips() -> None:
    """New rows of a topic of Kafka into the table trips."""

    @task
    def ingest() -> int:
        import pyhudi
        from pyhudi.ingest import KafkaSource, Stream

        table = pyhudi.open_table("s3://lake/trips")
        source = KafkaSource("broker:9092", "trips", format="json")
        return sum(report.inserted + report.updated for report in Stream(source, table).available())

    ingest()


ingest_trips()
