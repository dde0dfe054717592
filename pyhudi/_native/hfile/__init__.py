"""HFile version 3: reader, writer, blocks, block index, lookups."""
