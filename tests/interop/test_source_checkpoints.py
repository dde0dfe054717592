"""Apache Hudi finds the checkpoints of files and of tables in commits of each table version."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import pyhudi
from pyhudi.ingest import FileSource, Stream, TableSource
from tests.interop.apache_hudi import install

pytestmark = pytest.mark.interop
ROWS = pa.table({"id": ["a", "b"], "ts": [1, 1]})
PROGRAM = """
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.checkpoint.*;
import org.apache.hudi.common.table.timeline.HoodieTimeline;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;
public class Found {
  public static void main(String[] paths) throws Exception {
    for (String path : paths) {
      HoodieTableMetaClient table = HoodieTableMetaClient.builder()
          .setConf(new HadoopStorageConfiguration(new Configuration())).setBasePath(path).build();
      HoodieTimeline commits = table.getCommitsTimeline().filterCompletedInstants();
      Checkpoint found = CheckpointUtils.getCheckpoint(
          commits.readCommitMetadata(commits.lastInstant().get()));
      System.out.println(String.join(" ", found.getClass().getSimpleName(),
          found.getCheckpointKey(), String.valueOf(found.getCheckpointResetKey())));
    }
  }
}
"""


def found(folder: Path, tables: list[Path]) -> list[str]:
    """Class, text and reset key of the checkpoint that Apache Hudi 1.2.0 finds in each table."""
    program = folder / "Found.java"
    program.write_text(PROGRAM)
    places = f"{install.bundle('1.2.0')}:{Path(pyspark.__file__).parent / 'jars'}/*"
    command = ["java", "-cp", places, str(program), *map(str, tables)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return answer.stdout.splitlines()


def made(path: Path, version: int) -> Any:
    return pyhudi.create_table(
        path, ROWS.schema, record_key="id", ordering="ts", table_type="mor", version=version
    )


def test_checkpoints_of_files_are_found_in_commits_of_each_version(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(ROWS, tmp_path / "in" / "first.parquet")
    modified = (tmp_path / "in" / "first.parquet").stat().st_mtime_ns // 1_000_000
    tables = [tmp_path / f"v{version}" for version in (6, 8, 9)]
    for path, version in zip(tables, (6, 8, 9), strict=True):
        Stream(FileSource(tmp_path / "in", quiet_seconds=0), made(path, version)).run_once()
    assert found(tmp_path, tables) == [
        f"StreamerCheckpointV1 {modified} null",
        f"StreamerCheckpointV2 {modified} null",
        f"StreamerCheckpointV2 {modified} null",
    ]


def test_a_reset_is_found_in_its_commit(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 6)
    table.upsert(ROWS)
    table.reset_checkpoint("17")
    assert found(tmp_path, [tmp_path / "t"]) == ["StreamerCheckpointV1 17 17"]


def test_checkpoints_of_tables_are_instants_or_completion_times(tmp_path: Path) -> None:
    tables, expected = [], []
    for version in (6, 8, 9):
        origin = made(tmp_path / f"origin{version}", version)
        origin.upsert(ROWS)
        table = made(tmp_path / f"derived{version}", version)
        Stream(TableSource(origin.path), table).run_once()
        instant = origin.timeline.commits.last
        kind, text = ("V1", instant.time) if version == 6 else ("V2", instant.completed_at)
        tables.append(tmp_path / f"derived{version}")
        expected.append(f"StreamerCheckpoint{kind} {text} null")
    assert found(tmp_path, tables) == expected
