"""The elastic index: record index entries in a separate folder, with buckets that can grow."""
