"""What proves that tables of versions 8 and 9 are written right, and the test that does it.

Each line names a check against Apache Hudi 1.x (or hudi-rs) and the tests that run it, as
path::function below tests/.  "read": Apache Hudi reads the rows, with and without the metadata
table; "validated": it finds no difference between metadata table, storage and rows.

 1  every instant is decoded, with its completion time
        interop/test_versions_8_9.py::test_apache_hudi_decodes_slices_and_undoes_what_we_wrote
 2  read and validated after each commit
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
 3  upserts of either side in turn, simple and record index
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
        interop/test_version_changes.py::test_both_write_an_upgraded_table_and_0_15_reads_it_downgraded
 4  deletes of the other side; deleted keys inserted again
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
 5  each log is in the same file slice
        interop/test_versions_8_9.py::test_apache_hudi_decodes_slices_and_undoes_what_we_wrote
 6  our compaction plan, their write, our compaction
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
 7  their compaction plan, our write, their compaction
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
 8  they compact our logs; read-optimized queries
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
        read/test_golden_8_9.py::test_every_query_gives_the_rows_that_apache_hudi_reads
 9  blocks, counts and headers of our logs
        interop/test_versions_8_9.py::test_apache_hudi_decodes_slices_and_undoes_what_we_wrote
10  record positions, also of a replaced base file
        interop/test_positions.py::test_positions_of_both_writers_are_read_by_both
11  they roll back our crashed write
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
12  we roll it back, they write
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
13  they roll back our completed commit
        interop/test_versions_8_9.py::test_apache_hudi_decodes_slices_and_undoes_what_we_wrote
14  their savepoint and restore over our commits
        interop/test_versions_8_9.py::test_apache_hudi_decodes_slices_and_undoes_what_we_wrote
15  our savepoint and restore, their writes
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
16  cleans of either side
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
17  clustering of either side, then writes to the new file groups
        interop/test_versions_8_9.py::test_apache_hudi_decodes_slices_and_undoes_what_we_wrote
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
18  overwrites and deleted partitions
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
19  archives of either side, levels merged
        interop/test_history.py::test_archives_are_continued_and_merged_by_either_side
20  inserts while their clustering is pending
        interop/test_versions_8_9.py::test_apache_hudi_decodes_slices_and_undoes_what_we_wrote
21  they compact the metadata table
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
22  we compact the metadata table
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
23  filters with column and partition statistics
        interop/test_statistics.py::test_filters_with_our_statistics_find_every_row
        interop/test_statistics.py::test_statistics_of_both_writers_find_every_row
24  secondary indexes
        interop/test_secondary_index.py::test_both_use_and_maintain_one_index
25  properties that are missing or wrong
        table/test_property_checks.py::test_a_table_is_read_without_properties_that_readers_can_do_without
        table/test_property_checks.py::test_a_writer_does_not_guess_what_the_properties_lack
26  our upgrade of tables of version 6
        services/test_version_change.py::test_a_golden_table_keeps_its_rows_up_and_down
        interop/test_version_changes.py::test_apache_hudi_reads_an_upgraded_table
        interop/test_interrupted_changes.py::test_both_read_a_table_whose_change_stopped_between_two_steps
27  their upgrade of our tables
        interop/test_version_changes.py::test_apache_hudi_upgrades_a_table_and_pyhudi_continues
28  their downgrade of our tables
        interop/test_version_changes.py::test_apache_hudi_downgrades_a_table_that_pyhudi_upgraded
29  optimistic writers of one file group and of two
        concurrency/test_conflicts.py::test_writers_to_different_groups_both_succeed
        concurrency/test_conflicts.py::test_an_overtaken_write_is_planned_again
30  non-blocking writers of one bucket
        concurrency/test_non_blocking.py::test_overlapping_writers_of_one_bucket_both_commit
        interop/test_non_blocking.py::test_apache_hudi_merges_the_logs_of_overlapping_writers
31  incremental queries by completion time
        read/test_completion_ranges.py::test_the_time_of_a_report_bounds_a_range_after_its_commit
        read/test_golden_8_9.py::test_every_query_gives_the_rows_that_apache_hudi_reads
32  change data capture
        interop/test_cdc.py::test_apache_hudi_returns_the_changes_of_version_9
33  hudi-rs reads the rows
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
34  content of completed instants
        timeline/test_completed_files.py::test_completed_instants_have_what_apache_hudi_requires
35  completion times rise and are no instants
        interop/test_versions_8_9.py::test_both_agree_after_each_of_thirty_turns
        timeline/test_completed_files.py::test_completed_instants_have_what_apache_hudi_requires

The numbers are those of the conformance list of the specification of versions 8 and 9.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def checks() -> dict[int, list[str]]:
    """The tests of each check, by its number."""
    found: dict[int, list[str]] = {}
    number = 0
    for line in (__doc__ or "").splitlines():
        if match := re.match(r"( ?\d+)  \S", line):
            number = int(match[1])
            found[number] = []
        elif match := re.fullmatch(r" {8}(\S+\.py::\w+)", line):
            found[number].append(match[1])
    return found


def test_every_check_has_a_test() -> None:
    found = checks()
    assert list(found) == list(range(1, 36))
    assert all(found.values())


@pytest.mark.parametrize("name", sorted({name for names in checks().values() for name in names}))
def test_each_named_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    tree = ast.parse((TESTS / path).read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
