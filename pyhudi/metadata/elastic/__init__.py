"""The elastic index: entries of the record index in a place of their own that can grow."""
