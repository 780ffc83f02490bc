"""The person whom a proxy before the pages vouches for, read from its headers.

Anybody can send a header, so it counts only on connections that come from the proxy itself: the address of the
connection decides, never one that another header tells. A header that comes twice says nothing: the proxy would have
replaced it, and the other one is of the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from starlette.requests import Request

from tickwise.control.people.sso.proxy import PROXY_ISSUER, ProxyPerson
from tickwise.domain.errors import Unauthenticated
from tickwise.domain.networks import plain
from tickwise.ports.identity.identities import ProviderSession

CHARACTERS_MAX: Final = 255
"""Of a name, as of the subject of an identity."""
GROUPS_CHARACTERS_MAX: Final = 16_384
GROUPS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHeaders:
    """Reads the headers of proxies at these addresses."""

    networks: Sequence[IPv4Network | IPv6Network] = ()
    """None: no proxy signs people in."""
    name: str = "Remote-User"
    email: str = "Remote-Email"
    groups: str = "Remote-Groups"
    """The groups of the person, with commas between."""

    def is_named(self, request: Request) -> bool:
        """Check whether the header of a person is there, and would count from the right address."""
        return bool(self.networks) and self.name.lower() in request.headers

    def name_of(self, request: Request) -> str:
        """The name of the person; empty: nobody is named whom these pages believe."""
        try:
            person = self.person(request)
        except Unauthenticated:
            return ""
        return "" if person is None else person.name

    def person(self, request: Request) -> ProxyPerson | None:
        """The person; None: no proxy says who it is. Raises `Unauthenticated` for headers that do not count, with the
        reason."""
        if not self.is_named(request):
            return None
        peer = request.client.host if request.client is not None else ""
        if not self._is_proxy(peer):
            raise Unauthenticated(
                f"the header {self.name} signs nobody in from {peer or 'a connection without an address'}: "
                "proxy_sign_in_from does not have that address"
            )
        name = self._only(request, self.name, CHARACTERS_MAX)
        if not name:
            return None
        groups = self._only(request, self.groups, GROUPS_CHARACTERS_MAX).split(",")
        found = tuple(dict.fromkeys(text for group in groups if (text := group.strip())))
        if len(found) > GROUPS_MAX:
            raise Unauthenticated(f"the header {self.groups} has more than {GROUPS_MAX} groups")
        return ProxyPerson(name, self._only(request, self.email, CHARACTERS_MAX) or None, found)

    def vouches(self, request: Request, session: ProviderSession | None) -> bool:
        """Check whether a session is still good: if it came of a proxy, the headers must say the same person, with the
        same e-mail and groups."""
        if session is None or session.identity.issuer != PROXY_ISSUER:
            return True
        try:
            person = self.person(request)
        except Unauthenticated:
            return False
        return person is not None and person.session == session

    def _is_proxy(self, peer: str) -> bool:
        try:
            address = plain(peer)
        except ValueError:
            return False
        return any(address in network for network in self.networks)

    def _only(self, request: Request, header: str, characters_most: int) -> str:
        """The text of a header; empty: it is not there. Raises `Unauthenticated`."""
        values = request.headers.getlist(header)
        if len(values) > 1:
            raise Unauthenticated(f"the header {header} comes {len(values)} times: have the proxy replace it")
        try:
            text = values[0].encode("latin-1").decode("utf-8").strip() if values else ""
        except UnicodeDecodeError:
            raise Unauthenticated(f"the header {header} is no UTF-8") from None
        if len(text) > characters_most or not text.isprintable():
            raise Unauthenticated(f"the header {header} is too long, or has characters that cannot be shown")
        return text
