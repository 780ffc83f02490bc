"""The second step of a sign-in, and passkeys that sign in by themselves.

    right password ──► factors? ──► step: a secret, `STEP_SECONDS` ──► code, passkey, recovery code ──► the person
                       required, none? ──► step to enrol one
    no password ──► challenge ──► passkey whose authenticator verified its owner ──► the person

The secret of a step proves the password and nothing else: it is no session and no token. It is bound to the person, to
their generation, and to its purpose. A step ends with its first success, after `TRIES_MAX` attempts, and by its time.
A code is looked at after its attempt is counted in the store, so requests at the same time have no more attempts.

Invariants: an answer tells nobody without the right password that there is a second factor. A factor that was shown is
used up before the session begins.
"""

from __future__ import annotations

import contextlib
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from tickwise.control.audit.denials import Denials
from tickwise.control.callers import Callers
from tickwise.control.context import ControlContext
from tickwise.control.factors import codes, passkeys
from tickwise.control.factors.pace import CodePace
from tickwise.control.factors.passkeys import CHALLENGE_BYTES, Options, PasskeyPlace, PasskeyRefused
from tickwise.control.factors.recovery import recovery_digest
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.password_limits import is_beyond
from tickwise.control.people.second_step import PASSKEY_ALONE, RECOVERY, PassedStep, WaitingStep
from tickwise.domain.accounts.second_factor import FactorPolicy
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source, document
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import (
    NotOpened,
    PasswordLimited,
    SecondFactorOver,
    SecondFactorWrong,
    TickwiseError,
    Unauthenticated,
)
from tickwise.domain.model import Origin, time_id
from tickwise.ports.identity.factors import (
    Factor,
    FactorKind,
    FactorStep,
    FactorStepStore,
    FactorStore,
    NewStep,
    Shown,
    StepPurpose,
    grows,
    seed_context,
)
from tickwise.ports.identity.users import UserRow, UserStore
from tickwise.ports.sealing import key_id_of

STEP_SECONDS: Final = 300.0
"""Time to find a phone."""
ENROLMENT_SECONDS: Final = 1_800.0
"""Time to install an app."""
SECRET_BYTES: Final = 32
_OVER: Final = "this sign-in has ended: it took too long, or had too many wrong codes; begin again with your password"
_WRONG: Final = "this code or passkey is wrong, or was used before; take the next one"
_UNKNOWN: Final = "this passkey does not sign in here; sign in with your password"

logger = structlog.get_logger("tickwise.people")


class PasskeyChallenge(NamedTuple):
    """The options to show a passkey."""

    secret: str
    options: Options


