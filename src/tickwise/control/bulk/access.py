"""The permissions of operations: those of the things that an operation is about.

Which one an operation needs is known when it is found, so the method that is asked declares all of them, and the kind
decides here.
"""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

import msgspec

from tickwise.control.bulk.pages import OperationKind
from tickwise.control.context import ControlContext
from tickwise.domain.errors import Forbidden, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.selectors import Selector, is_inside, labels_from
from tickwise.ports.store import OperationRow

LOOK: Final = (
    Permission.RUNS_READ,
    Permission.RUNS_WRITE,
    Permission.JOBS_READ,
    Permission.JOBS_WRITE,
    Permission.JOBS_OPERATE,
)
"""Each of these lets a principal look at some operations."""

Action = Literal["read", "write"]


class _Bounds(msgspec.Struct):
    """The part of a stored request that says which jobs it is about at most."""

    only: list[dict[str, str]] | None = None


_bounds: Final = msgspec.json.Decoder(_Bounds)

_JOBS: Final = {"read": Permission.JOBS_READ, "write": Permission.JOBS_WRITE}
_OPERATED: Final = {"read": Permission.JOBS_READ, "write": Permission.JOBS_OPERATE}
_RUNS: Final = {"read": Permission.RUNS_READ, "write": Permission.RUNS_WRITE}
_OPERATED_KINDS: Final = frozenset({OperationKind.JOBS_PAUSE, OperationKind.JOBS_RESUME})


def may(who: Principal, kind: str, *actions: Action) -> bool:
    """Check whether the principal may do one of these with operations of a kind."""
    return any(who.may(permission) for permission in permissions_of_kind(kind, *actions))


def check_kind(who: Principal, kind: str, *actions: Action) -> None:
    """A principal that may ask for an operation may look at it and end it. Raises `Forbidden`."""
    if not may(who, kind, *actions):
        needed = " or ".join(permissions_of_kind(kind, *actions))
        raise Forbidden(
            f"the operation is one of {kind}, and {who.name!r} lacks the permission {needed} in the namespace "
            f"{who.namespace}; an administrator of it can give a role or a key that has it"
        )


async def find_operation(context: ControlContext, who: Principal, operation: UUID, *actions: Action) -> OperationRow:
    """One operation that the principal may do one of these with. A permission for jobs with certain labels is one for
    the operations that are about such jobs alone. Raises `NotFound`, `Forbidden`."""
    found = await context.store.operations.get(who.namespace, operation)
    if found is not None and may(who, found.kind, *actions):
        return found
    selector = () if found is None else who.selector(permissions_of_kind(found.kind, *actions))
    if found is not None and _is_about(found, selector):
        return found
    if found is None or selector or who.within is not None:
        raise NotFound(f"there is no operation {operation} in the namespace {who.namespace}")
    check_kind(who, found.kind, *actions)
    return found


def jobs_of_operation(row: OperationRow) -> Selector | None:
    """The jobs that an operation is about at most; None: any."""
    only = _bounds.decode(row.request).only
    return None if only is None else tuple(labels_from(each) for each in only)


def _is_about(row: OperationRow, selector: Selector) -> bool:
    """Check whether an operation is about jobs of the selector alone."""
    only = jobs_of_operation(row)
    return only is not None and is_inside(only, selector)


def permissions_of_kind(kind: str, *actions: Action) -> list[Permission]:
    """The permissions that allow one of these with operations of a kind. Operations on dead letters need those of runs,
    as the routes of dead letters do."""
    if kind in _OPERATED_KINDS:
        by_action = _OPERATED
    else:
        by_action = _JOBS if kind.startswith(("jobs:", "job:")) else _RUNS
    return [by_action[action] for action in actions]
