"""Requests with a body of JSON, to servers of catalogs and lineage."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from pyhudi.errors import CatalogError

_TIMEOUT_SECONDS: Final = 30
_REASON: Final = 500
"""Characters of a server's answer that are part of an error."""


def post_json(
    url: str,
    body: Mapping[str, Any],
    *,
    token: str | None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send one object.  token: a bearer token.

    Raises CatalogError unless the server accepts it.
    """
    sent = {"Content-Type": "application/json", **(headers or {})}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    try:
        request = urllib.request.Request(url, json.dumps(body).encode(), sent, method="POST")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            answer.read(1 << 16)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(_REASON).decode(errors="replace").strip()
        reason = f"{error.code} {error.reason} {text}".strip()
        raise CatalogError("the server rejected the request", url=url, reason=reason) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise CatalogError("the server failed", url=url, reason=str(error)) from error
