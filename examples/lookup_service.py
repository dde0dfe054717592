"""A web service that tells where a record is: GET /locations/KEY, nothing but the standard library.

    python examples/lookup_service.py TABLE [PORT]

One process, one core.  A watcher looks for commits and opens what is new, so that requests for
known keys do not wait for it; they see the table of at most a fifth of a second ago.  A key that is
not found is looked up again in the newest commit, so that every key committed before its request is
found.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from urllib.parse import unquote

import pyhudi

BEHIND_SECONDS = 0.2


async def answer(index: pyhudi.OpenIndex, path: str) -> tuple[int, dict[str, object]]:
    """Status and body of a request."""
    place, _, key = path.lstrip("/").partition("/")
    if place != "locations" or not key:
        return 404, {"error": "ask /locations/KEY"}
    found = index.get(unquote(key))
    if found is None:  # it may have been committed since the watcher looked
        with suppress(pyhudi.PyhudiError):
            await asyncio.to_thread(index.warm)
        found = index.get(unquote(key))
    if found is None:
        return 404, {"key": unquote(key), "found": False}
    return 200, {
        "key": unquote(key), "found": True, "partition": found.partition,
        "file_id": found.file_id, "instant": found.instant,
    }  # fmt: skip


async def follow(index: pyhudi.OpenIndex) -> None:
    """Look for new commits, beside the requests."""
    while True:
        await asyncio.sleep(BEHIND_SECONDS)
        with suppress(pyhudi.PyhudiError):  # the next look may find the table well again
            await asyncio.to_thread(index.warm)


async def serve(path: str, port: int) -> None:
    sys.setswitchinterval(0.0005)  # the watcher gives way to a request at once, not after 5 ms
    index = pyhudi.open_index(path, max_age_seconds=float("inf"))

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                status, body = await answer(index, head.split(" ", 2)[1])
                content = json.dumps(body).encode()
                start = f"HTTP/1.1 {status} .\r\nContent-Length: {len(content)}\r\n"
                writer.write(start.encode() + b"Content-Type: application/json\r\n\r\n" + content)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port)
    watcher = asyncio.create_task(follow(index))
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()
    watcher.cancel()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
