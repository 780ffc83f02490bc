"""Sign-ins of browsers by a second factor: the second step, a passkey in place of a password, and an enrolment that a
role requires.

Each method takes the secret of a step, which the right password or nobody has given, and begins a session as its end.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from tickwise.control.access import requires_none
from tickwise.control.factors.enrolments import CodesEnrolment, Enrolled, Enrolments, PasskeyAnswer, PasskeyEnrolment
from tickwise.control.factors.passkeys import Options, PasskeyPlace
from tickwise.control.factors.steps import PasskeyChallenge, SecondSteps, digest_of, source_of
from tickwise.control.people.session_opening import OpenedSession, SessionOpening
from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Origin, Principal
from tickwise.ports.identity.factors import StepPurpose
from tickwise.ports.identity.users import UserStore

_STEP = "the secret of the step is the credential: it proves the password"


class EnrolledSession(NamedTuple):
    """A session that began with an enrolment."""

    session: OpenedSession
    enrolled: Enrolled


class FactorSignInService:
    """Begins sessions of browsers."""

    def __init__(
        self, *, steps: SecondSteps, enrolments: Enrolments, opening: SessionOpening, users: UserStore
    ) -> None:
        self._steps = steps
        self._enrolments = enrolments
        self._opening = opening
        self._users = users

    @requires_none("it says whether the sign-in shows a button")
    def offers_passkeys(self) -> bool:
        """Check whether passkeys sign in here at all."""
        return self._steps.policy.offered

    @requires_none(_STEP)
    async def options(self, secret: str, place: PasskeyPlace, origin: Origin) -> Options | None:
        """The options to show a passkey as the second factor; None: the person has none for this place.
        Raises `SecondFactorOver`."""
        return await self._steps.options(secret, place, origin)

    @requires_none(_STEP)
    async def by_code(self, secret: str, code: str, origin: Origin, *, earlier: str | None = None) -> OpenedSession:
        """Begin the session of a person who shows a code or a recovery code. The session of the cookie `earlier` ends.
        Raises `SecondFactorOver`, `SecondFactorWrong`, `SignInPaced`."""
        row, how = await self._steps.by_code(secret, code, origin)
        return await self._opening.of_person(row, origin, how=how, earlier=earlier)

    @requires_none(_STEP)
    async def by_passkey(
        self, secret: str, response: str, place: PasskeyPlace, origin: Origin, *, earlier: str | None = None
    ) -> OpenedSession:
        """Begin the session of a person who shows a passkey. Raises as `by_code`."""
        row, how = await self._steps.by_passkey(secret, response, place, origin)
        return await self._opening.of_person(row, origin, how=how, earlier=earlier)

    @requires_none("it is the way in: anybody may ask for a challenge")
    async def begin_passkey(self, place: PasskeyPlace, origin: Origin) -> PasskeyChallenge:
        """The options to show a passkey in place of a password. Raises `SignInPaced`, `Unauthenticated`."""
        return await self._steps.begin_passkey(place, origin)

    @requires_none("it is the way in: the passkey is the credential, and its owner was verified")
    async def passkey_alone(
        self, secret: str, response: str, place: PasskeyPlace, origin: Origin, *, earlier: str | None = None
    ) -> OpenedSession:
        """Begin the session of a person who shows a passkey in place of a password. Raises `Unauthenticated`,
        `SignInPaced`."""
        row, how = await self._steps.passkey_alone(secret, response, place, origin)
        return await self._opening.of_person(row, origin, how=how, earlier=earlier)

    @requires_none(_STEP)
    async def check_enrolment(self, secret: str, origin: Origin) -> bool:
        """Check that a step waits for an enrolment. True: apps with codes can be enrolled. Raises
        `SecondFactorOver`."""
        await self._steps.waiting(secret, StepPurpose.ENROLMENT, origin)
        return self._enrolments.has_codes

    @requires_none(_STEP)
    async def begin_codes(self, secret: str, name: str | None, host: str, origin: Origin) -> CodesEnrolment:
        """A seed for an app, for a person who must enrol. Raises `SecondFactorOver`, `SealingUnavailable`."""
        _, row = await self._steps.waiting(secret, StepPurpose.ENROLMENT, origin)
        return await self._enrolments.begin_codes(row, name, host)

    @requires_none(_STEP)
    async def begin_registration(self, secret: str, place: PasskeyPlace, origin: Origin) -> PasskeyEnrolment:
        """The options of a new passkey, for a person who must enrol. Raises `SecondFactorOver`."""
        _, row = await self._steps.waiting(secret, StepPurpose.ENROLMENT, origin)
        return await self._enrolments.begin_passkey(row, place)

    @requires_none(_STEP)
    async def finish_codes(
        self, secret: str, factor_id: UUID, code: str, origin: Origin, *, earlier: str | None = None
    ) -> EnrolledSession:
        """Begin the session of a person who must enrol, by the first code of the app. Raises `SecondFactorOver`,
        `NotFound`, `Invalid`, `SignInPaced`."""
        _, row = await self._steps.waiting(secret, StepPurpose.ENROLMENT, origin)
        enrolled = await self._enrolments.confirm_codes(
            row, factor_id, code, source_of(row, origin), step=digest_of(secret)
        )
        return EnrolledSession(await self._opening.of_person(row, origin, how="totp", earlier=earlier), enrolled)

    @requires_none(_STEP)
    async def finish_registration(
        self, secret: str, answer: PasskeyAnswer, origin: Origin, *, earlier: str | None = None
    ) -> EnrolledSession:
        """Begin the session of a person who must enrol, by the new passkey. Raises `SecondFactorOver`, `NotFound`,
        `Invalid`, `Conflict`."""
        _, row = await self._steps.waiting(secret, StepPurpose.ENROLMENT, origin)
        enrolled = await self._enrolments.finish_passkey(row, answer, source_of(row, origin), step=digest_of(secret))
        return EnrolledSession(await self._opening.of_person(row, origin, how="passkey", earlier=earlier), enrolled)

    @requires_none("the caller has a session that a first factor has just ended, and gets another one in its place")
    async def renew(self, who: Principal, origin: Origin, *, earlier: str | None) -> OpenedSession:
        """Begin another session of the person who asks. Raises `Forbidden` for a key and for a token."""
        row = None if who.user_id is None or who.by_token else await self._users.get(who.user_id)
        if row is None or not row.active:
            raise Forbidden("sessions of browsers are for people: sign in at /login")
        return await self._opening.of_person(row, origin, how="enrolment", earlier=earlier)
