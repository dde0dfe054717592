"""The AWS Glue Data Catalog by moto, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moto import mock_aws
from moto.backends import get_backend


@contextmanager
def empty_glue() -> Iterator[None]:
    """Clients of boto3 see a catalog without databases.

    Other data of moto stays: an S3 server of this process has its buckets there.
    """
    for backends in get_backend("glue").values():
        for backend in backends.values():
            backend.reset()
    aws = mock_aws()
    aws.start(reset=False)
    try:
        yield
    finally:
        aws.stop(remove_data=False)
