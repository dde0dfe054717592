"""Apache Hudi parses the checkpoints of a Kafka source, in commits of each table version."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

import pyhudi
from pyhudi.ingest import KafkaSource, Stream
from tests.ingest.kafka.topics import messages, mock_brokers
from tests.interop.apache_hudi import install
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
PROGRAM = """
import org.apache.hudi.common.util.CheckpointUtils;
public class Parsed {
  public static void main(String[] texts) {
    for (String text : texts)
      System.out.println(
          CheckpointUtils.parseCheckpoint(CheckpointUtils.CheckpointFormat.SPARK_KAFKA, text));
  }
}
"""


def parsed(folder: Path, texts: list[str]) -> list[str]:
    """The offsets that CheckpointUtils of Apache Hudi 1.2.0 finds."""
    logging = next((Path(pyspark.__file__).parent / "jars").glob("slf4j-api*.jar"))
    program = folder / "Parsed.java"
    program.write_text(PROGRAM)
    command = ["java", "-cp", f"{logging}:{install.bundle('1.2.0')}", str(program), *texts]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return answer.stdout.splitlines()


def test_checkpoints_are_parsed_and_rows_are_read(
    tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    apache, texts = apache_hudi("1.2.0"), []
    with mock_brokers() as broker:
        topic = broker.topic()
        broker.put(topic, messages(0, 9))
        for version in (6, 8, 9):
            path = tmp_path / f"v{version}"
            table = pyhudi.create_table(
                path, SCHEMA, record_key="id", ordering="ts", table_type="mor", version=version
            )
            Stream(KafkaSource(broker.servers, topic), table).run_once()
            texts.append(table.checkpoint())
            rows = apache.read(path)
            assert sorted(rows["id"].to_pylist()) == [f"k{n:06}" for n in range(9)]
    assert parsed(tmp_path, texts) == ["{0=3, 1=2, 2=2, 3=2}"] * 3
