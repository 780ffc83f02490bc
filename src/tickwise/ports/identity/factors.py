"""Second factors of people, their recovery codes, and the steps of sign-ins that wait for one.

    add ──► unconfirmed ──confirm──► good ──use──► its counter grows ──► remove, reset
             (TOTP alone)              └─ the counter of a passkey falls ──► suspected: it works no more
    begin ──► step ──attempt, `TRIES_MAX` at most──► settle: the step is over, and what was shown is used up

A step is found by the SHA-256 of its secret. Invariants: a code, a recovery code and a step work once. A step is
settled with the use of what was shown, in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict
from tickwise.ports.identity.users import PasswordLimit

FACTORS_MAX: Final = 20
"""Factors of one person."""
TOTP_MAX: Final = 2
"""Of them, with codes: those of the present device and of the next one. Each doubles the chance of a guess."""
UNCONFIRMED_SECONDS: Final = 1_800.0
"""An enrolment of codes that was not confirmed for so long is forgotten."""
TRIES_MAX: Final = 5
"""Attempts at one step."""
OPEN_STEPS_MAX: Final = 10
"""Steps of one person and purpose that wait at once; the oldest end."""


class FactorKind(StrEnum):
    """The kind of a factor."""

    TOTP = "totp"
    PASSKEY = "passkey"


class StepPurpose(StrEnum):
    """The purpose of a step."""

    SECOND_FACTOR = "second_factor"
    """The password was right, and a second factor is to be shown."""
    ENROLMENT = "enrolment"
    """The password was right, and a second factor is to be enrolled."""
    PASSKEY = "passkey"
    """A passkey signs in by itself; nobody is known yet."""
    REGISTRATION = "registration"
    """A passkey is to be registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFactor:
    """A factor to keep."""

    factor_id: UUID
    user_id: UUID
    kind: FactorKind
    name: str
    secret: bytes
    """The seed, sealed; of a passkey, its public key with its id, as WebAuthn encodes them."""
    counter: int = 0
    """Of a passkey."""
    credential_id: bytes | None = None
    """Of a passkey."""
    place: str | None = None
    """The host (RP ID) of a passkey."""
    password_limit: PasswordLimit | None = None
    """The bound of the password by which the person had signed in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A factor of a person."""

    factor_id: UUID
    user_id: UUID
    kind: FactorKind
    name: str
    secret: bytes
    counter: int
    """The time step of the last code that was used; of a passkey, the number of its signatures, or 0 for ever."""
    credential_id: bytes | None
    place: str | None
    created_at: float
    used_at: float | None
    confirmed: bool
    """True once a first code was shown. A passkey is confirmed by its registration."""
    suspected_at: float | None
    """The time at which its counter fell: there may be a copy of it. None: it works."""
    password_limit: PasswordLimit | None = None

    @property
    def works(self) -> bool:
        """True if it can be shown."""
        return self.confirmed and self.suspected_at is None


class NewStep(NamedTuple):
    """A step to keep."""

    digest: bytes
    """The SHA-256 of its secret."""
    purpose: StepPurpose
    user_id: UUID | None
    """None: nobody is known yet."""
    generation: int
    """Of the person when it began."""
    challenge: bytes
    """The bytes that a passkey signs."""
    seconds: float
    """The step can be settled for so long."""


class FactorStep(NamedTuple):
    """A step that waits."""

    purpose: StepPurpose
    user_id: UUID | None
    generation: int
    challenge: bytes
    tries: int
    """Attempts so far, with this one."""


class Shown(NamedTuple):
    """The use that settles a step: a code or a signature of a factor, or a recovery code."""

    use_id: UUID
    """Of this use: a repeat with it is the same use."""
    factor_id: UUID | None = None
    counter: int = 0
    """The time step of the code, or the counter of the passkey."""
    recovery_digest: bytes | None = None
    user_id: UUID | None = None
    """The person of the recovery code."""


class RecoveryCodes(NamedTuple):
    """The recovery codes of a person."""

    left: int
    """Those that were not used."""
    made_at: float | None
    """None: there never were any."""


class FactorReset(NamedTuple):
    """An administrator has removed the factors of a person, who was not told yet."""

    at: float
    by: str


def factors_exhausted(most: int, what: str) -> Conflict:
    """The error that a person has as many factors as one may have."""
    return Conflict(f"you have {most} {what}, and may have no more: remove one first", code="factors_exhausted")


def passkey_known() -> Conflict:
    """The error that a passkey is registered already."""
    return Conflict("this passkey is registered already", code="passkey_known")


