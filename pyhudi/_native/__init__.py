"""The compiled floor: batch functions over Arrow columns, each with the GIL released."""

from pyhudi._native.hashing import hash_id, java_string_hash, murmur3_32, shard_of, xxh64

__all__ = ["hash_id", "java_string_hash", "murmur3_32", "shard_of", "xxh64"]
