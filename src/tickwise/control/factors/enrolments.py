"""The enrolment of a second factor: by a person who is signed in, or at a sign-in for which a role requires one.

    seed, sealed ──► unconfirmed ──first code──► good          challenge ──► browser ──► passkey, good
                                                  └── the first factor: ten recovery codes, and sessions of before end

A session that began without a second factor does not outlive the moment from which the person has one. Later factors
end no sessions.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from tickwise.control.context import ControlContext
from tickwise.control.factors import codes, passkeys
from tickwise.control.factors.pace import CodePace
from tickwise.control.factors.passkeys import CHALLENGE_BYTES, Options, PasskeyPlace, PasskeyRefused
from tickwise.control.factors.recovery import new_codes, recovery_digest
from tickwise.control.factors.steps import ENROLMENT_SECONDS, SECRET_BYTES, SecondSteps, digest_of
from tickwise.control.texts import LINE_CHARACTERS_MAX, clean_name
from tickwise.domain.accounts.second_factor import FactorPolicy
from tickwise.domain.audit import AuditAction, AuditEntry, Source, document
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Forbidden, Invalid, NotFound, SealingUnavailable
from tickwise.domain.model import time_id
from tickwise.ports.identity.browser_sessions import BrowserSessionStore
from tickwise.ports.identity.factors import (
    FactorKind,
    FactorStepStore,
    FactorStore,
    NewFactor,
    NewStep,
    StepPurpose,
    seed_context,
)
from tickwise.ports.identity.sessions import SessionStore
from tickwise.ports.identity.users import UserRow
from tickwise.ports.signals import Topic

CODES_NAME: Final = "app"
PASSKEY_NAME: Final = "passkey"

logger = structlog.get_logger("tickwise.people")


class CodesEnrolment(NamedTuple):
    """A seed that a person is to put into an app. It is told this once."""

    factor_id: UUID
    seed: str
    """In base32."""
    address: str
    """`otpauth:`, for a QR code."""


class PasskeyEnrolment(NamedTuple):
    """The options of a new passkey."""

    secret: str
    options: Options


class PasskeyAnswer(NamedTuple):
    """The answer of a browser to a `PasskeyEnrolment`."""

    secret: str
    """Of the enrolment."""
    response: str
    """JSON, as `toJSON` of browsers writes it."""
    name: str | None
    place: PasskeyPlace


class Enrolled(NamedTuple):
    """A factor that is good from now on."""

    name: str
    recovery: Sequence[str]
    """Recovery codes, told this once; empty: those of before work on."""
    is_first: bool
    """All sessions of the person have ended."""


class Enrolments:
    """Enrols factors for people whose right to it was checked."""

    def __init__(
        self,
        context: ControlContext,
        *,
        factors: FactorStore,
        stored_steps: FactorStepStore,
        sessions: SessionStore,
        browsers: BrowserSessionStore,
        steps: SecondSteps,
        pace: CodePace,
        policy: FactorPolicy,
    ) -> None:
        self._context = context
        self._factors = factors
        self._stored_steps = stored_steps
        self._sessions = sessions
        self._browsers = browsers
        self._steps = steps
        self._pace = pace
        self._policy = policy

    @property
    def has_codes(self) -> bool:
        """True if seeds can be kept."""
        return self._context.sealer is not None and self._context.sealer.newest is not None

    async def begin_codes(self, row: UserRow, name: str | None, host: str) -> CodesEnrolment:
        """A seed for an app; `host` is shown there. Raises `Forbidden`, `Invalid`, `Conflict`, `SealingUnavailable`."""
        self._check_offered(row)
        sealer = self._context.sealer
        if sealer is None:
            raise SealingUnavailable(
                "this process cannot keep seeds of apps, because it has no key for secrets: set TICKWISE_SECRETS_KEY"
            )
        factor_id, seed = self._identifier(), codes.new_seed(self._context.clock)
        sealed = await sealer.seal(seed.encode(), seed_context(factor_id))
        factor = NewFactor(
            factor_id=factor_id,
            user_id=row.user_id,
            kind=FactorKind.TOTP,
            name=clean_factor_name(name, CODES_NAME),
            secret=sealed,
            password_limit=row.password_limit,
        )
        await self._context.surely(lambda: self._factors.add(factor, audit=None))
        return CodesEnrolment(factor_id, seed, codes.address_of(seed, row.name, host))

    async def confirm_codes(
        self, row: UserRow, factor_id: UUID, text: str, source: Source, *, step: bytes | None = None
    ) -> Enrolled:
        """The first code of an app; `step`: the digest of the sign-in that has to enrol. Raises `NotFound`, `Invalid`,
        `SignInPaced`."""
        known = await self._factors.of(row.user_id)
        factor = next((each for each in known if each.factor_id == factor_id and not each.confirmed), None)
        if factor is None:
            raise NotFound("there is no such enrolment: it took too long, or another one was begun; begin again")
        await self._pace.begin(row.user_id, source.address)
        seed, code = await self._steps.seed_of(factor), codes.code_of(text)
        now = await self._context.time.now()
        counter = None if seed is None or code is None else codes.matching_step(seed, code, now)
        if counter is None:
            await self._pace.failed(row.user_id, source.address)
            raise Invalid(
                "this is not the present code of the app; is the time of the phone right?",
                pointer="/code",
                code="second_factor_code",
            )
        audit = _entry(AuditAction.FACTOR_ENROLLED, row, source, {"factor": factor.name, "kind": "totp"})
        if not await self._context.surely(
            lambda: self._factors.confirm(row.user_id, factor_id, counter, step=step, audit=audit)
        ):
            raise NotFound("there is no such enrolment: another one was begun; begin again")
        return await self._enrolled(row, factor.name, source, is_first=not any(each.confirmed for each in known))

    async def begin_passkey(self, row: UserRow, place: PasskeyPlace) -> PasskeyEnrolment:
        """The options of a new passkey. Raises `Forbidden`."""
        self._check_offered(row)
        clock = self._context.clock
        secret = urlsafe_b64encode(clock.random_bytes(SECRET_BYTES)).rstrip(b"=").decode()
        step = NewStep(
            digest=digest_of(secret),
            purpose=StepPurpose.REGISTRATION,
            user_id=row.user_id,
            generation=row.generation,
            challenge=clock.random_bytes(CHALLENGE_BYTES),
            seconds=ENROLMENT_SECONDS,
        )
        await self._context.surely(lambda: self._stored_steps.begin(step))
        known = await self._factors.of(row.user_id)
        return PasskeyEnrolment(secret, passkeys.creation_options(place, row, known, step.challenge))

    async def finish_passkey(
        self,
        row: UserRow,
        answer: PasskeyAnswer,
        source: Source,
        *,
        step: bytes | None = None,
    ) -> Enrolled:
        """The passkey that a browser made; `step` as in `confirm_codes`. Raises `Invalid`, `Conflict`, `NotFound`."""
        self._check_offered(row)
        begun = await self._stored_steps.attempt(digest_of(answer.secret), StepPurpose.REGISTRATION)
        if begun is None or begun.user_id != row.user_id or begun.generation != row.generation:
            raise NotFound("there is no such registration: it took too long, or was tried too often; begin again")
        try:
            made = passkeys.registered(answer.place, begun.challenge, answer.response)
        except PasskeyRefused as refusal:
            logger.info("passkey_not_made", user_id=str(row.user_id), reason=str(refusal), address=source.address)
            raise Invalid(
                "the browser's answer is not the passkey that was asked for", code="passkey_refused"
            ) from None
        known = await self._factors.of(row.user_id)
        factor = NewFactor(
            factor_id=self._identifier(),
            user_id=row.user_id,
            kind=FactorKind.PASSKEY,
            name=clean_factor_name(answer.name, PASSKEY_NAME),
            secret=made.public,
            counter=made.counter,
            credential_id=made.credential_id,
            place=answer.place.host,
            password_limit=row.password_limit,
        )
        audit = _entry(AuditAction.FACTOR_ENROLLED, row, source, {"factor": factor.name, "kind": "passkey"})
        await self._context.surely(lambda: self._factors.add(factor, step=step, audit=audit))
        return await self._enrolled(row, factor.name, source, is_first=not any(each.confirmed for each in known))

    async def new_recovery(self, row: UserRow, source: Source) -> Sequence[str]:
        """Recovery codes in place of those of before."""
        made = new_codes(self._context.clock)
        digests = [digest for digest in map(recovery_digest, made) if digest is not None]
        audit = _entry(AuditAction.RECOVERY_CODES_MADE, row, source, {"count": len(made)})
        await self._context.surely(lambda: self._stored_steps.put_recovery(row.user_id, digests, audit=audit))
        return made

    async def _enrolled(self, row: UserRow, name: str, source: Source, *, is_first: bool) -> Enrolled:
        self._pace.succeeded(row.user_id, source.address)
        recovery: Sequence[str] = ()
        if is_first:
            recovery = await self.new_recovery(row, source)
            await self.end_sessions(row, source)
        logger.info("second_factor_enrolled", user_id=str(row.user_id), name=row.name, factor=name)
        return Enrolled(name, recovery, is_first)

    async def end_sessions(self, row: UserRow, source: Source) -> None:
        """End all sessions of a person, of tokens and of browsers."""
        audit = AuditEntry(INSTALLATION, AuditAction.SIGNED_OUT, source, "session")
        families = await self._sessions.revoke(user_id=row.user_id, audit=audit)
        browsers = await self._browsers.end(user_id=row.user_id, audit=audit)
        self._context.signals.send(Topic.KEYS, (*families, *browsers))

    def _check_offered(self, row: UserRow) -> None:
        if not self._policy.offered:
            raise Forbidden("second factors are off in this installation (TICKWISE_SECOND_FACTOR)")
        if not row.has_password:
            raise Forbidden("you have no password here: your second factor is where you sign in")

    def _identifier(self) -> UUID:
        clock = self._context.clock
        return time_id(int(clock.now() * 1000), clock.random_bytes(10))


def clean_factor_name(name: str | None, usual: str) -> str:
    """The name of a factor as it is kept. Raises `Invalid`."""
    found = clean_name((name or "").strip(), "/name") or usual
    if len(found) > LINE_CHARACTERS_MAX:
        raise Invalid(f"a name has {LINE_CHARACTERS_MAX} characters at most", pointer="/name")
    return found


def _entry(action: AuditAction, row: UserRow, source: Source, detail: dict[str, object]) -> AuditEntry:
    return AuditEntry(INSTALLATION, action, source, "user", target=str(row.user_id), detail=document(detail))
