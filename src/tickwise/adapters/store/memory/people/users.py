"""People, their roles and their sessions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.records import LinkRecord, SessionRecord, UserRecord
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.audit import AuditEntry, by_person
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.domain.permissions import Role
from tickwise.ports.identity.identities import identity_taken
from tickwise.ports.identity.sessions import MAX_SESSIONS, NewSession, PublicKey, Rotated, Rotation
from tickwise.ports.identity.users import (
    Member,
    NewLink,
    NewUser,
    RoleRow,
    SignIn,
    UserChange,
    UserRow,
    check_administrator,
    check_judged,
    check_roles,
    user_changed,
    user_exists,
)

RETIRED_SECONDS = 3_600.0


class Users(Duty):
    """`UserStore` of the port."""

    async def add(self, user: NewUser, *, audit: AuditEntry | None = None) -> UserRow:
        people = self._state.people
        found = people.get(user.user_id)
        if found is not None:
            return found.row
        check_roles(user.roles, self._state.custom_roles, user.known_roles)
        self._state.check_open(*(each.namespace for each in user.roles))
        self._check_names(user.user_id, user.name, user.name_key, user.email_key, user.looks)
        if user.identity is not None and user.identity in self._state.identities:
            raise identity_taken()
        row = UserRow(
            user_id=user.user_id,
            name=user.name,
            email=user.email,
            roles=tuple(sorted(user.roles)),
            has_password=user.password is not None,
            active=True,
            generation=1,
            created_at=self._state.now(),
            created_by=user.created_by,
            signed_in_at=None,
            version=1,
            password_limit=user.password_limit,
        )
        people[user.user_id] = UserRecord(
            row=row, name_key=user.name_key, email_key=user.email_key, password=user.password, looks=user.looks
        )
        if user.identity is not None:
            self._state.identities[user.identity] = user.user_id
        self._state.audit.write(audit)
        return row

    async def get(self, user_id: UUID) -> UserRow | None:
        found = self._state.people.get(user_id)
        return None if found is None else found.row

    async def sign_in(self, key: str) -> SignIn | None:
        for each in self._state.people.values():
            if key in (each.name_key, each.email_key):
                return SignIn(each.row, each.password)
        return None

    async def page(self, namespace: str | None, *, after: UUID | None, limit: int) -> Sequence[UserRow]:
        rows = [
            each.row
            for user_id, each in self._state.people.items()
            if (after is None or user_id < after)
            and (namespace is None or any(member.namespace == namespace for member in each.row.roles))
        ]
        return sorted(rows, key=lambda row: row.user_id, reverse=True)[:limit]

    async def change(self, change: UserChange, *, audit: AuditEntry | None = None) -> UserRow:
        row = change.row
        found = self._state.people.get(row.user_id)
        if found is None:
            raise NotFound(f"there is no user {row.user_id}")
        if change.is_done(SignIn(found.row, found.password)):
            return found.row
        if found.row.version != row.version:
            raise VersionConflict(f"the user is at version {found.row.version}, not {row.version}: look again")
        check_roles(row.roles, self._state.custom_roles, change.known_roles)
        self._state.check_open(*(each.namespace for each in set(row.roles) - set(found.row.roles)))
        looks = change.looks if row.name != found.row.name else ()
        self._check_names(row.user_id, row.name, change.name_key, change.email_key, looks)
        before, former = self._administrators(), found.row
        password = found.password if change.password is None else change.password
        found.row = replace(
            row,
            roles=tuple(sorted(row.roles)),
            version=row.version + 1,
            generation=former.generation + change.ends_tokens(former),
            has_password=password is not None,
            created_at=former.created_at,
            created_by=former.created_by,
            signed_in_at=former.signed_in_at,
            password_limit=former.password_limit,
        )
        try:
            check_administrator(before, self._administrators())
        except Conflict:
            found.row = former
            raise
        found.name_key, found.email_key, found.password = change.name_key, change.email_key, password
        found.looks = change.looks
        if change.ends_links(former):
            _end_links(self._state, [row.user_id])
        self._state.audit.write(audit)
        return found.row

    async def link(self, link: NewLink, *, audit: AuditEntry | None = None) -> None:
        links = self._state.user_links
        if link.digest in links:
            return
        person = self._state.people.get(link.user_id)
        if person is None or person.row.generation != link.generation:
            raise user_changed()
        for digest, each in [*links.items()]:
            if (each.link.user_id, each.link.kind) == (link.user_id, link.kind):
                del links[digest]
        links[link.digest] = LinkRecord(link=link, expires_at=self._state.now() + link.seconds)
        self._state.audit.write(audit)

    async def link_holder(self, digest: bytes) -> UserRow | None:
        found = self._state.user_links.get(digest)
        if found is None or found.is_used or found.expires_at <= self._state.now():
            return None
        row = self._state.people[found.link.user_id].row
        return row if row.active else None

    async def use_link(self, digest: bytes, password: str, *, audit: AuditEntry | None = None) -> UserRow | None:
        found = self._state.user_links.get(digest)
        if found is None or found.is_used or found.expires_at <= self._state.now():
            return None
        found.is_used = True
        person = self._state.people[found.link.user_id]
        if not person.row.active:
            return None
        person.password = password
        person.row = replace(
            person.row,
            has_password=True,
            generation=person.row.generation + 1,
            version=person.row.version + 1,
            password_limit=found.link.password_limit,
        )
        _end_links(self._state, [person.row.user_id])
        self._state.audit.write(audit and by_person(audit, person.row.user_id, person.row.name))
        return person.row

    async def complete_looks(self, looks: Mapping[UUID, Sequence[str]], limit: int) -> Mapping[UUID, str]:
        for user_id, own in looks.items():
            person = self._state.people.get(user_id)
            if person is not None and person.looks is None:
                person.looks = tuple(own)
        without = [each.row for each in self._state.people.values() if each.looks is None][:limit]
        return {row.user_id: row.name for row in without}

    async def signed_in(self, user_id: UUID) -> None:
        person = self._state.people.get(user_id)
        if person is not None:
            person.row = replace(person.row, signed_in_at=self._state.now())

    def _administrators(self) -> int:
        admin = Member(INSTALLATION, Role.ADMIN)
        return sum(admin in each.row.roles and each.row.active for each in self._state.people.values())

    def _check_names(
        self, user_id: UUID, name: str, name_key: str, email_key: str | None, looks: Collection[str]
    ) -> None:
        for each in self._state.people.values():
            if each.row.user_id != user_id and (
                each.name_key == name_key
                or (email_key is not None and each.email_key == email_key)
                or not set(looks).isdisjoint(each.looks or ())
            ):
                raise user_exists(name)


class Roles(Duty):
    """`RoleStore` of the port."""

    async def all(self, namespace: str | None) -> Sequence[RoleRow]:
        return sorted(
            role
            for role in self._state.custom_roles.values()
            if namespace is None or role.namespace in (namespace, INSTALLATION)
        )

    async def put(
        self, role: RoleRow, *, judged: frozenset[RoleRow] | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        self._state.check_open(role.namespace, or_closing=False)
        if self._state.custom_roles.get((role.namespace, role.name)) != role:  # else it is done
            check_judged(role.namespace, role.name, self._state.custom_roles, judged)
        self._state.custom_roles[role.namespace, role.name] = role
        members = self._members(role.namespace, role.name)
        for person in members:
            person.row = replace(person.row, generation=person.row.generation + 1)
        ids = [person.row.user_id for person in members]
        _end_links(self._state, ids)
        self._state.audit.write(audit)
        return ids

    async def drop(
        self,
        namespace: str,
        name: str,
        *,
        judged: frozenset[RoleRow] | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        if (namespace, name) in self._state.custom_roles:
            check_judged(namespace, name, self._state.custom_roles, judged)
        if self._members(namespace, name):
            raise Conflict(f"people have the role {name}: give them another one first", code="role_in_use")
        dropped = self._state.custom_roles.pop((namespace, name), None) is not None
        if dropped:
            self._state.audit.write(audit)
        return dropped

    def _members(self, namespace: str, name: str) -> list[UserRecord]:
        return [
            person
            for person in self._state.people.values()
            if any(member.role == name and namespace in (member.namespace, INSTALLATION) for member in person.row.roles)
        ]


class Sessions(Duty):
    """`SessionStore` of the port."""

    async def begin(self, session: NewSession, *, audit: AuditEntry | None = None) -> None:
        families, now = self._state.sessions, self._state.now()
        if session.family not in families:
            families[session.family] = SessionRecord(
                session=session, rotated_at=now, ends_at=now + session.most_seconds
            )
            self._state.audit.write(audit)
        mine = [each for each in families.values() if each.session.user_id == session.user_id]
        mine.sort(key=lambda each: (each.rotated_at, each.session.family), reverse=True)
        for place, each in enumerate(mine):
            if place >= MAX_SESSIONS or now >= self._expires(each):
                del families[each.session.family]

    async def rotate(self, digest: bytes, next_digest: bytes, *, audit: AuditEntry | None = None) -> Rotated:
        for each in self._state.sessions.values():
            if each.session.digest == digest and self._works(each):
                each.used[digest] = next_digest
                each.session = replace(each.session, digest=next_digest)
                each.rotated_at = self._state.now()
                return Rotated(Rotation.ROTATED, each.session)
            if digest in each.used:
                if each.session.digest == next_digest and not each.is_revoked:
                    return Rotated(Rotation.ROTATED, each.session)
                each.is_revoked = True
                self._state.audit.write(audit and by_person(audit, each.session.user_id))
                return Rotated(Rotation.REUSED, replace(each.session, digest=digest))
        return Rotated(Rotation.UNKNOWN)

    async def revoke(
        self, *, digest: bytes | None = None, user_id: UUID | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        ended = [
            each
            for each in self._state.sessions.values()
            if each.session.user_id == user_id or each.session.digest == digest or digest in each.used
        ]
        for each in ended:
            each.is_revoked = True
        families = [each.session.family for each in ended]
        if audit is not None and families:
            self._state.audit.write(audit._replace(targets=families))
        return families

    async def is_good(self, family: UUID) -> bool:
        found = self._state.sessions.get(family)
        return found is not None and not found.is_revoked and self._state.now() < found.ends_at

    async def publish(self, key: PublicKey) -> Sequence[PublicKey]:
        self._state.token_keys.setdefault(key.key_id, replace(key, created_at=self._state.now(), retired_at=None))
        return await self.public_keys()

    async def public_keys(self) -> Sequence[PublicKey]:
        since = self._state.now() - RETIRED_SECONDS
        keys = [key for key in self._state.token_keys.values() if key.retired_at is None or key.retired_at > since]
        return sorted(keys, key=lambda key: (key.created_at, key.key_id))

    async def retire(self, key_id: str) -> None:
        found = self._state.token_keys.get(key_id)
        if found is not None and found.retired_at is None:
            self._state.token_keys[key_id] = replace(found, retired_at=self._state.now())

    def _expires(self, record: SessionRecord) -> float:
        return min(record.rotated_at + record.session.seconds, record.ends_at)

    def _works(self, record: SessionRecord) -> bool:
        person = self._state.people.get(record.session.user_id)
        return (
            not record.is_revoked
            and self._state.now() < self._expires(record)
            and person is not None
            and person.row.active
            and person.row.generation == record.session.generation
        )


def _end_links(state: State, people: Collection[UUID]) -> None:
    """Forget the links of these people that were not used."""
    for digest, each in [*state.user_links.items()]:
        if each.link.user_id in people and not each.is_used:
            del state.user_links[digest]
