"""The permission that each public method of a service needs, declared on the method and checked before it runs.

    api, pages, messages ──► @requires(Permission.JOBS_WRITE) ──► the method
                                  └─ Forbidden, before anything is looked up
    scheduler, recorder  ──► the parts that services are made of: no check here; `askers` looks again at who asked

A permission may hold for jobs with certain labels alone (`domain.selectors`). A method that heeds labels says so
(`by_labels=True`), and is called with a principal that is bound to these jobs (`Principal.within`). Any other method is
refused: a method that nobody thought about lets nobody further.

Invariant: a service calls parts, never a guarded method of another service. So a write never needs a read permission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, Permission
from tickwise.domain.selectors import in_words, matches

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
    by_labels: bool = False
    """The method heeds `Principal.within`, so a permission for jobs with certain labels is enough."""


def requires(
    *permissions: Permission,
    by_labels: bool = False,
) -> Callable[[Callable[Concatenate[S, Principal, P], R]], Callable[Concatenate[S, Principal, P], R]]:
    """Declare the permission that a method needs; one of several is enough. The principal is the first argument. With
    `by_labels`, the method keeps to the jobs that `Principal.within` is about.

    The check runs at the call, not at the await: a refused call makes no coroutine.
    """
    if not permissions:
        raise ValueError("name a permission, or declare requires_none with a reason")
    # Plain texts: the hash of a member of an enum is Python's own code, at several times the cost of the look-up.
    names = tuple(each.value for each in permissions)
    usual = names[0]

    def declare(method: Callable[Concatenate[S, Principal, P], R]) -> Callable[Concatenate[S, Principal, P], R]:
        @wraps(method)
        def guarded(service: S, who: Principal, /, *args: P.args, **kwargs: P.kwargs) -> R:
            scopes = who.scopes
            if usual not in scopes and EVERYTHING not in scopes:
                who = admitted(who, *names, by_labels=by_labels)
            return method(service, who, *args, **kwargs)

        guarded.__dict__[_ACCESS] = Access(permissions, by_labels=by_labels)
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
    found: Access | None = getattr(method, "__dict__", {}).get(_ACCESS)
    return found


def permissions_of(method: Callable[..., Any]) -> tuple[Permission, ...]:
    """The permissions of which the method needs one, for a check at the edge. Raises `TypeError` if it needs none."""
    access = access_of(method)
    if access is None or not access.permissions:
        raise TypeError(f"{method.__qualname__} declares no permission; a route needs one")
    return access.permissions


def heeds_labels(method: Callable[..., Any]) -> bool:
    """Check whether a permission for jobs with certain labels is enough for the method."""
    access = access_of(method)
    return access is not None and access.by_labels


def admitted(who: Principal, *permissions: str, by_labels: bool = False) -> Principal:
    """The principal of a call that needs one of the permissions, bound to the jobs for which it has one. Raises
    `Forbidden`."""
    if not who.scopes.isdisjoint(permissions) or EVERYTHING in who.scopes:
        return who
    selector = who.selector(permissions)
    if selector and by_labels:
        return who.bound_to(selector)
    needed = " or ".join(permissions)
    if selector:
        raise Forbidden(
            f"the caller has the permission {needed} for jobs with the labels {in_words(selector)} alone, and this is "
            "about more than such jobs; ask for a role or a key without labels"
        )
    raise Forbidden(
        f"{who.name!r} lacks the permission {needed} in the namespace {who.namespace}; an administrator of it can give "
        "a role or a key that has it"
    )


def check_labels(who: Principal, labels: Mapping[str, str]) -> None:
    """Raises `Forbidden` unless the call may be about a job with these labels."""
    if who.within is not None and not matches(labels, who.within):
        raise Forbidden(
            f"the caller may do this for jobs with the labels {in_words(who.within)} alone: give the job these labels",
            pointer="/labels",
        )


def holds_everywhere(who: Principal, permission: Permission) -> bool:
    """Check whether the permission holds in each namespace, and for the installation itself."""
    return permission in who.everywhere or EVERYTHING in who.everywhere


def check_namespace(who: Principal, namespace: str) -> None:
    """Raises `Forbidden` if a query is about another namespace than that of the principal."""
    if namespace != who.namespace:
        raise Forbidden(f"this key sees the namespace {who.namespace} alone")
