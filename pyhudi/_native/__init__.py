"""Compiled modules: HFile, Avro, bloom filters, hashing, key tables and merge."""

from pyhudi._native.avro.codec import AvroCodec as AvroCodec
from pyhudi._native.bloom import BloomFilter as BloomFilter
from pyhudi._native.hashing import bucket_of as bucket_of
from pyhudi._native.hashing import hash_id as hash_id
from pyhudi._native.hashing import java_string_hash as java_string_hash
from pyhudi._native.hashing import murmur3_32 as murmur3_32
from pyhudi._native.hashing import xxh32 as xxh32
from pyhudi._native.hashing import xxh64 as xxh64
from pyhudi._native.hfile.reader import HFileReader as HFileReader
from pyhudi._native.hfile.writer import HFileWriter as HFileWriter
from pyhudi._native.keys import Fold as Fold
from pyhudi._native.keys import KeyTable as KeyTable
from pyhudi._native.keys import argsort as argsort
from pyhudi._native.keys import fold as fold
from pyhudi._native.keys import is_strictly_sorted as is_strictly_sorted
from pyhudi._native.keys import latest as latest
