"""What proves that tables of versions 8 and 9 are written right.

Each line is a check against Apache Hudi 1.x (or hudi-rs); the tests that run it are marked with its
number, `@pytest.mark.conformance(2)`.  "read": Apache Hudi reads the rows, with and without the
metadata table; "validated": it finds no difference between metadata table, storage and rows.

 1  every instant is decoded, with its completion time
 2  read and validated after each commit
 3  upserts of either side in turn, simple and record index
 4  deletes of the other side; deleted keys inserted again
 5  each log is in the same file slice
 6  our compaction plan, their write, our compaction
 7  their compaction plan, our write, their compaction
 8  they compact our logs; read-optimized queries
 9  blocks, counts and headers of our logs
10  record positions, also of a replaced base file
11  they roll back our crashed write
12  we roll it back, they write
13  they roll back our completed commit
14  their savepoint and restore over our commits
15  our savepoint and restore, their writes
16  cleans of either side
17  clustering of either side, then writes to the new file groups
18  overwrites and deleted partitions
19  archives of either side, levels merged
20  inserts while their clustering is pending
21  they compact the metadata table
22  we compact the metadata table
23  filters with column and partition statistics
24  secondary indexes
25  properties that are missing or wrong
26  our upgrade of tables of version 6
27  their upgrade of our tables
28  their downgrade of our tables
29  optimistic writers of one file group and of two
30  non-blocking writers of one bucket
31  incremental queries by completion time
32  change data capture
33  hudi-rs reads the rows
34  content of completed instants
35  completion times rise and are no instants

The numbers are those of the conformance list of the specification of versions 8 and 9.
"""

from __future__ import annotations

import re

import pytest

from tests.support.conformance import CHECKS


def test_every_check_has_a_test(request: pytest.FixtureRequest) -> None:
    """Of all tests if all were collected, with long forms."""
    stated = set(map(int, re.findall(r"^([ \d]\d)  \S", __doc__ or "", re.MULTILINE)))
    assert stated == set(range(1, 36))
    if not request.config.getoption("file_or_dir"):
        assert request.config.stash[CHECKS] == stated
