"""Schemas of a registry with the interface of Confluent's, by their numbers."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pyhudi.errors import CorruptFileError, StorageError

_SECONDS = 30.0
_ANSWER_BYTES_MAX: Final = 16 << 20
_REFERENCES_MAX: Final = 1_000


class SchemaKind(StrEnum):
    """As the registry names the kinds of schemas."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """references: texts of the schemas that this one and they refer to, by the names that the
    texts use; those of the innermost first."""

    text: str
    references: Mapping[str, str]


@dataclass
class SchemaRegistry:
    """url: such as `http://127.0.0.1:8081`.  Answers are stored: a number never changes."""

    url: str
    _schemas: dict[int, RegisteredSchema] = field(default_factory=dict, init=False)

    def schema(self, number: int, kind: SchemaKind) -> RegisteredSchema:
        """The schema with this number, with all that it refers to.

        Raises StorageError with `retryable` if the registry does not answer, CorruptFileError for a
        number that it does not have and for a schema that messages of this kind cannot have.
        """
        if number not in self._schemas:
            self._schemas[number] = self._requested(number, kind)
        return self._schemas[number]

    def _requested(self, number: int, kind: SchemaKind) -> RegisteredSchema:
        found = self._answer(f"/schemas/ids/{number}")
        if found.get("schemaType", SchemaKind.AVRO) != kind:
            raise CorruptFileError(
                "the schema is of another kind than the messages",
                url=self.url,
                schema=number,
                kind=found.get("schemaType", SchemaKind.AVRO),
                expected=kind,
            )
        if found.get("references") and kind is SchemaKind.AVRO:
            raise CorruptFileError(
                "Avro schemas with references cannot be read", url=self.url, schema=number
            )
        references: dict[str, str] = {}
        self._add_references(found, references, frozenset())
        return RegisteredSchema(_text(found), references)

    def _add_references(
        self, schema: Mapping[str, Any], found: dict[str, str], outer: frozenset[str]
    ) -> None:
        """outer: names that are being read, which an inner schema may not refer to."""
        for entry in schema.get("references") or ():
            name, subject, version = (str(entry[key]) for key in ("name", "subject", "version"))
            if name in found:
                continue
            if name in outer or len(found) + len(outer) >= _REFERENCES_MAX:
                raise CorruptFileError(
                    "the references of a schema do not end", url=self.url, reference=name
                )
            path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{int(version)}"
            inner = self._answer(path)
            self._add_references(inner, found, outer | {name})
            found[name] = _text(inner)

    def _answer(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self.url.rstrip("/") + path, timeout=_SECONDS) as answer:
                found = json.loads(answer.read(_ANSWER_BYTES_MAX))
                _text(found)
                return dict(found)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise CorruptFileError(
                    "the schema registry has no such schema", url=self.url, request=path
                ) from None
            raise self._failed(error) from error
        except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StorageError:
        return StorageError(
            "the schema registry does not answer",
            url=self.url,
            reason=str(error),
            retryable=True,
            hint="check its address, and whether it runs",
        )


def _text(schema: Mapping[str, Any]) -> str:
    return str(schema["schema"])
