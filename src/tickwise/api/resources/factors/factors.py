"""The second factors of the caller: list, enrol an app with codes, rename, remove, recovery codes; and for
administrators those of a person. Passkeys are made in the pages: an authenticator answers a browser."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from tickwise.api.endpoint import Call, Endpoint, Reply, Secret, answer
from tickwise.api.problems import Headers
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.factors.service import CodeBody, CodesBody, FactorChangeBody, OwnPasswordBody
from tickwise.control.people.users import UserService
from tickwise.ports.identity.factors import Factor

_codes: Final = msgspec.json.Decoder(CodesBody)
_code: Final = msgspec.json.Decoder(CodeBody)
_change: Final = msgspec.json.Decoder(FactorChangeBody)
_password: Final = msgspec.json.Decoder(OwnPasswordBody)
_NO_STORE: Final[Headers] = [(b"cache-control", b"no-store")]


class FactorView(msgspec.Struct, kw_only=True):
    """A second factor."""

    factor_id: UUID
    kind: str
    """`totp` (an app with codes) or `passkey`."""
    name: str
    place: str | None
    """The host of a passkey."""
    created_at: Instant
    used_at: Instant | None
    suspected_at: Instant | None
    """Of a passkey: its counter fell, so there may be a copy of it. It works no more."""


class OwnFactorsView(msgspec.Struct, kw_only=True):
    """The second factors of the caller."""

    factors: list[FactorView]
    recovery_codes_left: int
    required: bool
    """A role of the caller requires one."""


class CodesEnrolmentView(msgspec.Struct, kw_only=True):
    """A new app with codes, which waits for its first code."""

    factor_id: UUID
    seed_secret: Secret
    """In base32, to type into the app; told this once."""
    otpauth_link: Secret
    """The `otpauth:` address for a QR code; told this once."""


class RecoveryCodesView(msgspec.Struct, kw_only=True):
    """Recovery codes, told this once."""

    recovery_codes: list[Secret]
    """Empty: those of before work on."""


class FactorsRemovedView(msgspec.Struct, kw_only=True):
    """The number of the second factors that were removed."""

    removed: int


def factor_view(row: Factor) -> FactorView:
    """A factor as it is answered."""
    return FactorView(
        factor_id=row.factor_id,
        kind=row.kind.value,
        name=row.name,
        place=row.place,
        created_at=time_of(row.created_at),
        used_at=time_or_none(row.used_at),
        suspected_at=time_or_none(row.suspected_at),
    )


async def own_list(call: Call) -> Reply:
    """Those of the caller."""
    mine = await call.control.factors.mine(call.principal)
    view = OwnFactorsView(
        factors=[factor_view(each) for each in mine.factors],
        recovery_codes_left=mine.recovery.left,
        required=mine.required,
    )
    return answer(200, view)


async def codes_begin(call: Call) -> Reply:
    """A seed for an app."""
    body = decode(_codes, call.body, field_names(CodesBody))
    host = call.headers.get(b"host", b"").decode("latin-1").rpartition("@")[2] or "tickwise"
    begun = await call.control.factors.begin_codes(call.principal, body, host)
    view = CodesEnrolmentView(factor_id=begun.factor_id, seed_secret=begun.seed, otpauth_link=begun.address)
    return answer(201, view, headers=_NO_STORE)


async def codes_confirm(call: Call) -> Reply:
    """The first code."""
    body = decode(_code, call.body, field_names(CodeBody))
    factor_id = call.uuid("factor_id", "second factor")
    enrolled = await call.control.factors.confirm_codes(call.principal, factor_id, body.code)
    return answer(200, RecoveryCodesView(recovery_codes=list(enrolled.recovery)), headers=_NO_STORE)


async def own_rename(call: Call) -> Reply:
    """Another name."""
    body = decode(_change, call.body, field_names(FactorChangeBody))
    await call.control.factors.rename(call.principal, call.uuid("factor_id", "second factor"), body)
    return await own_list(call)


async def own_remove(call: Call) -> Reply:
    """Forget one."""
    body = decode(_password, call.body, field_names(OwnPasswordBody))
    await call.control.factors.remove(call.principal, call.uuid("factor_id", "second factor"), body.password)
    return await own_list(call)


async def recovery_make(call: Call) -> Reply:
    """New recovery codes."""
    body = decode(_password, call.body, field_names(OwnPasswordBody))
    codes = await call.control.factors.new_recovery(call.principal, body.password)
    return answer(201, RecoveryCodesView(recovery_codes=list(codes)), headers=_NO_STORE)


async def person_list(call: Call) -> Reply:
    """Those of a person."""
    found = await call.control.users.factors(call.principal, call.uuid("user_id", "user"))
    return answer(200, [factor_view(each) for each in found])


async def person_reset(call: Call) -> Reply:
    """Forget all of a person."""
    removed = await call.control.users.reset_factors(call.principal, call.uuid("user_id", "user"))
    return answer(200, FactorsRemovedView(removed=removed))


_OWN: Final = f"{API}/auth/second-factors"
_ONE: Final = f"{_OWN}/{{factor_id}}"
_PERSON: Final = f"{API}/users/{{user_id}}/second-factors"

FACTORS: Final = (
    Endpoint(
        method="GET", path=_OWN, name="listSecondFactors", tag="auth", signed_in=True,
        summary="The second factors of the person who asks.",
        handler=own_list, answers=(OwnFactorsView,),
    ),
    Endpoint(
        method="POST", path=_OWN, name="beginSecondFactor", tag="auth", signed_in=True, status=201,
        summary="Begin to enrol an app with codes (TOTP): the answer has its seed, shown only once.",
        description="It asks for the present password, and works once its first code is confirmed, within 30 minutes. "
        "Passkeys are enrolled in the pages.",
        handler=codes_begin, body=CodesBody, answers=(CodesEnrolmentView,), refuses=(409, 429, 503), secret=True,
        answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="POST", path=f"{_ONE}/confirm", name="confirmSecondFactor", tag="auth", signed_in=True,
        summary="Confirm an app by its first code. The first factor ends all sessions of the person.",
        description="With the first factor the answer has ten recovery codes, shown only once: sign in again with the "
        "password and a code.",
        handler=codes_confirm, body=CodeBody, answers=(RecoveryCodesView,), refuses=(404, 429), secret=True,
        answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="PATCH", path=_ONE, name="renameSecondFactor", tag="auth", signed_in=True,
        summary="Give a second factor another name. It asks for the present password.",
        handler=own_rename, body=FactorChangeBody, answers=(OwnFactorsView,), refuses=(404, 429),
    ),
    Endpoint(
        method="POST", path=f"{_ONE}/remove", name="removeSecondFactor", tag="auth", signed_in=True,
        summary="Remove a second factor. It asks for the present password.",
        description="The last one of a person whose role requires one stays. With the last one, the recovery codes go "
        "too.",
        handler=own_remove, body=OwnPasswordBody, answers=(OwnFactorsView,), refuses=(404, 409, 429), secret=True,
    ),
    Endpoint(
        method="POST", path=f"{API}/auth/recovery-codes", name="createRecoveryCodes", tag="auth", signed_in=True,
        summary="Make ten recovery codes, shown only once. Earlier ones stop working.",
        description="It asks for the present password. Each code stands in for a second factor once.", status=201,
        handler=recovery_make, body=OwnPasswordBody, answers=(RecoveryCodesView,), refuses=(429,), secret=True,
        answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="GET", path=_PERSON, control=UserService.factors, name="listUserSecondFactors", tag="users",
        summary="The second factors of a person.",
        handler=person_list, answers=(list[FactorView],), refuses=(404,),
    ),
    Endpoint(
        method="DELETE", path=_PERSON, control=UserService.reset_factors, name="resetSecondFactors", tag="users",
        summary="Remove all second factors and recovery codes of a person, who has lost them. All sessions end.",
        description="The person is told at the next sign-in to the pages. A role that requires a second factor has "
        "the person enrol one then.",
        handler=person_reset, answers=(FactorsRemovedView,), refuses=(404,),
    ),
)  # fmt: skip
