"""The second factors of the caller: enrol, list, rename and remove them, and make recovery codes.

Each change asks for the password again: a browser that was left open, or a stolen token, changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import requires_none
from tickwise.control.context import ControlContext
from tickwise.control.factors.enrolments import (
    CodesEnrolment,
    Enrolled,
    Enrolments,
    PasskeyAnswer,
    PasskeyEnrolment,
    clean_factor_name,
)
from tickwise.control.factors.own_password import OwnPassword
from tickwise.control.factors.passkeys import PasskeyPlace
from tickwise.control.factors.steps import SecondSteps
from tickwise.control.people.users import Password
from tickwise.domain.audit import AuditAction, AuditEntry, Source, document
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, Forbidden, NotFound
from tickwise.domain.model import Principal
from tickwise.ports.identity.factors import Factor, FactorReset, FactorStepStore, FactorStore, RecoveryCodes

_OWN: Final = "second factors of the caller"
"""The reason for which no permission is needed."""
_ROUTE: Final = "/api/v1/auth/second-factors"
"""The route of a refusal in the audit log."""

Name = Annotated[str, Meta(max_length=100)]
Code = Annotated[str, Meta(min_length=1, max_length=100)]


class CodesBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The enrolment of an app with codes."""

    password: Password
    """The present one."""
    name: Name | UnsetType = UNSET
    """A name for the app, such as `phone`."""


class CodeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The first code of an app."""

    code: Code


class FactorChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Another name for a factor."""

    password: Password
    """The present one."""
    name: Annotated[str, Meta(min_length=1, max_length=100)]


class OwnPasswordBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The present password of the caller."""

    password: Password


class OwnFactors(NamedTuple):
    """The second factors of a person."""

    factors: Sequence[Factor]
    """Those that are confirmed, the oldest first."""
    recovery: RecoveryCodes
    required: bool
    """A role of the person requires one."""
    offered: bool
    """False: second factors are off."""
    has_password: bool
    """False: a provider signs the person in, and asks for a second factor."""
    has_codes: bool
    """Apps with codes can be enrolled: the installation has a key that keeps their seeds."""


class FactorService:
    """The second factors of the caller."""

    def __init__(
        self,
        context: ControlContext,
        *,
        factors: FactorStore,
        stored_steps: FactorStepStore,
        enrolments: Enrolments,
        steps: SecondSteps,
        own: OwnPassword,
    ) -> None:
        self._context = context
        self._factors = factors
        self._stored_steps = stored_steps
        self._enrolments = enrolments
        self._steps = steps
        self._own = own

    @requires_none(_OWN)
    async def mine(self, who: Principal) -> OwnFactors:
        """The caller's. Raises `Forbidden` for a key."""
        row = await self._own.row(who)
        found = [each for each in await self._factors.of(row.user_id) if each.confirmed]
        policy = self._steps.policy
        required = row.has_password and policy.requires(each.role for each in row.roles)
        recovery = await self._stored_steps.recovery(row.user_id)
        return OwnFactors(found, recovery, required, policy.offered, row.has_password, self._enrolments.has_codes)

    @requires_none(_OWN)
    async def begin_codes(self, who: Principal, body: CodesBody, host: str) -> CodesEnrolment:
        """A seed for an app, told this once. Raises `Forbidden`, `Invalid`, `Conflict`, `SignInPaced`,
        `SealingUnavailable`."""
        row = await self._own.check(who, body.password, f"POST {_ROUTE}")
        return await self._enrolments.begin_codes(row, None if body.name is UNSET else body.name, host)

    @requires_none(_OWN)
    async def confirm_codes(self, who: Principal, factor_id: UUID, code: str) -> Enrolled:
        """The first code. It asks for no password: the enrolment did. Raises `NotFound`, `Invalid`, `SignInPaced`."""
        row = await self._own.row(who)
        return await self._enrolments.confirm_codes(row, factor_id, code, Source.of(who))

    @requires_none(_OWN)
    async def begin_passkey(self, who: Principal, password: str, place: PasskeyPlace) -> PasskeyEnrolment:
        """The options of a new passkey. Raises `Forbidden`, `Invalid`, `SignInPaced`."""
        row = await self._own.check(who, password, "POST /security/passkeys/begin")
        return await self._enrolments.begin_passkey(row, place)

    @requires_none(_OWN)
    async def finish_passkey(self, who: Principal, answer: PasskeyAnswer) -> Enrolled:
        """The passkey that a browser made. Raises `Invalid`, `Conflict`, `NotFound`."""
        row = await self._own.row(who)
        return await self._enrolments.finish_passkey(row, answer, Source.of(who))

    @requires_none(_OWN)
    async def rename(self, who: Principal, factor_id: UUID, body: FactorChangeBody) -> None:
        """Give a factor another name. Raises `NotFound`, `Invalid`, `SignInPaced`."""
        row = await self._own.check(who, body.password, f"PATCH {_ROUTE}")
        factor = await self._one(row.user_id, factor_id)
        name = clean_factor_name(body.name, factor.name)
        audit = _entry(who, AuditAction.FACTOR_RENAMED, {"before": factor.name, "after": name})
        if not await self._context.surely(lambda: self._factors.rename(row.user_id, factor_id, name, audit=audit)):
            raise _unknown()

    @requires_none(_OWN)
    async def remove(self, who: Principal, factor_id: UUID, password: str) -> None:
        """Forget a factor. Raises `NotFound`, `Invalid`, `SignInPaced`, and `Conflict`, code `second_factor_needed`,
        for the last one of a person whose role requires one."""
        row = await self._own.check(who, password, f"DELETE {_ROUTE}")
        factor = await self._one(row.user_id, factor_id)
        left = [each for each in await self._factors.of(row.user_id) if each.works and each.factor_id != factor_id]
        if not left and self._steps.policy.offered and self._steps.policy.requires(each.role for each in row.roles):
            raise Conflict(
                "your role requires a second factor, and this is the last one: enrol another one first",
                code="second_factor_needed",
            )
        audit = _entry(who, AuditAction.FACTOR_REMOVED, {"factor": factor.name, "kind": factor.kind.value})
        await self._context.surely(lambda: self._factors.remove(row.user_id, factor_id, audit=audit))

    @requires_none(_OWN)
    async def new_recovery(self, who: Principal, password: str) -> Sequence[str]:
        """Ten recovery codes, told this once; those of before work no more. Raises `Invalid`, `SignInPaced`, and
        `Forbidden` for a person without a factor."""
        row = await self._own.check(who, password, "POST /api/v1/auth/recovery-codes")
        if not any(each.confirmed for each in await self._factors.of(row.user_id)):
            raise Forbidden("enrol a second factor first: recovery codes stand in for it")
        return await self._enrolments.new_recovery(row, Source.of(who))

    @requires_none("it is about the caller")
    async def reset_note(self, who: Principal) -> FactorReset | None:
        """The reset by an administrator that the caller was not told of; it is told now."""
        return None if who.user_id is None else await self._stored_steps.reset_note(who.user_id, seen=True)

    async def _one(self, user_id: UUID, factor_id: UUID) -> Factor:
        found = (each for each in await self._factors.of(user_id) if each.factor_id == factor_id and each.confirmed)
        factor = next(found, None)
        if factor is None:
            raise _unknown()
        return factor


def _unknown() -> NotFound:
    return NotFound("you have no such second factor")


def _entry(who: Principal, action: AuditAction, detail: dict[str, object]) -> AuditEntry:
    return AuditEntry(INSTALLATION, action, Source.of(who), "user", target=str(who.user_id), detail=document(detail))
