"""Secondary indexes against the table's rows: creation, changes of a commit, verification."""
