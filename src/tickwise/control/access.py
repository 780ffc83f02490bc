"""The permission that each public method of a service needs, declared on the method and checked before it runs.

    api, pages, messages ──► @requires(Permission.JOBS_WRITE) ──► the method
                                  └─ Forbidden, before anything is looked up
    scheduler, recorder  ──► the parts that services are made of: no check here; `askers` looks again at who asked

Invariant: a service calls parts, never a guarded method of another service. So a write never needs a read permission.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, Permission

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_ACCESS: Final = "tickwise_access"


class Access(NamedTuple):
    """The declaration of one method."""

    permissions: tuple[Permission, ...]
    """Each of these alone is enough. Empty: the method needs none."""
    reason: str = ""
    """The reason why the method needs no permission."""


def requires(
    *permissions: Permission,
) -> Callable[[Callable[Concatenate[S, Principal, P], R]], Callable[Concatenate[S, Principal, P], R]]:
    """Declare the permission that a method needs; one of several is enough. The principal is the first argument.

    The check runs at the call, not at the await: a refused call makes no coroutine.
    """
    if not permissions:
        raise ValueError("name a permission, or declare requires_none with a reason")
    usual = permissions[0].value

    def declare(method: Callable[Concatenate[S, Principal, P], R]) -> Callable[Concatenate[S, Principal, P], R]:
        @wraps(method)
        def guarded(service: S, who: Principal, /, *args: P.args, **kwargs: P.kwargs) -> R:
            scopes = who.scopes
            if usual not in scopes and EVERYTHING not in scopes:
                check(who, *permissions)
            return method(service, who, *args, **kwargs)

        guarded.__dict__[_ACCESS] = Access(permissions)
        return guarded

    return declare


def requires_none(reason: str) -> Callable[[F], F]:
    """Declare that a method needs no permission, and why."""

    def declare(method: F) -> F:
        method.__dict__[_ACCESS] = Access((), reason)
        return method

    return declare


def access_of(method: Callable[..., Any]) -> Access | None:
    """The declaration of a method. None: there is none."""
    found: Access | None = method.__dict__.get(_ACCESS)
    return found


def permissions_of(method: Callable[..., Any]) -> tuple[Permission, ...]:
    """The permissions of which the method needs one, for a check at the edge. Raises `TypeError` if it needs none."""
    access = access_of(method)
    if access is None or not access.permissions:
        raise TypeError(f"{method.__qualname__} declares no permission; a route needs one")
    return access.permissions


def check(who: Principal, *permissions: Permission) -> None:
    """Raises `Forbidden` unless one of the permissions is granted."""
    if not any(who.may(permission) for permission in permissions):
        raise Forbidden(f"the caller lacks the permission {' or '.join(permissions)} in the namespace {who.namespace}")


def holds_everywhere(who: Principal, permission: Permission) -> bool:
    """Check whether the permission holds in each namespace, and for the installation itself."""
    return permission in who.everywhere or EVERYTHING in who.everywhere


def check_namespace(who: Principal, namespace: str) -> None:
    """Raises `Forbidden` if a query is about another namespace than that of the principal."""
    if namespace != who.namespace:
        raise Forbidden(f"this key sees the namespace {who.namespace} alone")
