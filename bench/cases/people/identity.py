"""AUTH: the cost of knowing a caller, in microseconds of one core. No server and no roles.

The value is the check of an access token that this process has not seen: signature, claims, times. What the store says
of its session comes on top, once in four seconds for each token. Beside it: a token that is remembered, a key that is
remembered with the principal of a namespace, and the check of a permission, as it stands before each method of control.
The limit is the signature alone, checked by the same library in the same run.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter_ns
from typing import Any, Final, TypeVar
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.harness import Case, Check, Failed, Rig, Round
from tickwise.adapters.clock import SystemClock
from tickwise.api.auth import Authenticator
from tickwise.control.access import requires
from tickwise.control.people.tokens import AccessTokens, SigningKey, key_id_of
from tickwise.domain.callers import Caller, Grant
from tickwise.domain.errors import Unauthenticated
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.selectors import Labels
from tickwise.ports.identity import FoundKey

T = TypeVar("T")

TOKENS: Final = 2_000
CALLS: Final = 500
"""Of what takes less than the clock's own microsecond, so many together."""
BATCHES: Final = 100
TEAM: Final = "team-a"
SUBJECT: Final = UUID(int=7)


class Signer:
    """An installation with one key."""

    def __init__(self) -> None:
        self.private = Ed25519PrivateKey.generate()
        self.public = self.private.public_key()
        key_id = key_id_of(self.public)
        self.tokens = AccessTokens(lambda: "tickwise:bench", SystemClock())
        self.tokens.use({key_id: self.public}, SigningKey(key_id, self.private))

    def made(self, count: int) -> list[str]:
        """So many tokens, each its own."""
        return [
            self.tokens.make(SUBJECT, UUID(int=number), 1, kind="user", scope=None, namespace=None)
            for number in range(count)
        ]

    def check(self, token: str) -> None:
        """As `TokenBearers.find` checks one."""
        if not self.tokens.knows(token) or self.tokens.read(token).sub != SUBJECT:
            raise Failed("a good token is refused")


class Guarded:
    """A service with a method that does nothing."""

    @requires(Permission.JOBS_WRITE, by_labels=True)
    def change(self, who: Principal) -> Principal:
        """Guarded as those of control are."""
        return who


def each_us(work: Callable[[T], object], things: Sequence[T]) -> float:
    """Median microseconds of one call for each thing."""
    taken = []
    for thing in things:
        begun = perf_counter_ns()
        work(thing)
        taken.append((perf_counter_ns() - begun) / 1e3)
    return round(median(taken), 2)


def quick_us(work: Callable[[], object]) -> float:
    """Median microseconds of a call, of many batches."""
    taken = []
    for _ in range(BATCHES):
        begun = perf_counter_ns()
        for _ in range(CALLS):
            work()
        taken.append((perf_counter_ns() - begun) / 1e3 / CALLS)
    return round(median(taken), 3)


def caller(labels: Labels = ()) -> Caller:
    """A caller with the permissions of a developer in a few namespaces."""
    permissions = frozenset({Permission.JOBS_READ, Permission.JOBS_WRITE, Permission.RUNS_READ})
    return Caller(
        name="ci", home=TEAM, grants=tuple(Grant(place, permissions, labels) for place in (TEAM, "team-b", "team-c"))
    )


async def product(_: Rig) -> Round:
    """All of it, on one core."""
    signer = Signer()
    tokens = signer.made(TOKENS)
    if any(_is_taken(signer, token[:-4] + "AAAA") for token in tokens[:20]):
        raise Failed("a token with another signature is taken")
    cold = each_us(signer.check, tokens)
    found = caller()

    async def find(_: Any) -> FoundKey:
        return FoundKey(found, None)

    authenticator = Authenticator(find, SystemClock(), bearer=find)
    token, key = f"Bearer {tokens[0]}".encode(), b"Bearer twk_live_" + b"k" * 50
    for header in (token, key):
        if await authenticator.caller(header) is not found:
            raise Failed("a good credential is refused")
    warm = await _warm_us(authenticator, key)
    service, whole, bound = Guarded(), found.principal(TEAM), caller((("team", "a"),)).principal(TEAM)
    return Round(
        cold,
        {
            "token_remembered_us": quick_us(lambda: authenticator.remembered(token)),
            "key_warm_us": warm,
            "permission_us": quick_us(lambda: service.change(whole)),
            "permission_by_labels_us": quick_us(lambda: service.change(bound)),
        },
    )


async def _warm_us(authenticator: Authenticator, key: bytes) -> float:
    """A key that is remembered, and the principal that it is in a namespace."""
    taken = []
    for _ in range(BATCHES):
        begun = perf_counter_ns()
        for _ in range(CALLS):
            (await authenticator.caller(key)).principal("team-b")
        taken.append((perf_counter_ns() - begun) / 1e3 / CALLS)
        await asyncio.sleep(0)
    return round(median(taken), 3)


def _is_taken(signer: Signer, token: str) -> bool:
    try:
        signer.check(token)
    except Unauthenticated:
        return False
    return True


async def signature(_: Rig) -> Round:
    """The signatures of as many tokens, by the library alone."""
    signer = Signer()
    parts = [token.rpartition(".") for token in signer.made(TOKENS)]
    raw = [(urlsafe_b64decode(f"{signed}=="), said.encode()) for said, _, signed in parts]
    return Round(each_us(lambda each: signer.public.verify(*each), raw))


CASE = Case(
    "AUTH",
    "us, a token not seen before",
    150.0,
    False,
    product,
    signature,
    "Ed25519 verify of the library",
    checks=(
        Check("us, a token that is remembered", "token_remembered_us", 5.0),
        Check("us, a key that is remembered, in a namespace", "key_warm_us", 20.0),
        Check("us, a permission", "permission_us", 2.0),
    ),
)
