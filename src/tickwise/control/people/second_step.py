"""The second step of a sign-in, as sign-ins by password see it. It is taken in `control.factors`.

Invariant: a sign-in by password begins no session before `after_password` has said that no step is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from tickwise.control.audit.denials import Denials
from tickwise.control.callers import Callers
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.passwords import Passwords
from tickwise.control.people.session_opening import SessionOpening
from tickwise.domain.errors import SecondFactorMissing, SecondFactorRequired
from tickwise.domain.model import Origin
from tickwise.ports.identity.factors import FactorKind
from tickwise.ports.identity.users import UserRow
from tickwise.ports.limits import RateLimits

RECOVERY: Final = "recovery_code"
PASSWORD: Final = "password"
PASSKEY_ALONE: Final = "passkey_alone"


class SignInParts(NamedTuple):
    """The parts that all ways to sign in share."""

    callers: Callers
    passwords: Passwords
    pace: SignInPace
    opening: SessionOpening
    denials: Denials
    limits: RateLimits | None


class WaitingStep(NamedTuple):
    """A step that waits for a second factor, or for its enrolment."""

    secret: str
    kinds: frozenset[FactorKind]
    """Those that can be shown; empty: one must be enrolled."""
    seconds: float
    has_recovery: bool = False

    @property
    def must_enrol(self) -> bool:
        """True if the person has no second factor, and a role requires one."""
        return not self.kinds

    def refusal(self) -> SecondFactorRequired | SecondFactorMissing:
        """The error for programs that asked with a password alone."""
        if self.must_enrol:
            return SecondFactorMissing(
                "a role of yours requires a second factor, and you have none: sign in to the pages in a browser "
                "(/login), which lead you to enrol one"
            )
        factors = (*sorted(self.kinds), *((RECOVERY,) if self.has_recovery else ()))
        return SecondFactorRequired(
            "the password is right; show a second factor: send grant_type second_factor with this challenge and a code",
            challenge=self.secret,
            factors=factors,
            expires_in=int(self.seconds),
        )


class PassedStep(NamedTuple):
    """A person who showed what was asked for."""

    row: UserRow
    how: str
    """`totp`, `passkey`, `recovery_code`, `passkey_alone`."""


class SecondStep(Protocol):
    """The step after the password."""

    async def after_password(self, row: UserRow) -> WaitingStep | None:
        """The step that a person with the right password has to take; None: no further one."""
        ...

    async def by_code(self, secret: str, text: str, origin: Origin) -> PassedStep:
        """The person who shows a code or a recovery code. Raises `SecondFactorOver`, `SecondFactorWrong`,
        `SignInPaced`."""
        ...


SecondStepOf = Callable[[SignInParts], SecondStep]
"""Makes the step after the password of the parts that it shares with the other ways to sign in."""
