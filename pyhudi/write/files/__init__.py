"""Files of a write: base files, log files and CDC logs, and the rows that go into them."""
