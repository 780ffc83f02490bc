"""The cookie of a session: `__Host-`, so that no other host and no plain HTTP can set or read it (RFC 6265bis).

Its name has the beginning of the installation's id: cookies do not know ports, and two installations on one machine
would sign each other's visitors out. A sign-in by a provider has a cookie of its own, for minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

_ID_CHARACTERS: Final = 8
COOKIE_CHARACTERS_MAX: Final = 200
_SIGN_IN: Final = "-sign-in"


class Cookies:
    """Reads, sets and drops it."""

    def __init__(self, installation: Callable[[], str]) -> None:
        """`installation` tells the id of the installation, once its store is open."""
        self._installation = installation

    @property
    def name(self) -> str:
        """The name of the cookie."""
        return f"__Host-tickwise-{self._installation()[:_ID_CHARACTERS]}"

    def read(self, request: Request) -> str | None:
        """The cookie of a request."""
        found = request.cookies.get(self.name)
        return found if found and len(found) <= COOKIE_CHARACTERS_MAX else None

    def read_secret(self, request: Request) -> str | None:
        """The secret of a sign-in by a provider that this browser began."""
        found = request.cookies.get(f"{self.name}{_SIGN_IN}")
        return found if found and len(found) <= COOKIE_CHARACTERS_MAX else None

    def keep_secret(self, response: Response, secret: str, seconds: float) -> None:
        """Hand the secret of a sign-in to the browser. Lax: it comes back with the browser from the provider."""
        response.set_cookie(
            f"{self.name}{_SIGN_IN}", secret, max_age=int(seconds), path="/", secure=True, httponly=True, samesite="lax"
        )

    def keep(self, response: Response, cookie: str, seconds: float) -> None:
        """Hand a cookie to the browser."""
        response.set_cookie(
            self.name, cookie, max_age=int(seconds), path="/", secure=True, httponly=True, samesite="lax"
        )

    def drop(self, response: Response) -> None:
        """Have the browser forget it."""
        response.delete_cookie(self.name, path="/", secure=True, httponly=True, samesite="lax")
