"""The sign-ins of this user: a session for each server, in a file that only this user can read.

    tickwise login ──► POST /auth/token ──► sign-ins.json: the refresh token, the access token and its end
    any command    ──► the access token, refreshed shortly before its end ──► Authorization

A refresh token works once, and its second use ends the session. So commands that run at the same time refresh one after
the other, under a lock beside the file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickwise.cli import moments
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.sdk.client import Client, ProblemError, ServerTrust

FILE: Final = "sign-ins.json"
EARLY_SECONDS: Final = 30.0
"""An access token is refreshed so long before its end: a request may be on its way for that time."""


class StoredSignIn(NamedTuple):
    """A session at one server."""

    url: str
    name: str
    access_token: str
    refresh_token: str
    expires_at: float
    """Unix seconds of this machine: the end of the access token."""


class SignIns:
    """All sign-ins, the last one first."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
        self.file = Path(base) / "tickwise" / FILE

    def last(self) -> StoredSignIn | None:
        """The newest sign-in."""
        return next(iter(self._read()), None)

    def get(self, url: str) -> StoredSignIn | None:
        """The sign-in at a server."""
        return next((each for each in self._read() if each.url == _plain(url)), None)

    def keep(self, url: str, name: str, tokens: Mapping[str, Any]) -> StoredSignIn:
        """Store the answer of a sign-in at a server, in place of the one before."""
        with self._locked():
            found = _sign_in(url, name, tokens)
            self._write([found, *(each for each in self._read() if each.url != found.url)])
        return found

    def remove(self, url: str) -> StoredSignIn | None:
        """Forget the sign-in at a server; the one that was there."""
        with self._locked():
            found = self.get(url)
            self._write([each for each in self._read() if each.url != _plain(url)])
        return found

    def access_token(self, url: str, trust: ServerTrust | None = None) -> str:
        """A token that is good for a while; `trust` is for the server that makes it.

        Raises `CommandFailure` if the session has ended."""
        found = self.get(url)
        if found is None or found.expires_at - EARLY_SECONDS <= moments.now():
            found = self._refreshed(url, trust)
        return found.access_token

    def _refreshed(self, url: str, trust: ServerTrust | None) -> StoredSignIn:
        with self._locked():
            found = self.get(url)
            if found is None:
                raise _ended(url)
            if found.expires_at - EARLY_SECONDS > moments.now():
                return found  # another command refreshed it
            body = {"grant_type": "refresh_token", "refresh_token": found.refresh_token}
            try:
                with Client(found.url, None, trust=trust) as client:
                    tokens = client.request("POST", "/auth/token", body=body).body
            except ProblemError as refused:
                if refused.status not in {400, 401}:
                    raise
                self._write([each for each in self._read() if each.url != found.url])
                raise _ended(url) from None
            new = _sign_in(found.url, found.name, tokens)
            self._write([new if each.url == new.url else each for each in self._read()])
            return new

    # ------------------------------------------------------------------------------------------ the file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self) -> list[StoredSignIn]:
        try:
            value = json.loads(self.file.read_text(encoding="utf-8"))
            return [StoredSignIn(**each) for each in value]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            raise CommandFailure(
                f"{self.file} cannot be read: {error}", Exit.MISCONFIGURED, advice="Remove it, and sign in again."
            ) from None

    def _write(self, sign_ins: list[StoredSignIn]) -> None:
        """Whole, or not at all."""
        partial = self.file.with_suffix(f".{os.getpid()}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump([each._asdict() for each in sign_ins], stream)
        partial.replace(self.file)


def _plain(url: str) -> str:
    return url.rstrip("/")


def _sign_in(url: str, name: str, tokens: Mapping[str, Any]) -> StoredSignIn:
    return StoredSignIn(
        url=_plain(url),
        name=name,
        access_token=tokens["access_token"],
        refresh_token=tokens["refresh_token"],
        expires_at=moments.now() + tokens["expires_in"],
    )


def _ended(url: str) -> CommandFailure:
    return CommandFailure(
        f"your sign-in at {_plain(url)} has ended.", Exit.REFUSED, advice=f"Sign in again: tickwise login --url {url}"
    )
