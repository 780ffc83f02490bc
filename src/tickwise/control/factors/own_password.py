"""The password again: before a person changes how they sign in.

The pace is that of a change of the password (`users`): one count for each person, not for the address.
"""

from __future__ import annotations

from tickwise.control.audit.denials import Denials
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.passwords import Passwords
from tickwise.domain.errors import Forbidden, Invalid, SignInPaced
from tickwise.domain.model import Principal
from tickwise.domain.names import name_key
from tickwise.ports.identity.users import UserRow, UserStore


class OwnPassword:
    """Checks the password of a person who is signed in."""

    def __init__(self, users: UserStore, passwords: Passwords, pace: SignInPace, denials: Denials) -> None:
        self._users = users
        self._passwords = passwords
        self._pace = pace
        self._denials = denials

    async def row(self, who: Principal) -> UserRow:
        """The person who asks. Raises `Forbidden` for a key."""
        row = None if who.user_id is None else await self._users.get(who.user_id)
        if row is None:
            raise Forbidden("a key has no second factors: sign in as a person")
        return row

    async def check(self, who: Principal, password: str, route: str) -> UserRow:
        """The person who asks, with the right password. `route` names the refusal in the audit log. Raises
        `Forbidden`, `Invalid`, `SignInPaced`, `Busy`."""
        row = await self.row(who)
        account, place = name_key(row.name), f"own password of {row.user_id}"
        try:
            await self._pace.begin(account, place)
        except SignInPaced:
            self._denials.denied(who, route, 429)
            raise
        known = await self._users.sign_in(account)
        if known is None or not await self._passwords.verify(known.password, password):
            await self._pace.failed(account, place)
            self._denials.denied(who, route, 422)
            raise Invalid("this is not your present password", pointer="/password", code="password_wrong")
        return row
