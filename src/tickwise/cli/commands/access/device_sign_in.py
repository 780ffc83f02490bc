"""The sign-in through a browser, here or on another machine: `tickwise login --sso` (RFC 8628).

    POST /auth/device ──► address and code on the terminal, and the browser ──► POST /auth/token every few seconds ──►
    tokens

Nothing is kept before the tokens are there, so Ctrl-C leaves everything as it was.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any, Final

from tickwise.cli import moments
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.session import Session
from tickwise.sdk.client import Client, ProblemError, Unreachable

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
SLOW_DOWN_SECONDS: Final = 5.0
_ENDS: Final[Mapping[str, str]] = {
    "access_denied": "the sign-in was denied in the browser.",
    "expired_token": "nobody approved the sign-in in time.",
}
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")


def sign_in_by_browser(session: Session, *, opens_browser: bool) -> Mapping[str, Any]:
    """The tokens of the person who approves this terminal. Raises `CommandFailure`."""
    with session.keyless_client() as client:
        try:
            begun = client.request("POST", "/auth/device", body={"client": _own_name()}).body
        except ProblemError as refused:
            if refused.status in {404, 405}:
                raise CommandFailure(
                    f"{session.target.url} signs no terminal in through a browser: it runs an older release.",
                    Exit.REFUSED,
                    advice="Sign in with a name and a password: tickwise login NAME",
                ) from None
            raise
        session.note(f"Open this address in a browser, on any machine: {begun['verification_uri']}")
        session.note(f"Sign in there, and compare the code:             {begun['user_code']}")
        if opens_browser and _has_browser(session.environ):
            import webbrowser

            webbrowser.open(begun["verification_uri_complete"])
        session.note(f"Waiting for your approval, {begun['expires_in'] // 60} minutes at most; Ctrl-C gives up.")
        return _tokens(client, begun)


def _tokens(client: Client, begun: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask until the person has decided."""
    interval, until = float(begun["interval"]), moments.now() + begun["expires_in"] + begun["interval"]
    body = {"grant_type": GRANT, "device_code": begun["device_code"]}
    while moments.now() < until:
        moments.pause(interval)
        try:
            tokens: Mapping[str, Any] = client.request("POST", "/auth/token", body=body).body
        except Unreachable as away:
            # It may restart; the code works on (RFC 8628, section 3.5, asks for longer pauses).
            interval = max(interval, away.retry_after_seconds or 0.0) + SLOW_DOWN_SECONDS
            continue
        except ProblemError as refused:
            code = refused.code
            if code == "authorization_pending":
                continue
            if code == "slow_down":
                interval += SLOW_DOWN_SECONDS
                continue
            if code in _ENDS:
                raise CommandFailure(_ENDS[code], Exit.REFUSED, advice="Start again: tickwise login --sso") from None
            raise
        return tokens
    raise CommandFailure(_ENDS["expired_token"], Exit.REFUSED, advice="Start again: tickwise login --sso")


def _own_name() -> str:
    """The name under which the page shows this terminal."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"tickwise of {user} on {socket.gethostname()}"[:100]


def _has_browser(environ: Mapping[str, str]) -> bool:
    """Check whether a browser of this person can show a page: a text browser would take the terminal."""
    if not sys.stderr.isatty() or environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or os.name == "nt" or any(environ.get(name) for name in _DISPLAYS)
