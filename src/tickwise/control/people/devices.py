"""Sign-in of a terminal through a browser (RFC 8628): the terminal shows a code, and a person approves it where they
are signed in.

    terminal ──begin──► device code (its own), user code (shown) ──► the person: find, compare, decide
        └─ polls with the device code (`auth`) ──► pending … ──► tokens of the person

Any way of signing in to the pages serves: a password, a provider, with a second factor where one is needed.

Guesses: a user code has 20 ** 8 values, works for ten minutes, and a person who types wrong ones waits longer and
longer. The device code has 256 random bits. A link that carries the code fills a field in; a person confirms it.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import requires_none
from tickwise.control.context import ControlContext
from tickwise.control.keys.forms import SecretKind, new_secret
from tickwise.control.keys.secrets import secret_digest
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.scopes import namespace_of, scope_of
from tickwise.domain.audit import AuditAction, AuditEntry, Source, document
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Busy, Conflict, Forbidden, NotFound
from tickwise.domain.model import Origin, Principal, time_id
from tickwise.ports.identity.device_sign_ins import (
    BegunDeviceSignIn,
    DeviceSignIn,
    DeviceSignInStore,
    NewDeviceSignIn,
)
from tickwise.ports.identity.users import UserStore

ALPHABET: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of codes: no vowel, so no word, and none that looks like a digit (RFC 8628, section 6.1)."""
CODE_LETTERS: Final = 8
CODE_SECONDS: Final = 600.0
"""Time to find the browser, to sign in there, and to compare."""
INTERVAL_SECONDS: Final = 5.0
_TRIES: Final = 5
"""Codes that are drawn until one is free: with 10,000 requests at once, one in 2.5 million is taken."""
_RANDOM_BYTES: Final = 16

logger = structlog.get_logger("tickwise.people")


class DeviceBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A terminal that asks to be signed in."""

    client: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            description="The name of the program and its machine. The person sees it before they approve.",
        ),
    ]
    client_id: Annotated[str, Meta(max_length=200, description="Taken and not looked at.")] | UnsetType = UNSET
    scope: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1_024,
                description="Permissions that the tokens are bounded by, spaces between.",
            ),
        ]
        | UnsetType
    ) = UNSET
    namespace: (
        Annotated[str, Meta(min_length=1, max_length=63, description="The only namespace in which the tokens work.")]
        | UnsetType
    ) = UNSET


class BegunDevice(NamedTuple):
    """The codes of a request."""

    device_code: str
    """The secret of the terminal."""
    user_code: str
    """The code that both show, with a hyphen in its middle."""
    seconds: float
    interval_seconds: float


class DeviceService:
    """Requests of terminals, and their approval. `auth` gives the tokens out."""

    def __init__(self, context: ControlContext, *, users: UserStore, pace: SignInPace) -> None:
        self._context = context
        self._users = users
        self._pace = pace

    @property
    def _store(self) -> DeviceSignInStore:
        return self._context.store.device_sign_ins

    @requires_none("it is the way in: a person approves it later")
    async def begin(self, body: DeviceBody, origin: Origin) -> BegunDevice:
        """Keep a request. Raises `Invalid`, `SignInPaced`, `Busy`."""
        scope, namespace = scope_of(body.scope), namespace_of(body.namespace)
        await self._pace.begin("", origin.address)
        clock = self._context.clock
        device_code = new_secret(clock, SecretKind.DEVICE)
        for _ in range(_TRIES):
            request = NewDeviceSignIn(
                device_id=time_id(int(clock.now() * 1000), clock.random_bytes(10)),
                digest=secret_digest(device_code.encode()),
                user_code=_drawn(clock.random_bytes(_RANDOM_BYTES)),
                client=_printable(body.client),
                address=origin.address,
                scope=scope,
                namespace=namespace,
                seconds=CODE_SECONDS,
                interval_seconds=INTERVAL_SECONDS,
            )
            begun = await self._context.surely(partial(self._store.begin, request))
            if begun is BegunDeviceSignIn.FULL:
                break
            if begun is BegunDeviceSignIn.BEGUN:
                return BegunDevice(device_code, shown_code(request.user_code), CODE_SECONDS, INTERVAL_SECONDS)
        raise Busy("too many sign-ins of terminals wait to be approved; try again in a few minutes")

    @requires_none("it tells a person what they are asked to approve in their own name; guesses are paced")
    async def find(self, who: Principal, code: str) -> DeviceSignIn:
        """The request of a code that waits. Raises `Forbidden` for a key, `NotFound`, `SignInPaced`."""
        user_id = _person(who)
        account = f"@device {user_id}"
        # By person, not by network: another network gives no further guesses.
        await self._pace.begin(account, account)
        typed = typed_code(code)
        found = None if typed is None else await self._store.find(typed)
        if found is None:
            await self._pace.failed(account, account)
            raise NotFound(
                "no terminal waits with this code: it was typed wrong, was decided already, or is older than ten "
                "minutes; "
                "compare it with the terminal, or start there again: tickwise login --sso"
            )
        self._pace.succeeded(account, account)
        return found

    @requires_none("a person gives a terminal at most what they may do themselves")
    async def decide(self, who: Principal, code: str, *, approved: bool) -> DeviceSignIn:
        """Approve or deny the request of a code in one's own name. Raises as `find`, and `Conflict` for one that was
        decided meanwhile."""
        user_id, found = _person(who), await self.find(who, code)
        row = await self._users.get(user_id)
        if row is None or not row.active:
            raise Forbidden("this account signs nobody in any more")
        action = AuditAction.DEVICE_APPROVED if approved else AuditAction.DEVICE_DENIED
        detail = {
            "client": found.client,
            "asked_from": found.address,
            "scope": None if found.scope is None else " ".join(sorted(found.scope)),
            "namespace": found.namespace,
        }
        audit = AuditEntry(
            INSTALLATION, action, Source.of(who), "user", target=str(user_id), detail=document(detail)
        )  # fmt: skip
        decided = await self._context.surely(
            lambda: self._store.decide(
                found.device_id, user_id=user_id, generation=row.generation, approved=approved, audit=audit
            )
        )
        if not decided:
            raise Conflict("this request was decided meanwhile, or has expired; start again at the terminal")
        logger.info("device_decided", user_id=str(user_id), approved=approved, asked_from=found.address)
        return found


def shown_code(code: str) -> str:
    """A code as it is read: with a hyphen in its middle."""
    return f"{code[: CODE_LETTERS // 2]}-{code[CODE_LETTERS // 2 :]}"


def typed_code(text: str) -> str | None:
    """The code that a person typed, in any case, with or without blanks and hyphens; None: it is none."""
    code = "".join(each for each in text[:50].upper() if each not in " -–—_.\t")
    return code if len(code) == CODE_LETTERS and all(each in ALPHABET for each in code) else None


def _drawn(random: bytes) -> str:
    # Of 128 bits, the part that makes some letters likelier than others is below one in 10 ** 28.
    number, letters = int.from_bytes(random, "big"), []
    for _ in range(CODE_LETTERS):
        number, place = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[place])
    return "".join(letters)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text).strip() or "?"


def _person(who: Principal) -> UUID:
    if who.user_id is None:
        raise Forbidden(
            "only a person approves a terminal: sign in with your name; programs use a key or a federation instead"
        )
    return who.user_id
