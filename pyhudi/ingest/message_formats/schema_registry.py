"""Schemas of a registry with the interface of Confluent's, by their numbers."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field

from pyhudi.errors import CorruptFileError, StorageError, UnsupportedTableError

_SECONDS = 30.0


@dataclass
class SchemaRegistry:
    """url: such as `http://127.0.0.1:8081`.  Answers are stored: a number never changes."""

    url: str
    _schemas: dict[int, str] = field(default_factory=dict, init=False)

    def schema(self, number: int) -> str:
        """The Avro schema with this number.

        Raises StorageError with `retryable` if the registry does not answer, CorruptFileError for a
        number that it does not have, UnsupportedTableError for a schema of another kind or with
        references.
        """
        if number not in self._schemas:
            self._schemas[number] = self._requested(number)
        return self._schemas[number]

    def _requested(self, number: int) -> str:
        address = f"{self.url.rstrip('/')}/schemas/ids/{number}"
        try:
            with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
                found = json.load(answer)
                text = str(found["schema"])
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise CorruptFileError(
                    "the schema registry has no such schema", url=self.url, schema=number
                ) from None
            raise self._failed(error) from error
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            raise self._failed(error) from error
        if found.get("schemaType", "AVRO") != "AVRO" or found.get("references"):
            raise UnsupportedTableError(
                "only Avro schemas without references can be read", url=self.url, schema=number
            )
        return text

    def _failed(self, error: Exception) -> StorageError:
        return StorageError(
            "the schema registry does not answer", url=self.url, reason=str(error),
            retryable=True, hint="check its address, and whether it runs",
        )  # fmt: skip
