"""Random operations on a table, against a dict; `table_machine` is the long form."""

from __future__ import annotations

from tests.properties.table_machine import TableMachine, bounded

TestTableMachine = TableMachine.TestCase
TestTableMachine.settings = bounded(10, 10)
