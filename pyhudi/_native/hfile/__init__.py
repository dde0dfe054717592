"""HFile version 3, read and written: blocks, block index, look-ups."""
