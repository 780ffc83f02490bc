"""Links of notices that act: one signed token for one action on one thing, for three days.

    scheduler ──signs──► https://tickwise.example/act/TOKEN ──GET──► a page that says what it would do, with a button
                                                            ──POST─► done: the alert is acknowledged, the run is rerun

The link is the permission: a person who has the message can do this one thing, as a person who has the pager can. It is
signed with the key of access tokens, whose public half each process of the API reads from the store.

Invariants: a token does not say how it is to be checked. One of another purpose is none. A program that only follows
links, such as a scanner of mail, does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tickwise.domain.errors import Unauthenticated
from tickwise.domain.notices.rules import GOOD, Notice, NoticeEvent
from tickwise.ports.clock import Clock
from tickwise.ports.identity import SessionStore

ALGORITHM: Final = "EdDSA"
TYPE: Final = "tickwise-action+jwt"
AUDIENCE: Final = "tickwise/actions"
LINK_SECONDS: Final = 3 * 86_400.0
SKEW_SECONDS: Final = 30.0
TOKEN_BYTES_MAX: Final = 2_048
ACT_PATH: Final = "/act/"
"""Of the page; the token follows."""
_RERUNS: Final = frozenset({NoticeEvent.FAILURE, NoticeEvent.FIRST_FAILURE, NoticeEvent.DEAD_LETTER})
"""Events about a run that has ended badly."""
_SIGNATURES: Final = jwt.PyJWS(algorithms=[ALGORITHM])


class LinkAction(StrEnum):
    """The actions of links. A token that was sent names one: never rename one."""

    ACKNOWLEDGE = "acknowledge"
    """`subject` is an alert."""
    RERUN = "rerun"
    """`subject` is a run."""


class ActionLink(NamedTuple):
    """The content of a token."""

    action: LinkAction
    namespace: str
    subject: UUID
    notice_id: UUID
    """The notice that it was sent in: for the audit log, and to do a thing once."""
    expires_at: float = 0.0

    @property
    def made_at(self) -> float:
        """The time at which its token was made."""
        return self.expires_at - LINK_SECONDS


class LinkClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of a token."""

    iss: str
    aud: str
    act: LinkAction
    ns: str
    sub: UUID
    nid: UUID
    exp: int


_claims: Final = msgspec.json.Decoder(LinkClaims)


class ActionLinkSigner:
    """Makes tokens; of a scheduler."""

    def __init__(self, key_id: str, private: Ed25519PrivateKey, issuer: str, clock: Clock) -> None:
        """`issuer` names the installation."""
        self._key_id = key_id
        self._private = private
        self._issuer = issuer
        self._clock = clock

    def make(self, link: ActionLink) -> str:
        """A token that works from now on, for `LINK_SECONDS`."""
        claims = {
            "iss": self._issuer, "aud": AUDIENCE, "act": link.action.value, "ns": link.namespace,
            "sub": str(link.subject), "nid": str(link.notice_id), "exp": int(self._clock.now() + LINK_SECONDS),
        }  # fmt: skip
        headers = {"kid": self._key_id, "typ": TYPE}
        return jwt.encode(claims, self._private, algorithm=ALGORITHM, headers=headers)


class ActionLinkReader:
    """Reads tokens; of a process that serves the page."""

    def __init__(self, sessions: SessionStore, issuer: Callable[[], str], clock: Clock) -> None:
        """`sessions` has the public keys. `issuer` names the installation, once its store is open."""
        self._sessions = sessions
        self._issuer = issuer
        self._clock = clock

    async def read(self, token: str) -> ActionLink:
        """The content of a token. Raises `Unauthenticated`, `StoreUnavailable`."""
        if len(token) > TOKEN_BYTES_MAX:
            raise _refused("it is too long")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            raise _refused("it cannot be read") from None
        if header.get("alg") != ALGORITHM or header.get("typ") != TYPE or "crit" in header:
            raise _refused("it is of another kind")
        publics = {each.key_id: each.public for each in await self._sessions.public_keys()}
        public = publics.get(str(header.get("kid")))
        if public is None:
            raise _refused("it is signed with a key that is not known here")
        try:
            key = Ed25519PublicKey.from_public_bytes(public)
            claims = _claims.decode(_SIGNATURES.decode(token, key, algorithms=[ALGORITHM]))
        except (jwt.PyJWTError, msgspec.DecodeError, ValueError):
            raise _refused("it is not as this installation made it") from None
        if claims.aud != AUDIENCE or claims.iss != self._issuer():
            raise _refused("it is of another installation")
        if self._clock.now() >= claims.exp + SKEW_SECONDS:
            raise _refused("it has expired; sign in, and do it on the page of the alert")
        return ActionLink(claims.act, claims.ns, claims.sub, claims.nid, float(claims.exp))


def action_links(notice: Notice, public_url: str, sign: Callable[[ActionLink], str]) -> Mapping[str, str]:
    """The addresses that act of a notice, by their label: to acknowledge its alert, and to rerun its run, if it is
    about one alone."""
    if notice.is_test or not notice.lines:
        return {}
    found = {}
    alerts = {line.alert_id for line in notice.lines if line.event not in GOOD}
    if len(alerts) == 1 and (alert_id := next(iter(alerts))) is not None:
        found["Acknowledge"] = ActionLink(LinkAction.ACKNOWLEDGE, notice.namespace, alert_id, notice.notice_id)
    last = notice.lines[-1]
    if len({line.subject for line in notice.lines}) == 1 and last.event in _RERUNS and last.run_id is not None:
        found["Rerun"] = ActionLink(LinkAction.RERUN, notice.namespace, last.run_id, notice.notice_id)
    return {label: f"{public_url}{ACT_PATH}{sign(link)}" for label, link in found.items()}


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"this link does not work: {why}")
