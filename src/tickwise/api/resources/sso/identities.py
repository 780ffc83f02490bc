"""`/users/{id}/identities`: people tied to the provider by an administrator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API
from tickwise.control.people.sso.identities import IdentityBody, IdentityService
from tickwise.ports.identity.identities import Identity

_identity: Final = msgspec.json.Decoder(IdentityBody)
_PATH: Final = f"{API}/users/{{user_id}}/identities"


class IdentityView(msgspec.Struct, kw_only=True):
    """A person at a provider."""

    issuer: str
    subject: str
    """The claim `sub`."""


async def identities_list(call: Call) -> Reply:
    """The identities of a person."""
    return answer(200, _views(await call.control.identities.of_user(call.principal, call.uuid("user_id", "user"))))


async def identity_link(call: Call) -> Reply:
    """Tie an identity to a person."""
    body = decode(_identity, call.body, field_names(IdentityBody))
    user_id = call.uuid("user_id", "user")
    return answer(200, _views(await call.control.identities.link(call.principal, user_id, body)))


async def identities_unlink(call: Call) -> Reply:
    """Take all identities of a person away."""
    return answer(200, _views(await call.control.identities.unlink(call.principal, call.uuid("user_id", "user"))))


def _views(found: Sequence[Identity]) -> list[IdentityView]:
    return [IdentityView(issuer=each.issuer, subject=each.subject) for each in found]


IDENTITIES: Final = (
    Endpoint(
        method="GET", path=_PATH, control=IdentityService.of_user, name="listIdentities", tag="users",
        summary="The identities at providers by which a person signs in.",
        handler=identities_list, answers=(list[IdentityView],), refuses=(404,),
    ),
    Endpoint(
        method="PUT", path=_PATH, control=IdentityService.link, name="linkIdentity", tag="users",
        summary="Link a person to an identity at the provider, which may then do all that the person may do.",
        description="For administrators of the installation who may do all that the person may. The same again "
        "changes nothing.",
        handler=identity_link, body=IdentityBody, answers=(list[IdentityView],), refuses=(404, 409),
    ),
    Endpoint(
        method="DELETE", path=_PATH, control=IdentityService.unlink, name="unlinkIdentities", tag="users",
        summary="Remove all identities of a person, and return them. Browser sessions that they began end.",
        handler=identities_unlink, answers=(list[IdentityView],), refuses=(404,),
    ),
)  # fmt: skip
