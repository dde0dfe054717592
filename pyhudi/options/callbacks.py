"""Settings of commit callbacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.errors import OptionError
from pyhudi.options.value_types import Value


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
                "a commit callback needs a URL", option="hoodie.write.commit.callback.on",
                value="true", hint="set hoodie.write.commit.callback.http.url",
            )  # fmt: skip


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
