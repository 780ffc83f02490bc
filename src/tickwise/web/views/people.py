"""People: the list, one person with roles, and the forms that invite, change and deactivate; and the page on which a
person chooses a password by a link.

The secret of a link is on one page, once: the answer to the form that made it. Nothing that is kept has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.access import holds_everywhere
from tickwise.control.people.users import LinkUseBody, RoleBody, SeenUser, UserBody, UserChangeBody, UserService
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Busy, Conflict, Forbidden, Invalid, Refused, TickwiseError, Unauthenticated
from tickwise.domain.permissions import Permission, Role
from tickwise.ports.identity.factors import Factor
from tickwise.ports.identity.users import Member
from tickwise.web import forms
from tickwise.web.page import Handler, WebPage
from tickwise.web.transport import CLEAR_TEXT, CLEAR_TEXT_CURE
from tickwise.web.views.jobs import labels_of
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 50
TEXT_MAX: Final = 200
PASSWORD_MAX: Final = 1_024
VERSION_MOST: Final = 10**15
SEE_OTHER: Final = 303
SPENT: Final = (
    "this link does not work: it was used or is too old, another was made, or your roles or e-mail changed since; if "
    "you chose a password by it, sign in with that; else ask for a new one"
)
DONE: Final = {
    "added": "The account is there.",
    "changed": "The account is changed.",
    "given": "The role is given.",
    "taken": "The role is taken away. Tokens of before are refused.",
    "deactivated": "The account is deactivated: nobody signs in with it, and its sessions end.",
    "activated": "The account is active again.",
    "reset-factors": "The second factors are removed. The person is told at the next sign-in.",
}


async def users_page(visit: Visit) -> Response:
    """A page of people."""
    return await _list(visit)


async def _list(visit: Visit, fault: TickwiseError | None = None) -> Response:
    after = forms.identifier(visit.query.get("cursor"), "cursor")
    rows = await visit.control.users.page(visit.who, after, PAGE_SIZE + 1)
    shown = [each.row for each in rows[:PAGE_SIZE]]
    values = {
        "users": shown,
        **await _choices(visit),
        "may_add": visit.may(UserService.add),
        "typed": visit.form if fault is not None else {},
        "fault": fault,
        "fault_field": _field(fault),
        "next": visit.url("/users", cursor=shown[-1].user_id) if len(rows) > PAGE_SIZE else None,
        "first": visit.url("/users") if after else None,
    }
    return visit.page("users.html", values, _status(fault))


async def user_page(visit: Visit) -> Response:
    """One person."""
    return await _one(visit, await visit.control.users.get(visit.who, visit.uuid("user_id", "person")))


async def _one(visit: Visit, seen: SeenUser, fault: TickwiseError | None = None, link: str | None = None) -> Response:
    form = visit.request.url.path.rpartition("/")[2] if fault is not None else ""
    values = {
        "row": seen.row,
        "needs_link": seen.needs_link,
        **await _choices(visit),
        "may_change": visit.may(UserService.change),
        "factors": await _factors(visit, seen),
        "link": link,
        "typed": visit.form if fault is not None else {},
        "fault": fault,
        "fault_form": form,
        "fault_field": _field(fault),
        "done": DONE.get(visit.query.get("done", "")),
    }
    return visit.page("user.html", values, _status(fault))


async def _factors(visit: Visit, seen: SeenUser) -> Sequence[Factor]:
    """The second factors of the person, for administrators."""
    return await visit.control.users.factors(visit.who, seen.row.user_id) if visit.may(UserService.factors) else ()


async def _choices(visit: Visit) -> dict[str, Any]:
    """The roles and places that the visitor may choose from. Control judges what is chosen."""
    everywhere = holds_everywhere(visit.who, Permission.USERS_ADMIN)
    roles: Sequence[str] = list(Role)
    if visit.may(type(visit.control.access_roles).all):
        roles = [role.name for role in await visit.control.access_roles.all(visit.who, visit.who.namespace)]
    places = [*visit.spaces, INSTALLATION] if everywhere else [visit.who.namespace]
    return {"roles": roles, "places": places or [visit.who.namespace]}


def _field(fault: TickwiseError | None) -> str:
    """The field of the form that a refusal points at: `/roles/0/role` is `role`."""
    pointer = getattr(fault, "pointer", None) or ""
    parts = pointer.strip("/").split("/")
    return parts[2] if parts[0] == "roles" and len(parts) > 2 else "role" if parts[0] == "roles" else parts[0]


def _status(fault: TickwiseError | None) -> int:
    if fault is None:
        return 200
    return 403 if isinstance(fault, Forbidden) else 422 if isinstance(fault, Invalid) else 409


# ---------------------------------------------------------------------------------------------------- forms


async def add(visit: Visit) -> Response:
    """A new person; without a password, with a link that is shown once."""
    form = visit.form
    try:
        name = forms.text(form, "name", TEXT_MAX)
        if name is None:
            raise Invalid("give the person a name", pointer="/name")
        roles = [_role(form)] if form.get("role") else []
        body = UserBody(
            name=name,
            email=forms.text(form, "email", TEXT_MAX),
            password=form.get("password", "")[:PASSWORD_MAX] or None,
            roles=roles,
        )
        added = await visit.control.users.add(visit.who, body)
    except (Invalid, Conflict) as refusal:
        return await _listed(visit, refusal)
    if added.secret is None:
        return RedirectResponse(visit.url(f"/users/{added.user.row.user_id}", done="added"), SEE_OTHER)
    return await _linked(visit, added.user, added.secret)


async def _listed(visit: Visit, refusal: TickwiseError) -> Response:
    if not visit.may(UserService.page):
        raise refusal
    return await _list(visit, refusal)


async def _linked(visit: Visit, seen: SeenUser, secret: str) -> Response:
    """The page of a person with a link that is told this once."""
    address = visit.request.base_url.replace(path=f"/choose-password/{secret}", query="")
    return await _one(visit, seen, link=str(address))


def _role(form: Mapping[str, str]) -> RoleBody:
    labels = dict(labels_of((forms.text(form, "labels") or "").split(",")))
    return RoleBody(
        role=forms.text(form, "role", TEXT_MAX) or "",
        namespace=forms.text(form, "namespace", TEXT_MAX) or "",
        labels=labels or UNSET,
    )


async def _change(visit: Visit, user_id: UUID) -> str:
    name = forms.text(visit.form, "name", TEXT_MAX)
    if name is None:
        raise Invalid("give the person a name", pointer="/name")
    body = UserChangeBody(name=name, email=forms.text(visit.form, "email", TEXT_MAX), expected_version=_version(visit))
    await visit.control.users.change(visit.who, user_id, body)
    return "changed"


async def _give(visit: Visit, user_id: UUID) -> str:
    row = (await visit.control.users.get(visit.who, user_id)).row
    roles = [*map(_body_of, row.roles), _role(visit.form)]
    await visit.control.users.change(visit.who, user_id, UserChangeBody(roles=roles, expected_version=_version(visit)))
    return "given"


async def _take(visit: Visit, user_id: UUID) -> str:
    row = (await visit.control.users.get(visit.who, user_id)).row
    said = visit.form.get("member", "")
    kept = [member for member in row.roles if member_text(member) != said]
    if len(kept) == len(row.roles):
        raise Invalid("the person does not have this role", pointer="/member")
    body = UserChangeBody(roles=list(map(_body_of, kept)), expected_version=_version(visit))
    await visit.control.users.change(visit.who, user_id, body)
    return "taken"


async def _deactivate(visit: Visit, user_id: UUID) -> str:
    if visit.form.get("confirm") != "yes":
        raise Invalid("tick the box: the person is signed out everywhere", pointer="/confirm")
    body = UserChangeBody(active=False, expected_version=_version(visit))
    await visit.control.users.change(visit.who, user_id, body)
    return "deactivated"


async def _activate(visit: Visit, user_id: UUID) -> str:
    body = UserChangeBody(active=True, expected_version=_version(visit))
    await visit.control.users.change(visit.who, user_id, body)
    return "activated"


async def _reset_factors(visit: Visit, user_id: UUID) -> str:
    if visit.form.get("confirm") != "yes":
        raise Invalid("tick the box: the person is signed out everywhere", pointer="/confirm")
    await visit.control.users.reset_factors(visit.who, user_id)
    return "reset-factors"


async def reset(visit: Visit) -> Response:
    """A link with which the person chooses another password, shown once."""
    user_id = visit.uuid("user_id", "person")
    secret = await visit.control.users.reset(visit.who, user_id)
    seen = await visit.control.users.get(visit.who, user_id)
    return await _linked(visit, seen, secret)


def member_text(member: Member) -> str:
    """A role of a person as a form names it."""
    return "|".join((member.role, member.namespace, *(f"{name}={value}" for name, value in member.labels)))


def _body_of(member: Member) -> RoleBody:
    return RoleBody(role=member.role, namespace=member.namespace, labels=dict(member.labels) or UNSET)


def _version(visit: Visit) -> int | Any:
    """The version that the visitor saw: a change of somebody else in between is told."""
    version = forms.whole(visit.form.get("version"), "version", 1, VERSION_MOST)
    return UNSET if version is None else version


def _kept(handler: Callable[[Visit, UUID], Awaitable[str]]) -> Handler:
    """The handler of a form that keeps what was typed when control refuses it."""

    async def handled(visit: Visit) -> Response:
        user_id = visit.uuid("user_id", "person")
        try:
            done = await handler(visit, user_id)
        except (Invalid, Conflict) as refusal:
            return await _one(visit, await visit.control.users.get(visit.who, user_id), refusal)
        return RedirectResponse(visit.url(f"/users/{user_id}", done=done), SEE_OTHER)

    return handled


# ---------------------------------------------------------------------------------------------------- by a link


async def choose_page(visit: Visit) -> Response:
    """The form on which a person chooses a password by a link."""
    secret = visit.request.path_params["secret"][:TEXT_MAX]
    works = await visit.control.users.link_works(secret)
    return _choosing(visit, secret, None if works else Unauthenticated(SPENT))


async def choose(visit: Visit) -> Response:
    """Choose a password by a link; the sign-in follows."""
    secret, password = visit.form.get("secret", "")[:TEXT_MAX], visit.form.get("password", "")[:PASSWORD_MAX]
    if not visit.transport.is_private(visit.request):
        return _choosing(visit, secret)
    try:
        if not password or password != visit.form.get("password_again"):
            raise Invalid("type the same password twice")
        await visit.control.users.use_link(LinkUseBody(secret=secret, password=password), visit.origin)
    except (Invalid, Unauthenticated, Busy) as refusal:
        return _choosing(visit, secret, refusal)
    return RedirectResponse("/login?done=password", SEE_OTHER)


def _choosing(visit: Visit, secret: str, fault: Refused | TickwiseError | None = None) -> Response:
    private = visit.transport.is_private(visit.request)
    status = 200 if fault is None else 422 if isinstance(fault, Invalid) else 429 if isinstance(fault, Busy) else 401
    values = {
        "secret": secret,
        "fault": fault,
        "spent": isinstance(fault, Unauthenticated),
        "refused": None if private else CLEAR_TEXT,
        "cure": CLEAR_TEXT_CURE,
    }
    return visit.page("choose.html", values, status if private else 403)


def _form(name: str, handler: Callable[[Visit, UUID], Awaitable[str]]) -> WebPage:
    path = f"/users/{{user_id}}/{name}"
    return WebPage(method="POST", path=path, name=f"user_{name}", handler=_kept(handler), control=(UserService.change,))


PEOPLE: Final = (
    WebPage(
        method="GET",
        path="/users",
        name="users",
        query=("cursor", "done"),
        handler=users_page,
        control=(UserService.page,),
    ),
    WebPage(
        method="GET",
        path="/users/{user_id}",
        name="user",
        query=("done",),
        handler=user_page,
        control=(UserService.get,),
    ),
    WebPage(method="POST", path="/users", name="user_add", handler=add, control=(UserService.add,)),
    _form("change", _change),
    _form("give", _give),
    _form("take", _take),
    _form("deactivate", _deactivate),
    _form("activate", _activate),
    _form("reset-factors", _reset_factors),
    WebPage(
        method="POST",
        path="/users/{user_id}/reset",
        name="user_reset",
        handler=reset,
        control=(UserService.reset,),
    ),
    WebPage(method="GET", path="/choose-password/{secret}", name="choose_password", handler=choose_page, is_open=True),
    WebPage(method="POST", path="/choose-password", name="password_chosen", handler=choose, is_open=True),
)
