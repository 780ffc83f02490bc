"""`/users`: people, their roles, and the links that admit them."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, Secret, answer, cursor_id, page_links
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.people.roles import KnownRole, RolePermissionsBody, RoleService
from tickwise.control.people.users import (
    LinkUseBody,
    PasswordBody,
    RegisterBody,
    SeenUser,
    UserBody,
    UserChangeBody,
    UserService,
)

_user: Final = msgspec.json.Decoder(UserBody)
_register: Final = msgspec.json.Decoder(RegisterBody)
_change: Final = msgspec.json.Decoder(UserChangeBody)
_link: Final = msgspec.json.Decoder(LinkUseBody)
_role: Final = msgspec.json.Decoder(RolePermissionsBody)
_password: Final = msgspec.json.Decoder(PasswordBody)


class UsersQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The page of the list."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class MemberView(msgspec.Struct, kw_only=True):
    """A role in a namespace."""

    role: str
    namespace: str
    """`*`: each one, and the installation itself."""
    labels: dict[str, str]
    """The role holds for jobs that have all of these; empty: for all jobs."""


class UserView(msgspec.Struct, kw_only=True):
    """A person."""

    user_id: UUID
    name: str
    email: str | None
    roles: list[MemberView]
    """Those in the namespaces that the caller administers."""
    has_password: bool
    needs_link: bool
    """The password was chosen, or could be, by an administrator who holds less than the person does by now: it opens
    nothing. Make a link."""
    active: bool
    created_at: Instant
    created_by: str | None
    """Null: somebody whom the caller does not see."""
    signed_in_at: Instant | None
    version: int


class AddedUserView(UserView, kw_only=True):
    """A new person."""

    link: Secret | None
    """The secret of a link, told this once: with it the person chooses a password. Null: the person has one."""


class AccessRoleView(msgspec.Struct, kw_only=True):
    """A role that can be given in the namespace."""

    name: str
    permissions: list[str]
    labels: dict[str, str]
    """The permissions hold for jobs that have all of these; empty: for all jobs."""
    built_in: bool


class LinkView(msgspec.Struct, kw_only=True):
    """The secret of a link, told this once."""

    link: Secret


def user_view(user: SeenUser) -> UserView:
    """A person as they are answered."""
    row = user.row
    return UserView(
        user_id=row.user_id,
        name=row.name,
        email=row.email,
        roles=[MemberView(role=each.role, namespace=each.namespace, labels=dict(each.labels)) for each in row.roles],
        has_password=row.has_password,
        needs_link=user.needs_link,
        active=row.active,
        created_at=time_of(row.created_at),
        created_by=row.created_by or None,
        signed_in_at=time_or_none(row.signed_in_at),
        version=row.version,
    )


async def user_add(call: Call) -> Reply:
    """Add a person."""
    added = await call.control.users.add(call.principal, decode(_user, call.body, field_names(UserBody)))
    view = AddedUserView(**msgspec.structs.asdict(user_view(added.user)), link=added.secret)
    return answer(201, view, headers=[(b"cache-control", b"no-store")])


async def user_register(call: Call) -> Reply:
    """Register."""
    body = decode(_register, call.body, field_names(RegisterBody))
    return answer(201, user_view(await call.control.users.register(body, call.origin)))


async def users_list(call: Call) -> Reply:
    """A page of people, the newest first."""
    query: UsersQuery = call.query
    rows = await call.control.users.page(call.principal, cursor_id(query.cursor), query.limit + 1)
    page = rows[: query.limit]
    last = str(page[-1].row.user_id) if len(rows) > query.limit else None
    return answer(200, [user_view(row) for row in page], headers=page_links(call, last))


async def user_get(call: Call) -> Reply:
    """One."""
    return answer(200, user_view(await call.control.users.get(call.principal, call.uuid("user_id", "user"))))


async def user_change(call: Call) -> Reply:
    """Change one."""
    body = decode(_change, call.body, field_names(UserChangeBody))
    return answer(200, user_view(await call.control.users.change(call.principal, call.uuid("user_id", "user"), body)))


async def user_reset(call: Call) -> Reply:
    """A link for another password."""
    secret = await call.control.users.reset(call.principal, call.uuid("user_id", "user"))
    return answer(201, LinkView(link=secret), headers=[(b"cache-control", b"no-store")])


async def roles_list(call: Call) -> Reply:
    """The roles."""
    found = await call.control.access_roles.all(call.principal, call.path_values["namespace"])
    return answer(200, [_role_view(each) for each in found])


async def role_put(call: Call) -> Reply:
    """Make or replace a custom role."""
    body = decode(_role, call.body, field_names(RolePermissionsBody))
    namespace, name = call.path_values["namespace"], call.path_values["name"]
    role = await call.control.access_roles.put(call.principal, namespace, name, body)
    return answer(201 if role.is_new else 200, _role_view(role))


async def role_drop(call: Call) -> Reply:
    """Remove a custom role."""
    namespace, name = call.path_values["namespace"], call.path_values["name"]
    return answer(200, _role_view(await call.control.access_roles.drop(call.principal, namespace, name)))


def _role_view(role: KnownRole) -> AccessRoleView:
    return AccessRoleView(
        name=role.name,
        permissions=sorted(role.permissions),
        labels=dict(role.labels),
        built_in=role.is_built_in,
    )


async def link_use(call: Call) -> Reply:
    """Choose a password by a link."""
    body = decode(_link, call.body, field_names(LinkUseBody))
    return answer(200, user_view(await call.control.users.use_link(body, call.origin)))


async def password_change(call: Call) -> Reply:
    """Another password for oneself."""
    body = decode(_password, call.body, field_names(PasswordBody))
    return answer(200, user_view(await call.control.users.change_password(call.principal, body)))


_ROLES: Final = f"{API}/namespaces/{{namespace}}/roles"

USERS: Final = (
    Endpoint(
        method="POST", path=f"{API}/users", control=UserService.add, name="createUser", tag="users",
        summary="Add a person. Without a password the answer has a link with which the person chooses one.",
        description="Nobody gives a role that holds more than their own permissions. The answer is not kept, so an "
        "Idempotency-Key has no effect; a name or an e-mail belongs to one person.",
        handler=user_add, body=UserBody, answers=(AddedUserView,), status=201, refuses=(404, 409), secret=True,
        answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="POST", path=f"{API}/users/register", name="registerUser", tag="users",
        summary="Register oneself, where the setting `registration` is `open`.",
        description="The person gets the role of the setting `registration_role` in the namespace `default`.",
        handler=user_register, body=RegisterBody, answers=(UserView,), status=201, refuses=(403, 409, 429, 503),
        secret=True,
    ),
    Endpoint(
        method="POST", path=f"{API}/users/links", name="useLink", tag="users",
        summary="Choose a password with the secret of an invitation or a reset. A link works once.",
        handler=link_use, body=LinkUseBody, answers=(UserView,), refuses=(401, 429, 503), secret=True,
    ),
    Endpoint(
        method="POST", path=f"{API}/users/password", name="changePassword", tag="users", signed_in=True,
        summary="Choose another password for oneself. All sessions end, and open links stop working.",
        handler=password_change, body=PasswordBody, answers=(UserView,), refuses=(412,), secret=True,
    ),
    Endpoint(
        method="GET", path=_ROLES, control=RoleService.all, name="listAccessRoles", tag="users",
        summary="The roles that can be given in the namespace: the built-in ones, then its own by name.",
        handler=roles_list, answers=(list[AccessRoleView],), refuses=(404,),
    ),
    Endpoint(
        method="PUT", path=f"{_ROLES}/{{name}}", control=RoleService.put, name="putAccessRole", tag="users",
        summary="Make a custom role of the namespace, or replace its permissions.",
        description="`*` in place of the namespace is the whole installation. Nobody makes or changes a role that "
        "holds more than their own permissions. A change ends the tokens of the people who have the role, within 4 "
        "seconds.",
        handler=role_put, body=RolePermissionsBody, answers=(AccessRoleView,), further=(201,), refuses=(404,),
    ),
    Endpoint(
        method="DELETE", path=f"{_ROLES}/{{name}}", control=RoleService.drop, name="removeAccessRole",
        tag="users", summary="Remove a custom role that no person has, and return it.",
        handler=role_drop, answers=(AccessRoleView,), refuses=(404, 409),
    ),
    Endpoint(
        method="GET", path=f"{API}/users", control=UserService.page, name="listUsers", tag="users",
        summary="People, the newest first: members of the namespace; all for an administrator of the installation.",
        handler=users_list, answers=(list[UserView],), query=UsersQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/users/{{user_id}}", control=UserService.get, name="getUser", tag="users",
        summary="One person.", handler=user_get, answers=(UserView,), refuses=(404,),
    ),
    Endpoint(
        method="PATCH", path=f"{API}/users/{{user_id}}", control=UserService.change, name="changeUser", tag="users",
        summary="Change name, e-mail, roles or `active` of a person.",
        description="`roles` replaces those in the namespaces that the caller administers. A change of roles or of "
        "`active` ends the sessions of the person; it ends their open links too, as does one of the e-mail. The last "
        "administrator of the installation stays.",
        handler=user_change, body=UserChangeBody, answers=(UserView,), refuses=(404, 409, 412),
    ),
    Endpoint(
        method="POST", path=f"{API}/users/{{user_id}}/reset", control=UserService.reset, name="resetPassword",
        tag="users", summary="Make a link with which a person chooses another password. Earlier links stop working.",
        handler=user_reset, answers=(LinkView,), status=201, refuses=(404, 412), secret=True,
        answer_headers=("Cache-Control",),
    ),
)  # fmt: skip