def enrolment_over() -> Conflict:
    """The error that a sign-in which was to enrol a factor has ended."""
    return Conflict("this sign-in has ended: sign in again", code="enrolment_over")


def seed_context(factor_id: UUID) -> str:
    """The context in which the seed of a factor is sealed."""
    return f"second-factor/{factor_id}"


def grows(before: int, after: int) -> bool:
    """Check whether a counter may follow another one. Passkeys that are copied between devices on purpose have no
    counter: theirs is 0 for ever."""
    return after > before or before == after == 0


class FactorStore(Protocol):
    """Second factors of people. All methods may be called again after an `InDoubt`."""

    async def add(self, factor: NewFactor, *, step: bytes | None = None, audit: AuditEntry | None = None) -> None:
        """Keep it: codes unconfirmed, in place of others that were not confirmed; a passkey confirmed. The same id
        again changes nothing. With `step`, the digest of one for the enrolment of a passkey at a sign-in: only if that
        waits. A confirmed factor ends all steps of the person for an enrolment. Raises `Conflict`: `factors_exhausted`,
        `passkey_known`, `enrolment_over`; `NotFound` if the person is gone."""
        ...

    async def confirm(
        self,
        user_id: UUID,
        factor_id: UUID,
        counter: int,
        *,
        step: bytes | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """The first code was shown, of this time step. `step` as in `add`. False: there is no such factor of the
        person that waits, or no such step. The same again is True."""
        ...

    async def of(self, user_id: UUID) -> Sequence[Factor]:
        """All factors of a person, the oldest first; also those that are not confirmed, for `UNCONFIRMED_SECONDS`."""
        ...

    async def by_credential(self, credential_id: bytes) -> Factor | None:
        """The passkey with this id."""
        ...

    async def rename(self, user_id: UUID, factor_id: UUID, name: str, *, audit: AuditEntry | None = None) -> bool:
        """Give it another name. False: there is no such factor of the person."""
        ...

    async def remove(self, user_id: UUID, factor_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """Forget it; with the last one that is confirmed, the recovery codes go too. False: there is no such factor of
        the person."""
        ...

    async def reset(self, user_id: UUID, by: str, *, audit: AuditEntry | None = None) -> int:
        """Forget all factors, recovery codes and open steps of a person, and note who did it, for
        `FactorStepStore.reset_note`. The number of the factors; `audit` is written if there were any."""
        ...

    async def seeds(self, after: UUID | None, limit: int) -> Sequence[Factor]:
        """The factors with codes of all people by id, those behind `after`: for a rotation of the key that seals their
        seeds. Also those that are not confirmed."""
        ...

    async def reseal(self, factor_id: UUID, before: bytes, after: bytes) -> bool:
        """Keep the same seed under another key, if it is still `before`. False: it is not."""
        ...

    async def suspect(self, factor_id: UUID, *, audit: AuditEntry | None = None) -> None:
        """The counter of a passkey fell: it works no more. Again changes nothing."""
        ...


class FactorStepStore(Protocol):
    """Steps that wait for a second factor, recovery codes, and notes of resets. All methods may be called again after
    an `InDoubt`."""

    async def put_recovery(self, user_id: UUID, digests: Sequence[bytes], *, audit: AuditEntry | None = None) -> None:
        """Keep these codes in place of all of before. Sent again, it changes nothing."""
        ...

    async def recovery(self, user_id: UUID) -> RecoveryCodes:
        """The recovery codes of a person, in numbers."""
        ...

    async def reset_note(self, user_id: UUID, *, seen: bool) -> FactorReset | None:
        """The reset that the person was not told of yet. With `seen`, it is told now."""
        ...

    async def begin(self, step: NewStep) -> None:
        """Keep a step. A person has `OPEN_STEPS_MAX` of a purpose: the oldest end. Those that are over are
        forgotten."""
        ...

    async def attempt(self, digest: bytes, purpose: StepPurpose) -> FactorStep | None:
        """Count one attempt at a step. None: there is none with this secret and purpose, it is settled or too old, or
        it had `TRIES_MAX` attempts."""
        ...

    async def step(self, digest: bytes, purpose: StepPurpose) -> FactorStep | None:
        """A step that waits; nothing is counted."""
        ...

    async def settle(self, digest: bytes, shown: Shown, *, audit: AuditEntry | None = None) -> bool:
        """End a step, and use up what was shown: the counter of a factor grows to the one that was shown, or the
        recovery code is used. False, and nothing changes, if the step was settled by another use, the counter does not
        grow, the factor works no more or is gone, or the code was used. The same use again is True."""
        ...
