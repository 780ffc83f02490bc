"""People: no two have a name, roles exist, the last administrator stays, and a link works once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.ports.identity.users import (
    LinkKind,
    Member,
    NewLink,
    NewUser,
    PasswordLimit,
    RoleRow,
    UserChange,
    UserRow,
)
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.factories import Factory

VIEWER = Member("default", "viewer")
ADMIN = Member("*", "admin")
HOUR = 3_600.0


def new_user(make: Factory, name: str = "ada", *roles: Member, **fields: Any) -> NewUser:
    """A person as control makes it."""
    email = f"{name}@example.org"
    whole: dict[str, Any] = {
        "user_id": make.identifier(), "name": name, "name_key": name, "email": email, "email_key": email,
        "password": f"hash of {name}", "roles": roles or (VIEWER,), "created_by": "admin", **fields,
    }  # fmt: skip
    return NewUser(**whole)


def changed(row: UserRow, password: str | None = None, **fields: Any) -> UserChange:
    """A change of the row as it was read."""
    new = replace(row, **fields)
    return UserChange(row=new, name_key=new.name, email_key=new.email, password=password)


def new_link(user: UserRow, secret: bytes = b"link", **fields: Any) -> NewLink:
    """A link as control makes it."""
    whole: dict[str, Any] = {
        "kind": LinkKind.RESET, "generation": user.generation, "seconds": HOUR, "created_by": "admin", **fields,
    }  # fmt: skip
    return NewLink(digest=sha256(secret).digest(), user_id=user.user_id, **whole)


class UsersContract(StoreContract):
    """`UserStore`: people."""

    async def test_a_person_is_found_by_id_name_and_email(self, store: Store, make: Factory) -> None:
        """The hash is told to a sign-in alone."""
        user = new_user(make, "ada", VIEWER, Member("billing", "developer"))
        row = await store.users.add(user)
        assert (row.name, row.email, row.active, row.has_password) == ("ada", "ada@example.org", True, True)
        assert row.roles == (Member("billing", "developer"), VIEWER)
        assert await store.users.get(user.user_id) == row
        for key in ("ada", "ada@example.org"):
            found = await store.users.sign_in(key)
            assert found is not None
            assert found == (row, "hash of ada")
        assert await store.users.sign_in("Ada") is None
        assert await store.users.get(make.identifier()) is None

    async def test_adding_twice_is_adding_once(self, store: Store, make: Factory) -> None:
        """After a commit whose answer was lost."""
        user = new_user(make)
        assert await store.users.add(user) == await store.users.add(user)
        assert len(await store.users.page(None, after=None, limit=10)) == 1

    async def test_no_two_people_have_a_name_or_an_email(self, store: Store, make: Factory) -> None:
        """As names are compared."""
        await store.users.add(new_user(make, "ada"))
        for twin in (new_user(make, "ada", email_key="b@c"), new_user(make, "bob", email_key="ada@example.org")):
            with pytest.raises(Conflict) as refused:
                await store.users.add(twin)
            assert refused.value.code == "user_exists"
        row = await store.users.add(new_user(make, "bob", email_key=None, email=None))
        with pytest.raises(Conflict):
            await store.users.change(changed(row, name="ada"))
        assert await store.users.get(row.user_id) == row

    async def test_no_two_people_have_names_that_look_alike(self, store: Store, make: Factory) -> None:
        """One look in common is enough; a name that stays may look like another one, as those from before."""
        await store.users.add(new_user(make, "paul", looks=("paul",)))
        with pytest.raises(Conflict) as refused:
            await store.users.add(new_user(make, "pauI", looks=("paui", "paul")))
        assert refused.value.code == "user_exists"
        bob = await store.users.add(new_user(make, "bob", looks=("bob",)))
        with pytest.raises(Conflict):
            await store.users.change(replace(changed(bob, name="pauI"), looks=("paui", "paul")))
        same = replace(changed(bob, email="b@example.org"), looks=("bob", "paul"))
        assert (await store.users.change(same)).email == "b@example.org"
        assert {} == await store.users.complete_looks({bob.user_id: ("other",)}, 10)  # there are some: they stay
        with pytest.raises(Conflict):
            await store.users.add(new_user(make, "b0b", looks=("bob",)))

    async def test_a_role_is_given_as_it_was_judged(self, store: Store, make: Factory) -> None:
        """A change of it between the check and the store is seen, in the namespace or in `*`."""
        weak = RoleRow("default", "chief", frozenset({"jobs:read"}), ())
        strong = weak._replace(permissions=frozenset({"*"}))
        chief, judged = Member("default", "chief"), frozenset({weak})
        ada = await store.users.add(new_user(make, "ada"))
        await store.roles.put(strong)
        with pytest.raises(VersionConflict):
            await store.users.add(new_user(make, "bob", chief, known_roles=judged))
        with pytest.raises(VersionConflict):
            await store.users.change(replace(changed(ada, roles=(chief,)), known_roles=judged))
        assert [ada] == list(await store.users.page(None, after=None, limit=10))
        await store.roles.put(weak)
        given = await store.users.change(replace(changed(ada, roles=(chief,)), known_roles=judged))
        assert given.roles == (chief,)
        everywhere = weak._replace(namespace="*", name="deputy")
        await store.roles.put(everywhere)
        await store.roles.put(everywhere._replace(namespace="default", permissions=frozenset({"*"})))
        deputy = new_user(make, "bob", Member("default", "deputy"), known_roles=frozenset({everywhere}))
        with pytest.raises(VersionConflict):
            await store.users.add(deputy)

    async def test_a_role_is_changed_as_it_was_judged(self, store: Store) -> None:
        """A stronger one that came meanwhile stays; the same put again is one."""
        weak = RoleRow("default", "chief", frozenset({"jobs:read"}), ())
        strong = weak._replace(permissions=frozenset({"*"}))
        hidden = strong._replace(namespace="*")
        await store.roles.put(weak, judged=frozenset())
        await store.roles.put(weak, judged=frozenset())
        await store.roles.put(strong, judged=frozenset({weak}))
        other = weak._replace(permissions=frozenset({"runs:read"}))
        with pytest.raises(VersionConflict):
            await store.roles.put(other, judged=frozenset({weak}))
        with pytest.raises(VersionConflict):
            await store.roles.drop("default", "chief", judged=frozenset({weak}))
        await store.roles.put(hidden, judged=frozenset())
        with pytest.raises(VersionConflict):
            await store.roles.put(other, judged=frozenset({strong}))
        assert {strong, hidden} == set(await store.roles.all("default"))
        assert await store.roles.drop("default", "chief", judged=frozenset({strong, hidden}))
        assert not await store.roles.drop("default", "chief", judged=frozenset({strong, hidden}))

    async def test_a_password_is_bound_by_its_setter(self, store: Store, make: Factory) -> None:
        """By the one who added the person, then by the maker of the link; a change by the person lifts no bound."""
        alice = PasswordLimit("default", frozenset({"users:admin", "jobs:read"}))
        row = await store.users.add(new_user(make, password_limit=alice))
        assert row.password_limit == alice
        named = await store.users.change(changed(row, name="ada l"))
        chosen = await store.users.change(changed(named, "another"))
        assert (named.password_limit, chosen.password_limit) == (alice, alice)
        for number, limit in enumerate((alice._replace(namespace="*"), None)):
            now = await store.users.get(row.user_id)
            assert now is not None
            secret = b"link %d" % number
            await store.users.link(new_link(now, secret, password_limit=limit))
            used = await store.users.use_link(sha256(secret).digest(), f"hash {number}")
            assert used is not None
            assert used.password_limit == limit
            found = await store.users.sign_in("ada l")
            assert found is not None
            assert found.row == used

    async def test_a_role_that_is_given_is_there(self, store: Store, make: Factory) -> None:
        """Built in, or made in that namespace, or for all."""
        with pytest.raises(Conflict) as refused:
            await store.users.add(new_user(make, "ada", Member("default", "auditor")))
        assert refused.value.code == "role_unknown"
        await store.roles.put(RoleRow("default", "auditor", frozenset({"audit:read"}), ()))
        await store.users.add(new_user(make, "ada", Member("default", "auditor")))
        with pytest.raises(Conflict):
            await store.users.add(new_user(make, "bob", Member("billing", "auditor")))
        await store.roles.put(RoleRow("*", "reader", frozenset({"jobs:read"}), (("team", "a"),)))
        await store.users.add(new_user(make, "bob", Member("billing", "reader")))

    async def test_a_role_may_hold_for_some_jobs_alone(self, store: Store, make: Factory) -> None:
        """One role with several labels, and beside it for all jobs, are several roles of a person."""
        billing, ops = (("env", "prod"), ("team", "billing's \u00fc")), (("team", "ops"),)
        roles = (Member("default", "operator", billing), Member("default", "operator", ops), VIEWER)
        row = await store.users.add(new_user(make, "ada", *roles))
        assert row.roles == roles
        assert await store.users.get(row.user_id) == row
        fewer = await store.users.change(changed(row, roles=(roles[1], Member("default", "operator"))))
        assert fewer.roles == (Member("default", "operator"), roles[1])
        assert await store.users.change(changed(row, roles=fewer.roles)) == fewer
        assert [each.user_id for each in await store.users.page("default", after=None, limit=10)] == [row.user_id]

    async def test_a_custom_role_with_labels_is_in_use(self, store: Store, make: Factory) -> None:
        """It is not removed under its people, and a change ends their tokens."""
        role = RoleRow("default", "rerunner", frozenset({"runs:write"}), (("team", "ops"),))
        await store.roles.put(role)
        assert [role] == list(await store.roles.all("default"))
        row = await store.users.add(new_user(make, "ada", Member("default", "rerunner", (("env", "prod"),))))
        assert [row.user_id] == list(await store.roles.put(role))
        with pytest.raises(Conflict) as refused:
            await store.roles.drop("default", "rerunner")
        assert refused.value.code == "role_in_use"
        now = await store.users.get(row.user_id)
        assert now is not None
        assert now.generation == row.generation + 1
        with pytest.raises(Conflict) as unknown:
            await store.users.change(changed(now, roles=(Member("default", "nothing", (("env", "prod"),)),)))
        assert unknown.value.code == "role_unknown"

    async def test_an_administrator_of_some_jobs_is_none_of_the_installation(self, store: Store, make: Factory) -> None:
        """The last one of all jobs stays, beside any number of others."""
        row = await store.users.add(new_user(make, "ada", ADMIN))
        await store.users.add(new_user(make, "grace", Member("*", "admin", (("team", "ops"),))))
        for roles in ((), (Member("*", "admin", (("team", "ops"),)),)):
            with pytest.raises(Conflict) as refused:
                await store.users.change(changed(row, roles=roles))
            assert refused.value.code == "last_administrator"

    async def test_a_change_is_made_from_the_newest_version(self, store: Store, make: Factory) -> None:
        """And once; tokens end with the password, the roles and the person, and with nothing else."""
        row = await store.users.add(new_user(make))
        named = await store.users.change(changed(row, name="ada l"))
        assert (named.name, named.version, named.generation) == ("ada l", 2, 1)
        assert await store.users.change(changed(row, name="ada l")) == named
        with pytest.raises(VersionConflict):
            await store.users.change(changed(row, name="other"))
        secret = await store.users.change(changed(named, password="another"))
        assert (secret.version, secret.generation) == (3, 2)
        moved = await store.users.change(changed(secret, roles=(Member("default", "operator"),)))
        assert (moved.roles, moved.generation) == ((Member("default", "operator"),), 3)
        gone = await store.users.change(changed(moved, active=False))
        assert (gone.active, gone.generation) == (False, 4)
        found = await store.users.sign_in("ada l")
        assert found is not None
        assert found.password == "another"
        with pytest.raises(NotFound):
            await store.users.change(changed(replace(row, user_id=make.identifier())))

    async def test_the_last_administrator_stays(self, store: Store, make: Factory) -> None:
        """Neither without the role nor deactivated; also if two go at once."""
        one = await store.users.add(new_user(make, "one", ADMIN))
        for fields in ({"roles": (VIEWER,)}, {"active": False}):
            with pytest.raises(Conflict) as refused:
                await store.users.change(changed(one, **fields))
            assert refused.value.code == "last_administrator"
        assert await store.users.get(one.user_id) == one
        two = await store.users.add(new_user(make, "two", ADMIN))
        ends = await asyncio.gather(
            *(store.users.change(changed(row, roles=(VIEWER,))) for row in (one, two)), return_exceptions=True
        )
        assert [isinstance(end, Conflict) for end in ends].count(True) == 1
        rows = await store.users.page(None, after=None, limit=10)
        assert sum(ADMIN in row.roles for row in rows) == 1

    async def test_people_are_listed_by_namespace(self, store: Store, make: Factory) -> None:
        """Its members; the newest first, in pages. Administrators of the installation are no members of it."""
        rows = [
            await store.users.add(new_user(make, name, *roles))
            for name, roles in (
                ("ada", (VIEWER,)), ("bob", (Member("billing", "viewer"),)), ("eve", (ADMIN,)), ("kim", (VIEWER,)),
            )
        ]  # fmt: skip
        ada, bob, eve, kim = sorted(rows, key=lambda row: row.name)
        newest = sorted((ada, kim), key=lambda row: row.user_id, reverse=True)
        assert await store.users.page("default", after=None, limit=10) == newest
        assert await store.users.page("default", after=newest[0].user_id, limit=1) == newest[1:2]
        assert await store.users.page("billing", after=None, limit=10) == [bob]
        assert eve in await store.users.page(None, after=None, limit=10)
        assert len(await store.users.page(None, after=None, limit=10)) == 4

    async def test_a_sign_in_is_noted(self, store: Store, make: Factory) -> None:
        """It is no change of the person."""
        row = await store.users.add(new_user(make))
        assert row.signed_in_at is None
        await store.users.signed_in(row.user_id)
        after = await store.users.get(row.user_id)
        assert after is not None
        assert after.signed_in_at is not None
        assert (after.version, after.generation) == (row.version, row.generation)

    async def test_a_link_admits_once(self, store: Store, make: Factory) -> None:
        """Tokens of before end; the second use is refused, and so is a guess."""
        row = await store.users.add(new_user(make, password=None))
        assert not row.has_password
        link = new_link(row)
        await store.users.link(link)
        await store.users.link(link)
        holder = await store.users.link_holder(link.digest)
        assert (holder is not None and holder.user_id, await store.users.link_holder(b"guess")) == (row.user_id, None)
        used = await store.users.use_link(link.digest, "chosen")
        assert used is not None
        assert (used.has_password, used.generation) == (True, 2)
        assert await store.users.link_holder(link.digest) is None
        assert await store.users.use_link(link.digest, "again") is None
        assert await store.users.use_link(b"guess", "again") is None
        found = await store.users.sign_in("ada")
        assert found is not None
        assert found.password == "chosen"

    async def test_a_link_ends(self, store: Store, make: Factory) -> None:
        """With its time, with the next one of its kind, and with its person."""
        row = await store.users.add(new_user(make))
        late, first, second = (new_link(row, secret) for secret in (b"late", b"first", b"second"))
        await store.users.link(late)
        await self.shift(store, HOUR + 1.0)
        assert await store.users.use_link(late.digest, "x") is None
        await store.users.link(first)
        await store.users.link(second)
        assert await store.users.use_link(first.digest, "x") is None
        await store.users.change(changed(row, active=False))
        assert await store.users.use_link(second.digest, "x") is None

    @pytest.mark.parametrize(
        "fields",
        [
            {"roles": (ADMIN,)},
            {"roles": ()},
            {"email": "new@example.org"},
            {"active": False},
            {"password": "another"},
        ],
        ids=lambda fields: next(iter(fields)),
    )
    async def test_a_link_ends_with_a_change_of_its_person(
        self, store: Store, make: Factory, fields: dict[str, Any]
    ) -> None:
        """Its maker had the right to give access to the person as they were. Links of others go on working."""
        row = await store.users.add(new_user(make, "ada"))
        other = await store.users.add(new_user(make, "bob"))
        first, second = new_link(row, b"first"), new_link(row, b"second", kind=LinkKind.INVITATION)
        theirs = new_link(other, b"theirs")
        for link in (first, second, theirs):
            await store.users.link(link)
        after = await store.users.change(changed(row, **fields))
        if not after.active:
            after = await store.users.change(changed(after, active=True))
        for link in (first, second):
            assert await store.users.use_link(link.digest, "x") is None
        assert await store.users.get(row.user_id) == after
        assert await store.users.use_link(theirs.digest, "x") is not None

    async def test_a_link_outlives_a_change_of_the_name(self, store: Store, make: Factory) -> None:
        """It gives no more than before."""
        row = await store.users.add(new_user(make))
        link = new_link(row)
        await store.users.link(link)
        await store.users.change(changed(row, name="ada l"))
        assert await store.users.use_link(link.digest, "x") is not None

    async def test_a_link_that_is_used_ends_the_others_of_its_person(self, store: Store, make: Factory) -> None:
        """The person has chosen: an older secret, wherever it lies, changes nothing any more."""
        row = await store.users.add(new_user(make))
        first, second = new_link(row, b"first"), new_link(row, b"second", kind=LinkKind.INVITATION)
        await store.users.link(first)
        await store.users.link(second)
        assert await store.users.use_link(first.digest, "x") is not None
        assert await store.users.use_link(second.digest, "y") is None

    async def test_a_link_is_for_the_person_as_its_maker_saw_them(self, store: Store, make: Factory) -> None:
        """A person who gets a stronger role meanwhile is not taken over by it; another link stays as it is."""
        row = await store.users.add(new_user(make))
        old = new_link(row, b"old")
        await store.users.link(old)
        strong = await store.users.change(changed(row, roles=(ADMIN,)))
        kept = new_link(strong, b"kept")
        await store.users.link(kept)
        late = new_link(row, b"late")
        with pytest.raises(VersionConflict):
            await store.users.link(late)
        assert await store.users.use_link(late.digest, "x") is None
        assert await store.users.use_link(kept.digest, "x") is not None

    async def test_no_link_is_kept_beside_a_change_of_its_person(self, store: Store, make: Factory) -> None:
        """At the same time: it is refused, or ends."""
        for number in range(10):
            row = await store.users.add(new_user(make, f"ada{number}"))
            link = new_link(row, f"link {number}".encode())
            await asyncio.gather(
                store.users.link(link), store.users.change(changed(row, roles=(ADMIN,))), return_exceptions=True
            )
            assert await store.users.use_link(link.digest, "x") is None

    async def test_no_link_is_used_beside_a_change_of_its_person(self, store: Store, make: Factory) -> None:
        """At the same time: one of the two is refused, so nobody chooses the password of a stronger person."""
        for number in range(10):
            row = await store.users.add(new_user(make, f"ada{number}"))
            link = new_link(row, f"link {number}".encode())
            await store.users.link(link)
            used, promoted = await asyncio.gather(
                store.users.use_link(link.digest, "x"),
                store.users.change(changed(row, roles=(ADMIN,))),
                return_exceptions=True,
            )
            assert (used is None) != isinstance(promoted, VersionConflict)

    async def test_a_link_ends_with_a_change_of_a_custom_role(self, store: Store, make: Factory) -> None:
        """The person may do more by it."""
        role = RoleRow("default", "auditor", frozenset({"audit:read"}), ())
        await store.roles.put(role)
        row = await store.users.add(new_user(make, "ada", Member("default", "auditor")))
        link = new_link(row)
        await store.users.link(link)
        await store.roles.put(role._replace(permissions=frozenset({"*"})))
        assert await store.users.use_link(link.digest, "x") is None

    async def test_of_two_changes_of_a_password_one_is_refused(self, store: Store, make: Factory) -> None:
        """It is not taken for the other one; the same again is."""
        row = await store.users.add(new_user(make))
        after = await store.users.change(changed(row, password="one"))
        with pytest.raises(VersionConflict):
            await store.users.change(changed(row, password="two"))
        assert await store.users.change(changed(row, password="one")) == after
        found = await store.users.sign_in("ada")
        assert found is not None
        assert found.password == "one"

    async def test_a_custom_role_changes_for_all_who_have_it(self, store: Store, make: Factory) -> None:
        """Their tokens of before end. It stays while somebody has it."""
        role = RoleRow("default", "auditor", frozenset({"audit:read", "jobs:read"}), (("team", "a"),))
        await store.roles.put(role)
        assert await store.roles.all("default") == [role]
        assert await store.roles.all("billing") == []
        row = await store.users.add(new_user(make, "ada", Member("default", "auditor")))
        other = await store.users.add(new_user(make, "bob"))
        narrower = role._replace(permissions=frozenset({"audit:read"}))
        assert await store.roles.put(narrower) == [row.user_id]
        after = [await store.users.get(each.user_id) for each in (row, other)]
        assert [each.generation for each in after if each is not None] == [2, 1]
        with pytest.raises(Conflict) as refused:
            await store.roles.drop("default", "auditor")
        assert refused.value.code == "role_in_use"
        assert after[0] is not None
        await store.users.change(changed(after[0], roles=(VIEWER,)))
        assert await store.roles.drop("default", "auditor")
        assert not await store.roles.drop("default", "auditor")
        assert await store.roles.all(None) == []
