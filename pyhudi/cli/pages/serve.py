"""`pyhudi serve`: a Flight SQL server."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import pyhudi
from pyhudi.cli.command import Call, command, stopping
from pyhudi.cli.output import json_text
from pyhudi.cli.values import COUNT, seconds, setting
from pyhudi.errors import UserError
from pyhudi.storage.url_resolver import takes_options

_WRITER = "writer"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@command("serve", example="serve trips --tokens tokens.txt --port 32010", prints_rows=True)
@click.option(
    "--table",
    "others",
    multiple=True,
    type=setting,
    metavar="NAME=PATH",
    help="A further table; may be repeated.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address; one of another network needs TLS.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Default: a free port.")
@click.option(
    "--tokens",
    "token_file",
    type=_FILE,
    help="A file with one token per line, of at least 16 characters; without it, a new "
    "token is printed.",
)
@click.option("--certificate", type=_FILE, help="The certificate chain for TLS, as PEM.")
@click.option("--private-key", type=_FILE, help="The private key of the certificate, as PEM.")
@click.option(
    "--max-seconds",
    type=seconds,
    default="60",
    show_default=True,
    help="The longest time of a query.",
)
@click.option(
    "--max-rows",
    type=COUNT,
    default=10_000_000,
    show_default=True,
    help="The largest result of a query.",
)
@click.option(
    "--max-memory",
    default="1GB",
    show_default=True,
    metavar="SIZE",
    help="The memory of a query; a quarter and 256 MiB more are for rows read.",
)
@click.option(
    "--writable",
    multiple=True,
    metavar="NAME",
    help="A served table that writers may write to; may be repeated.",
)
@click.option(
    "--writers",
    "writer_file",
    type=_FILE,
    help="A file with the name and the token of one writer per line; without it, a new token is "
    "printed for the writer `writer`.",
)
@click.option(
    "--audit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that gets a line of JSON for each statement that writes. [default: the standard "
    "error]",
)
@click.option(
    "--max-write-seconds",
    type=seconds,
    default="300",
    show_default=True,
    help="The longest time of a write.",
)
@click.option(
    "--max-write-rows",
    type=COUNT,
    default=10_000_000,
    show_default=True,
    help="The most rows that a statement writes.",
)
@click.option("--stop-after", type=seconds, metavar="SECONDS", help="Default: runs until stopped.")
def serve(
    call: Call,
    others: tuple[tuple[str, str], ...],
    host: str,
    port: int | None,
    token_file: Path | None,
    certificate: Path | None,
    private_key: Path | None,
    max_seconds: float,
    max_rows: int,
    max_memory: str,
    writable: tuple[str, ...],
    writer_file: Path | None,
    audit: Path | None,
    max_write_seconds: float,
    max_write_rows: int,
    stop_after: float | None,
) -> Any:
    """Serve tables by Flight SQL: SQL and look-ups by key, for ADBC, JDBC and ODBC.

    Each request needs a token. Queries are single SELECT statements of DuckDB, and see the newest
    snapshots; `pyhudi_lookup('name', ['key'])` uses the table's index. With --writable, clients
    that have the token of a writer also run INSERT, UPDATE, DELETE and MERGE, as `pyhudi sql` does.
    """
    from pyhudi.server.queries import QueryLimits
    from pyhudi.server.sql_server import SqlServer
    from pyhudi.server.writes import WriteLimits

    tables = _tables(call, others)
    tokens = [secrets.token_urlsafe()] if token_file is None else token_file.read_text().split()
    limits = QueryLimits(seconds=max_seconds, result_rows=max_rows, memory=max_memory)
    write_limits = WriteLimits(seconds=max_write_seconds, rows=max_write_rows, memory=max_memory)
    writers = _writers(writable, writer_file, audit, write_limits)
    server = SqlServer(
        tables,
        tokens=tokens,
        host=host,
        port=port or 0,
        tls=_tls(certificate, private_key),
        limits=limits,
        writers=writers,
    )
    call.engine.pause()
    token = tokens[0] if token_file is None else None
    facts = {"url": server.url, "tables": sorted(tables), "token": token}
    if writers is not None:
        facts["writable"] = sorted(writers.tables)
        facts["write_token"] = None if writer_file else writers.tokens[_WRITER]
    shown = "\n".join(f"{name}: {value}" for name, value in facts.items() if value)
    click.echo(json_text(facts) if call.as_json else shown)
    try:
        with stopping() as stop:
            if stop.wait(stop_after):
                click.echo("stopped", err=True)
    finally:
        server.shutdown()


def _writers(tables: tuple[str, ...], tokens: Path | None, audit: Path | None, limits: Any) -> Any:
    from pyhudi.server.writers import Writers

    if not tables:
        if tokens is not None or audit is not None:
            raise UserError("no table is writable", hint="name one by --writable, or no writers")
        return None
    known = {_WRITER: secrets.token_urlsafe()}
    if tokens is not None:
        lines = [line.split() for line in tokens.read_text().splitlines() if line.strip()]
        known = {line[0]: line[-1] for line in lines}
        if len(known) < len(lines) or any(len(line) != 2 for line in lines):
            raise UserError(
                "the file of writers needs a name and a token on each line, each name once",
                path=str(tokens),
            )
    return Writers(tables, known, limits, _audit(audit))


def _audit(path: Path | None) -> Callable[[str], None]:
    """Writes a line of the audit; each opens the file, so that it can be rotated."""
    if path is None:
        return lambda line: click.echo(line, err=True)

    def write(line: str) -> None:
        with path.open("a", encoding="ascii") as file:
            file.write(f"{line}\n")

    try:
        path.open("a").close()
    except OSError as refused:
        raise UserError(
            "the file of the audit cannot be written", path=str(path), reason=refused.strerror
        ) from refused
    return write


def _tables(call: Call, others: tuple[tuple[str, str], ...]) -> dict[str, pyhudi.Table]:
    found = {call.table.config.name: call.table}
    for name, path in others:
        if name.lower() in {known.lower() for known in found}:
            raise UserError("two tables have the same name", name=name)
        options = call.storage if takes_options(path) else None
        found[name] = pyhudi.open_table(path, storage_options=options)
    return found


def _tls(certificate: Path | None, key: Path | None) -> Any:
    from pyhudi.server.sql_server import Tls

    if (certificate is None) != (key is None):
        raise UserError("TLS needs a certificate and its private key")
    if certificate is None or key is None:
        return None
    return Tls(certificate.read_bytes(), key.read_bytes())
