"""The rights of callers over keys: which they see, and which they may end."""

from __future__ import annotations

from dataclasses import replace

from tickwise.control.access import holds_everywhere
from tickwise.domain.callers import INSTALLATION, Caller
from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission, contains
from tickwise.ports.identity import KeyRow


def scope_of(who: Principal) -> str | None:
    """The namespace whose keys the caller sees; None: those of all namespaces."""
    return None if holds_everywhere(who, Permission.KEYS_ADMIN) else who.namespace


def seen_in(namespace: str, row: KeyRow) -> KeyRow:
    """The key as the administrators of a namespace see it: whole, if the namespace is its home."""
    return row if row.namespace == namespace else guest(namespace, row)


def guest(namespace: str, row: KeyRow) -> KeyRow:
    """The part of a key that concerns one of its namespaces: nothing tells of the others."""
    return replace(
        row, namespace=namespace, namespaces=frozenset({namespace}), prefix=None, created_by=None, owner_id=None
    )


def check_weaker(who: Principal, key: Caller, action: str = "revoke") -> None:
    """Raises `Forbidden` if the key may do more than the caller: an administrator of the keys of one namespace does not
    stop the programs of others, nor their administrators, and does not become one of them."""
    for grant in key.grants:
        if not contains(who.permissions_in(grant.namespace, grant.labels), grant.permissions):
            place = "all namespaces" if grant.namespace == INSTALLATION else grant.namespace
            raise Forbidden(
                f"the key {key.name} may do more than you in {place}: ask an administrator "
                f"{'of the installation' if grant.namespace != who.namespace else f'of {place}'} to {action} it"
            )
