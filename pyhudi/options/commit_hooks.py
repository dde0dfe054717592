"""Settings of what surrounds a commit: checks before it, and the callback after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.errors import OptionError
from pyhudi.options.value_types import Value

_PREFIX: Final = "hoodie.precommit.validators."
_CHECKS: Final = {
    "SqlQueryEqualityPreCommitValidator": "equality",
    "SqlQueryInequalityPreCommitValidator": "inequality",
    "SqlQuerySingleResultPreCommitValidator": "single.value",
}
"""Validators of Apache Hudi, and the option of the queries of each."""


@dataclass(frozen=True, slots=True)
class CommitChecks:
    """Queries whose results stop a commit; `hoodie.precommit.validators.*`.

    validators: which of the three apply, as in `_CHECKS`.  equality, inequality: queries whose
    results before and after the write must, or must not, be equal.  single_value: `query#result`
    after the write.  warns: a failed check is a note of the report.
    """

    validators: tuple[str, ...] = ()
    equality: tuple[str, ...] = ()
    inequality: tuple[str, ...] = ()
    single_value: tuple[str, ...] = ()
    warns: bool = False

    def __post_init__(self) -> None:
        for name in self.validators:
            if not getattr(self, name.replace(".", "_")):
                raise OptionError(
                    "a check before the commit has no queries",
                    option=f"{_PREFIX}{name}.sql.queries",
                )


def _validators(text: str) -> tuple[str, ...]:
    """Raises ValueError for an unknown class."""
    names = [name.strip().rpartition(".")[2] for name in text.split(",") if name.strip()]
    if not set(names) <= _CHECKS.keys():
        raise ValueError(text)
    return tuple(_CHECKS[name] for name in names)


def _queries(text: str) -> tuple[str, ...]:
    return tuple(query.strip() for query in text.split(";") if query.strip())


def _valued(text: str) -> tuple[str, ...]:
    """Raises ValueError for a query without a result."""
    found = _queries(text)
    if any(query.count("#") != 1 for query in found):
        raise ValueError(text)
    return found


VALIDATORS: Final = Value("classes among " + ", ".join(_CHECKS), _validators)
QUERIES: Final = Value("queries, separated by semicolons; `<TABLE_NAME>` is the table", _queries)
VALUED_QUERIES: Final = Value("pairs query#result, separated by semicolons", _valued)


@dataclass(frozen=True, slots=True)
class CallbackOptions:
    """The HTTP request after each commit; `hoodie.write.commit.callback.*`."""

    enabled: bool = False
    kind: str = "http"
    url: str | None = None
    api_key: str = "hudi_write_commit_http_callback"
    timeout_seconds: float = 30.0
    headers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.enabled and self.url is None:
            raise OptionError(
                "a commit callback needs a URL",
                option="hoodie.write.commit.callback.on",
                value="true",
                hint="set hoodie.write.commit.callback.http.url",
            )


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or any(c.isspace() for c in text):
        raise ValueError(text)
    return text


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    """`Name:value;Name:value`.  Raises ValueError."""
    pairs = [part.partition(":") for part in text.split(";") if part.strip()]
    found = tuple((name.strip(), value.strip()) for name, _, value in pairs)
    if any(not n or not v or "\n" in n + v or "\r" in n + v for n, v in found):
        raise ValueError(text)
    return found


URL: Final = Value("a URL that begins with http:// or https://", _url)
HEADERS: Final = Value("pairs Name:value, separated by semicolons", _headers)
