"""The secrets of our own store that the tasks of jobs name, and those of them that are not there.

A secret may come after the job that names it, so what is missing is a warning. It is told only to callers that may
see the names of secrets: to others it would tell which there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from tickwise.control.context import ControlContext
from tickwise.domain.errors import Invalid
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, Permission
from tickwise.domain.secrets.places import SECRET, references_in
from tickwise.domain.secrets.references import OWN_PROVIDER, read_reference
from tickwise.ports.store.secrets import SecretQuery

ASKED_MOST: Final = 20
"""Names that one request is told about."""
_WORD: Final = SECRET.encode()


def may_be_told(who: Principal, tasks: Iterable[bytes]) -> bool:
    """Check whether a look is worth it: the caller may see names, and a task may name a secret."""
    return not who.scopes.isdisjoint((Permission.SECRETS_READ, EVERYTHING)) and any(_WORD in task for task in tasks)


async def missing_secrets(context: ControlContext, who: Principal, tasks: Iterable[bytes]) -> frozenset[str]:
    """The names in these tasks of secrets that are not in the caller's namespace. Tasks that cannot be read name
    none."""
    found: set[str] = set()
    for name in sorted({name for task in tasks for name in own_names(task)})[:ASKED_MOST]:
        if not await context.store.secrets.find(SecretQuery(namespace=who.namespace, name=name, limit=1)):
            found.add(name)
    return frozenset(found)


def own_names(task: bytes) -> frozenset[str]:
    """The names of the secrets of our own store in a task; none for one that its check will refuse."""
    if _WORD not in task:
        return frozenset()
    try:
        said: Any = msgspec.json.decode(task)
        references = [read_reference(text) for text in references_in(said)]
    except (msgspec.MsgspecError, Invalid, AttributeError, TypeError, ValueError, RecursionError):
        return frozenset()
    return frozenset(each.name for each in references if each is not None and each.provider == OWN_PROVIDER)


def warnings_of(task: bytes, missing: frozenset[str]) -> tuple[str, ...]:
    """The warnings about a checked task."""
    if not missing:
        return ()
    return tuple(
        f"there is no secret {name!r} in this namespace yet; set it before the first run: tickwise secrets set {name}"
        for name in sorted(own_names(task) & missing)
    )
