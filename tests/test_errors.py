"""The tree of errors: one root, messages with facts, and a way over process borders."""

from __future__ import annotations

import pickle

import pytest

from pyhudi import errors
from pyhudi.errors import FileMissingError, PyhudiError, StorageError, TableNotFoundError, UserError

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PyhudiError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_errors_cross_process_borders_whole(kind: type[PyhudiError]) -> None:
    error = kind("something is wrong", hint="do that", path="p", offset=4, nothing=None)
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is kind and str(twin) == str(error)
    assert str(error) == "something is wrong; path=p, offset=4; do that"
    assert twin.facts == {"path": "p", "offset": 4} and twin.hint == "do that"


def test_retryable_survives_pickling() -> None:
    error = StorageError("slow down", retryable=True, path="x")
    assert pickle.loads(pickle.dumps(error)).retryable
    assert not pickle.loads(pickle.dumps(StorageError("gone"))).retryable


def test_codes_are_stable_and_one_a_kind() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert set(codes) >= {"USER", "CORRUPT_FILE", "STORAGE", "WRITE_CONFLICT", "LOCK"}


def test_errors_are_also_what_a_caller_of_python_expects() -> None:
    assert issubclass(UserError, ValueError)
    assert issubclass(FileMissingError, FileNotFoundError)
    assert issubclass(TableNotFoundError, FileNotFoundError)
    assert issubclass(StorageError, OSError)


def test_a_message_without_facts_or_hint_is_the_sentence() -> None:
    assert str(PyhudiError("it is so")) == "it is so"
    assert str(PyhudiError("it is so", hint="look there")) == "it is so; look there"


def test_a_message_can_be_printed_whatever_the_facts_are() -> None:
    error = PyhudiError("it is so", path="caf\udce9")
    assert str(error).encode() == b"it is so; path=caf\\udce9"