class SecondSteps:
    """Begins and ends steps."""

    def __init__(
        self,
        context: ControlContext,
        *,
        factors: FactorStore,
        stored_steps: FactorStepStore,
        users: UserStore,
        callers: Callers,
        pace: SignInPace,
        codes_pace: CodePace,
        policy: FactorPolicy,
        denials: Denials,
    ) -> None:
        """`pace` is that of passwords."""
        self._context = context
        self._factors = factors
        self._stored_steps = stored_steps
        self._users = users
        self._callers = callers
        self._pace = pace
        self._codes_pace = codes_pace
        self._denials = denials
        self.policy = policy

    async def after_password(self, row: UserRow) -> WaitingStep | None:
        """The step that a person with the right password has to take; None: no further one."""
        if not self.policy.offered:
            return None
        known = [each for each in await self._factors.of(row.user_id) if each.confirmed]
        if known:
            secret = await self.begin(StepPurpose.SECOND_FACTOR, row, STEP_SECONDS)
            left = (await self._stored_steps.recovery(row.user_id)).left
            kinds = frozenset(each.kind for each in known)
            return WaitingStep(secret, kinds, STEP_SECONDS, has_recovery=left > 0)
        if self.policy.requires(each.role for each in row.roles):
            secret = await self.begin(StepPurpose.ENROLMENT, row, ENROLMENT_SECONDS)
            return WaitingStep(secret, frozenset(), ENROLMENT_SECONDS)
        return None

    async def begin(self, purpose: StepPurpose, row: UserRow | None, seconds: float) -> str:
        """A new step; its secret."""
        clock = self._context.clock
        secret = urlsafe_b64encode(clock.random_bytes(SECRET_BYTES)).rstrip(b"=").decode()
        step = NewStep(
            digest=digest_of(secret),
            purpose=purpose,
            user_id=None if row is None else row.user_id,
            generation=0 if row is None else row.generation,
            challenge=clock.random_bytes(CHALLENGE_BYTES),
            seconds=seconds,
        )
        await self._context.surely(lambda: self._stored_steps.begin(step))
        return secret

    async def waiting(self, secret: str, purpose: StepPurpose, origin: Origin) -> tuple[FactorStep, UserRow]:
        """A step that waits, and its person as they are. Raises `SecondFactorOver`."""
        step = await self._stored_steps.step(digest_of(secret), purpose)
        row = None if step is None or step.user_id is None else await self._users.get(step.user_id)
        if step is None or row is None or not row.active or row.generation != step.generation:
            self._denials.factor_refused("" if row is None else row.name, origin)
            raise SecondFactorOver(_OVER)
        return step, row

    async def options(self, secret: str, place: PasskeyPlace, origin: Origin) -> Options | None:
        """The options to show a passkey of the person as the second factor; None: there is none for this
        place. Raises `SecondFactorOver`."""
        step, row = await self.waiting(secret, StepPurpose.SECOND_FACTOR, origin)
        known = [each for each in await self._factors.of(row.user_id) if each.works and each.place == place.host]
        return passkeys.request_options(place, known, step.challenge) if known else None

    async def by_code(self, secret: str, text: str, origin: Origin) -> PassedStep:
        """The person who shows a code or a recovery code. Raises `SecondFactorOver`, `SecondFactorWrong`,
        `SignInPaced`."""
        _, row = await self.waiting(secret, StepPurpose.SECOND_FACTOR, origin)
        await self._codes_pace.begin(row.user_id, origin.address)
        await self._attempt(secret, row, origin)
        shown, how = await self._shown(row, text)
        if shown is None or not await self._settle(secret, shown, row, how, origin):
            await self._codes_pace.failed(row.user_id, origin.address)
            raise self._wrong(row, origin)
        self._codes_pace.succeeded(row.user_id, origin.address)
        await self._reseal(row, shown)
        return PassedStep(row, how)

    async def by_passkey(self, secret: str, response: str, place: PasskeyPlace, origin: Origin) -> PassedStep:
        """The person who shows a passkey as the second factor. Raises `SecondFactorOver`, `SecondFactorWrong`,
        `SignInPaced`."""
        step, row = await self.waiting(secret, StepPurpose.SECOND_FACTOR, origin)
        await self._pace.begin("", origin.address)
        await self._attempt(secret, row, origin)
        known = [each for each in await self._factors.of(row.user_id) if each.works]
        if not await self._signed(secret, step.challenge, known, response, place, row, origin, alone=False):
            raise self._wrong(row, origin)
        self._codes_pace.succeeded(row.user_id, origin.address)
        return PassedStep(row, FactorKind.PASSKEY)

    async def begin_passkey(self, place: PasskeyPlace, origin: Origin) -> PasskeyChallenge:
        """The options to show a passkey in place of a password. Raises `SignInPaced`, `Unauthenticated` where
        second factors are off."""
        if not self.policy.offered:
            raise Unauthenticated(_UNKNOWN)
        await self._pace.begin("", origin.address)
        secret = await self.begin(StepPurpose.PASSKEY, None, STEP_SECONDS)
        step = await self._stored_steps.step(digest_of(secret), StepPurpose.PASSKEY)
        if step is None:
            raise SecondFactorOver(_OVER)
        return PasskeyChallenge(secret, passkeys.request_options(place, None, step.challenge))

    async def passkey_alone(self, secret: str, response: str, place: PasskeyPlace, origin: Origin) -> PassedStep:
        """The person who shows a passkey in place of a password; one answer for all that is wrong. Raises
        `Unauthenticated`, `SignInPaced`."""
        await self._pace.begin("", origin.address)
        step = await self._stored_steps.attempt(digest_of(secret), StepPurpose.PASSKEY) if self.policy.offered else None
        credential = passkeys.credential_of(response)
        factor = None if credential is None else await self._factors.by_credential(credential)
        row = None if factor is None else await self._users.get(factor.user_id)
        if step is None or factor is None or row is None or not row.active or not factor.works:
            self._denials.factor_refused("" if row is None else row.name, origin)
            raise Unauthenticated(_UNKNOWN)
        if not await self._signed(secret, step.challenge, [factor], response, place, row, origin, alone=True):
            self._denials.factor_refused(row.name, origin)
            raise Unauthenticated(_UNKNOWN)
        caller = await self._callers.of_person(row)
        if is_beyond(factor.password_limit, caller.grants):
            self._denials.factor_refused(row.name, origin)
            raise PasswordLimited(
                "this passkey was enrolled with a password that was chosen, or could be, by an administrator who holds "
                "less than you do by now: sign in with your password, remove the passkey, and enrol it again"
            )
        return PassedStep(row, PASSKEY_ALONE)

    async def _attempt(self, secret: str, row: UserRow, origin: Origin) -> None:
        if await self._stored_steps.attempt(digest_of(secret), StepPurpose.SECOND_FACTOR) is None:
            self._denials.factor_refused(row.name, origin)
            raise SecondFactorOver(_OVER)

    async def _shown(self, row: UserRow, text: str) -> tuple[Shown | None, str]:
        """The use of a text that a person typed, if it is a right code of now or has the form of a recovery code."""
        use_id = self._use_id()
        code = codes.code_of(text)
        if code is None:
            digest = recovery_digest(text)
            shown = None if digest is None else Shown(use_id, recovery_digest=digest, user_id=row.user_id)
            return shown, RECOVERY
        now = await self._context.time.now()
        for factor in await self._factors.of(row.user_id):
            if factor.kind is FactorKind.TOTP and factor.works:
                seed = await self.seed_of(factor)
                step = None if seed is None else codes.matching_step(seed, code, now)
                if step is not None and grows(factor.counter, step):
                    return Shown(use_id, factor.factor_id, step), FactorKind.TOTP
        return None, FactorKind.TOTP

    async def seed_of(self, factor: Factor) -> str | None:
        """The seed of a factor with codes; None: its key is gone. Raises `SealingUnavailable`."""
        sealer = self._context.sealer
        if sealer is None:
            return None
        try:
            return (await sealer.open(factor.secret, seed_context(factor.factor_id))).decode()
        except NotOpened as failure:
            logger.warning("second_factor_not_opened", factor_id=str(factor.factor_id), reason=failure.detail)
            return None

    async def _reseal(self, row: UserRow, shown: Shown) -> None:
        """Seal the seed of a code that was shown under the newest key, so that keys of before can be dropped one day.
        What fails is done at the next code."""
        sealer = self._context.sealer
        for factor in await self._factors.of(row.user_id):
            if sealer is None or factor.factor_id != shown.factor_id or key_id_of(factor.secret) == sealer.newest:
                continue
            with contextlib.suppress(TickwiseError):
                seed = await self.seed_of(factor)
                if seed is not None:
                    sealed = await sealer.seal(seed.encode(), seed_context(factor.factor_id))
                    await self._factors.reseal(factor.factor_id, factor.secret, sealed)

    async def _signed(
        self,
        secret: str,
        challenge: bytes,
        known: Sequence[Factor],
        response: str,
        place: PasskeyPlace,
        row: UserRow,
        origin: Origin,
        *,
        alone: bool,
    ) -> bool:
        """Check the answer of a browser, and use up what it shows."""
        try:
            factor, counter = passkeys.signed(place, challenge, known, response, verified=alone)
        except PasskeyRefused as refusal:
            logger.info("passkey_refused", user_id=str(row.user_id), reason=str(refusal), address=origin.address)
            return False
        if not grows(factor.counter, counter):
            await self._suspect(factor, counter, row, origin)
            return False
        how = PASSKEY_ALONE if alone else FactorKind.PASSKEY
        return await self._settle(secret, Shown(self._use_id(), factor.factor_id, counter), row, how, origin)

    async def _suspect(self, factor: Factor, counter: int, row: UserRow, origin: Origin) -> None:
        """A counter that fell: two authenticators have this key, or one was set back."""
        logger.warning(
            "passkey_counter_fell", user_id=str(row.user_id), name=row.name, factor_id=str(factor.factor_id),
            before=factor.counter, after=counter, address=origin.address,
        )  # fmt: skip
        audit = AuditEntry(
            INSTALLATION,
            AuditAction.FACTOR_SUSPECTED,
            source_of(row, origin),
            "user",
            target=str(row.user_id),
            detail=document({"factor": factor.name, "counter_before": factor.counter, "counter_after": counter}),
        )
        await self._context.surely(lambda: self._factors.suspect(factor.factor_id, audit=audit))

    async def _settle(self, secret: str, shown: Shown, row: UserRow, how: str, origin: Origin) -> bool:
        audit = None
        if how == RECOVERY:
            audit = AuditEntry(
                INSTALLATION, AuditAction.RECOVERY_CODE_USED, source_of(row, origin), "user", target=str(row.user_id)
            )
        return await self._context.surely(lambda: self._stored_steps.settle(digest_of(secret), shown, audit=audit))

    def _use_id(self) -> UUID:
        clock = self._context.clock
        return time_id(int(clock.now() * 1000), clock.random_bytes(10))

    def _wrong(self, row: UserRow, origin: Origin) -> SecondFactorWrong:
        logger.info("second_factor_wrong", user_id=str(row.user_id), name=row.name, address=origin.address)
        self._denials.factor_refused(row.name, origin)
        return SecondFactorWrong(_WRONG)


def digest_of(secret: str) -> bytes:
    """The digest of the secret of a step."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def source_of(row: UserRow, origin: Origin) -> Source:
    """The person as the caller of an entry."""
    return Source(CallerKind.PERSON, row.user_id, row.name, *origin[:2])
