"""A caller of several namespaces, and the principal that it is in one of them.

    key, token ──authenticated──► Caller ──names a namespace──► Principal ──► every method of control

A grant says: these permissions, in this namespace (`*`: in each one), for jobs that have these labels. A caller has the
permissions of all grants that hold in a namespace. Their labels stay apart: a person who may read everything, and write
jobs of one team, does not write the jobs of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.permissions import closed, narrowed
from tickwise.domain.selectors import Labels, RestrictedGrant, combined

INSTALLATION: Final = "*"
"""The namespace of a grant that holds in each namespace, and for the installation itself."""


class Asker(NamedTuple):
    """The credential behind a request that is carried out later. What it may do is looked up then."""

    key_id: UUID | None = None
    user_id: UUID | None = None
    """The person who was signed in; None: a key was sent."""
    owner_id: UUID | None = None
    """The person whose key it was; for the record."""

    @classmethod
    def of(cls, who: Principal) -> Asker | None:
        """The credential of a principal. None: no request is behind it."""
        found = cls(who.key_id, who.user_id, who.owner_id)
        return None if (who.key_id, who.user_id) == (None, None) else found


class Grant(NamedTuple):
    """Permissions in a namespace."""

    namespace: str
    permissions: frozenset[str]
    labels: Labels = ()
    """It holds for jobs that have all of these; none: for all jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated key or person."""

    name: str
    home: str
    """The namespace of requests that name none."""
    grants: tuple[Grant, ...]
    key_id: UUID | None = None
    user_id: UUID | None = None
    owner_id: UUID | None = None
    """The person who lends a key their permissions; None: nobody does."""
    session_id: UUID | None = None
    """The session of the token that was shown."""
    expires_at: float | None = None
    """The time at which the key expires, since no key outlives its maker; None: it does not expire. A token ends
    sooner."""
    secret: int = 0
    """The number of the key's secret that was shown."""
    by_token: bool = False
    """True if a token was shown: one of a key may do what the key may, and not rotate it."""
    _principals: dict[str, Principal] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of_key(
        cls,
        principal: Principal,
        namespaces: Iterable[str] | None = None,
        labels: Labels = (),
        *,
        secret: int = 0,
    ) -> Caller:
        """The caller that shows a key: it has the permissions of `principal` in each of the namespaces, for jobs with
        these labels. None: in that of the principal alone."""
        places = (principal.namespace,) if namespaces is None else sorted(namespaces)
        return cls(
            name=principal.name,
            home=principal.namespace,
            grants=tuple(Grant(place, principal.scopes, labels) for place in places),
            key_id=principal.key_id,
            owner_id=principal.owner_id,
            expires_at=principal.expires_at,
            secret=secret,
        )

    def cut_to(self, grants: Iterable[Grant]) -> Caller:
        """The caller with the permissions that these grants hold, too."""
        bounds = tuple(grants)
        both = (_both(mine, bound) for mine in self.grants for bound in bounds)
        return replace(self, grants=tuple(grant for grant in both if grant is not None), _principals={})

    def principal(self, namespace: str | None = None) -> Principal:
        """The caller in one of its namespaces; None: its own, where it may have no permission at all, as a person
        without roles. Raises `Forbidden`, whether or not there is such a namespace: asking for names tells none."""
        place = self.home if namespace is None else namespace
        found = self._principals.get(place)
        if found is None:
            found = self._principal(place)
            self._principals[place] = found
        return found

    def _principal(self, namespace: str) -> Principal:
        grants = [grant for grant in self.grants if grant.namespace in (namespace, INSTALLATION)]
        if not grants and namespace != self.home:
            raise Forbidden(f"{self.name} has no permission in the namespace {namespace[:100]!r}")
        whole = [grant for grant in grants if not grant.labels]
        return Principal(
            self.name,
            namespace,
            closed(permission for grant in whole for permission in grant.permissions),
            key_id=self.key_id,
            expires_at=self.expires_at,
            user_id=self.user_id,
            owner_id=self.owner_id,
            secret=self.secret,
            by_token=self.by_token,
            everywhere=closed(
                permission for grant in whole if grant.namespace == INSTALLATION for permission in grant.permissions
            ),
            restricted=tuple(
                RestrictedGrant(closed(grant.permissions), grant.labels, grant.namespace == INSTALLATION)
                for grant in grants
                if grant.labels
            ),
        )

    @property
    def namespaces(self) -> Mapping[str, frozenset[str]]:
        """The permissions by the namespace of the grants; `*` stands for each one."""
        found: dict[str, frozenset[str]] = {}
        for grant in self.grants:
            found[grant.namespace] = found.get(grant.namespace, frozenset()) | grant.permissions
        return found


@lru_cache(maxsize=1024)
def rights_digest(grants: tuple[Grant, ...]) -> bytes:
    """A digest of grants: equal for equal permissions, namespaces and labels."""
    rights = sorted((each.namespace, sorted(each.permissions), sorted(each.labels)) for each in grants)
    return sha256(repr(rights).encode()).digest()


def _both(one: Grant, other: Grant) -> Grant | None:
    """The permissions of both, where both hold; None: there are none."""
    places = {one.namespace, other.namespace} - {INSTALLATION}
    permissions = narrowed(one.permissions, other.permissions)
    labels = combined(one.labels, other.labels)
    if len(places) > 1 or not permissions or labels is None:
        return None
    return Grant(min(places, default=INSTALLATION), permissions, labels)
