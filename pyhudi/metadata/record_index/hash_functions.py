"""Named hash functions, which assign keys to the buckets of an index.

A key's bucket never changes, so an index records the name of its hash function and a fingerprint
of its results for some texts: a function registered under that name with other results is
rejected.

```
java       String.hashCode as in Apache Hudi; required for indexes that Apache Hudi reads
murmur3    32 bits, as `mmh3.hash`
```

Groups of buckets that are added later use separate hashes: `murmur3` with another seed, other
functions with their result mixed with the number of the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi._native.hashing import bucket_of, java_string_hash, murmur3_32
from pyhudi.errors import IndexNotReadyError, UserError

JAVA: Final = "java"
MURMUR3: Final = "murmur3"

HashFunction = Callable[[pa.Array], Any]
"""Column of strings without nulls -> array of as many integers of 32 or 64 bits."""

_PROBES: Final = ("", "a", "key-0001", "key-0002", "Straße", "\U0001f600", "x" * 100)
_TURN: Final = 0x9E3779B97F4A7C15


def _java(keys: pa.Array) -> Any:
    return java_string_hash(keys)


def _murmur3(keys: pa.Array) -> Any:
    return murmur3_32(keys)


_BUILT_IN: Final[dict[str, HashFunction]] = {JAVA: _java, MURMUR3: _murmur3}
_REGISTERED: Final[dict[str, HashFunction]] = {}


def register_hash(name: str, function: HashFunction) -> None:
    """Register a custom hash function under a name, in this process, for `elastic` indexes.

    function: takes a pyarrow column of strings without nulls and returns an array of as many
    integers (int32, uint32, int64 or uint64).  It must be deterministic across processes and
    releases.  On Spark it is shipped to the workers with their tasks.  Raises UserError for a
    function with other results, for the name of a built-in function, and for a name under which
    another function is registered.
    """
    if not name or not all(part.isalnum() for part in name.replace("-", "_").split("_")):
        raise UserError(
            "the name of a hash function may contain only letters, digits, - and _", name=name
        )
    if name in _BUILT_IN:
        raise UserError("a built-in hash function has this name", name=name)
    if not callable(function):
        raise UserError("a hash function must be callable", name=name, type=type(function).__name__)
    once, again = _probed(name, function), _probed(name, function)
    if not np.array_equal(once, again):
        raise UserError("the hash function is not deterministic", name=name)
    before = _REGISTERED.get(name)
    if before is not None and not np.array_equal(_probed(name, before), once):
        raise UserError(
            "another hash function is registered under this name",
            name=name,
            hint="the hash function of an index never changes: use another name",
        )
    _REGISTERED[name] = function


def hash_names() -> tuple[str, ...]:
    """Names of the built-in functions and of those registered in this process."""
    return (*_BUILT_IN, *_REGISTERED)


def function_named(name: str) -> HashFunction:
    """The function of a name.  Raises IndexNotReadyError where none has the name."""
    found = _BUILT_IN.get(name) or _REGISTERED.get(name)
    if found is None:
        raise IndexNotReadyError(
            "the hash function of the table's index is not registered",
            hash=name,
            known=", ".join(hash_names()),
            hint="call pyhudi.register_hash(name, function) first",
        )
    return found


def fingerprint(name: str) -> str:
    """A digest of the function's results for some texts, which is recorded with an index."""
    values = _probed(name, function_named(name))
    return sha256(values.astype("<u8").tobytes()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class KeyHash:
    """The assignment of keys to `count` buckets; picklable together with its function.

    turn: the number of the group of buckets within its index.
    """

    count: int
    name: str = JAVA
    turn: int = 0
    function: HashFunction = _java

    @classmethod
    def named(cls, name: str, count: int, turn: int = 0) -> KeyHash:
        """The hash of a name.  Raises IndexNotReadyError where no function has the name."""
        return cls(count, name, turn, function_named(name))

    @property
    def is_plain(self) -> bool:
        """Whether keys are assigned as in the record index of Apache Hudi."""
        return self.name == JAVA and not self.turn

    @property
    def facts(self) -> str:
        """A text that is equal for hashes that assign every key to the same bucket."""
        text = str(self.count)
        return text if self.is_plain else f"{text} {self.name} {self.turn}"

    def buckets(self, keys: Any) -> npt.NDArray[np.int32]:
        """The bucket of each key; keys: strings without nulls, an array or a chunked array.

        Raises UserError where a registered function returns invalid results.
        """
        if self.is_plain:
            return bucket_of(keys, self.count)
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        if self.name == MURMUR3:
            values = np.asarray(murmur3_32(keys, self.turn)).view(np.uint32).astype(np.uint64)
        else:
            values = _checked(self.name, self.function, keys)
            if self.turn:
                values = _mixed(values + np.uint64(self.turn * _TURN % (1 << 64)))
        return (values % np.uint64(self.count)).astype(np.int32)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of splitmix64: every bit of the result depends on every bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _probed(name: str, function: HashFunction) -> npt.NDArray[np.uint64]:
    return _checked(name, function, pa.array(_PROBES))


def _checked(name: str, function: HashFunction, keys: pa.Array) -> npt.NDArray[np.uint64]:
    given = function(keys)
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if isinstance(given, pa.Array):
        if given.null_count:
            raise UserError("the hash function returned a null", name=name)
        given = given.to_numpy(zero_copy_only=False)
    if not isinstance(given, np.ndarray):
        raise UserError(
            "the hash function must return an array",
            name=name,
            type=type(given).__name__,
            hint="it is called with a pyarrow column of strings, not with one key",
        )
    if given.dtype.kind not in "iu" or given.dtype.itemsize not in (4, 8):
        raise UserError(
            "the hash function must return integers of 32 or 64 bits",
            name=name,
            type=str(given.dtype),
        )
    if given.shape != (len(keys),):
        raise UserError(
            "the hash function must return one number per key",
            name=name,
            keys=len(keys),
            shape=given.shape,
        )
    if given.dtype.itemsize == 4:
        return given.view(np.uint32).astype(np.uint64)
    return given.astype(np.int64).view(np.uint64) if given.dtype.kind == "i" else given
