"""The check of a name and a password, for tokens and for the pages.

Nobody learns from an answer whether a name exists, nor from its time. Attempts are paced by address before a hash is
computed, and by name and network after a failure: many wrong passwords from one place wait there, and the person goes
on from another (`pace`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import structlog

from tickwise.control.audit.denials import Denials
from tickwise.control.callers import Callers
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.password_limits import is_beyond
from tickwise.control.people.passwords import Passwords
from tickwise.domain.callers import INSTALLATION, Caller
from tickwise.domain.errors import PasswordLimited, PasswordSignInOff, Unauthenticated
from tickwise.domain.model import Origin
from tickwise.domain.names import email_key, name_key
from tickwise.domain.permissions import Role
from tickwise.ports.identity.users import Member, SignIn, UserRow, UserStore

_WRONG: Final = "the name or the password is wrong"

logger = structlog.get_logger("tickwise.people")


class PasswordSignIn(StrEnum):
    """The people that sign in with a password."""

    ON = "on"
    ADMINS = "admins"
    """Administrators of the installation."""
    OFF = "off"


class SignedIn(NamedTuple):
    """A person that showed the password."""

    row: UserRow
    caller: Caller


class PasswordCheck:
    """Finds the person of a name and a password."""

    def __init__(
        self,
        users: UserStore,
        callers: Callers,
        passwords: Passwords,
        pace: SignInPace,
        denials: Denials,
        *,
        admits: PasswordSignIn = PasswordSignIn.ON,
    ) -> None:
        """`denials` counts failed sign-ins for the audit log. `admits`: the people that sign in with a password."""
        self._admits = admits
        self._users = users
        self._callers = callers
        self._passwords = passwords
        self._pace = pace
        self._denials = denials

    async def person(self, username: str, password: str, origin: Origin) -> SignedIn:
        """The active person. `username`: the name or the e-mail. Raises `Unauthenticated`, `PasswordLimited`,
        `PasswordSignInOff`, `SignInPaced`, `Busy`."""
        if self._admits is PasswordSignIn.OFF:
            raise PasswordSignInOff("nobody signs in with a password here: sign in by the provider, at /login")
        account = email_key(username) if "@" in username else name_key(username)
        address = origin.address
        known = self._pace.is_known(account, address)
        self._passwords.check_room(first=known)  # a flood costs no queries, which others wait for
        await self._pace.begin(account, address)
        found = await self._users.sign_in(account)
        usable = found is not None and found.row.active
        good = await self._passwords.verify(
            found.password if found is not None and usable else None,
            password,
            first=known,
        )
        if found is None or not good:
            # People type passwords into the field of the name: only the name of a person who is there is kept.
            name = "" if found is None else found.row.name
            logger.info("sign_in_failed", account=name, address=address)
            self._denials.sign_in_failed(name, origin)
            for each in _accounts(account, found):
                await self._pace.failed(each, address)
            raise Unauthenticated(_WRONG)
        for each in _accounts(account, found):
            self._pace.succeeded(each, address)
        caller = await self._callers.of_person(found.row)
        if is_beyond(found.row.password_limit, caller.grants):
            self._denials.sign_in_failed(found.row.name, origin)
            raise PasswordLimited(
                "this password was chosen, or could be, by an administrator who holds less than you do by now: ask an "
                "administrator of all your namespaces for a link, and choose another one by it"
            )
        if self._admits is PasswordSignIn.ADMINS and Member(INSTALLATION, Role.ADMIN) not in found.row.roles:
            self._denials.sign_in_failed(found.row.name, origin)
            raise PasswordSignInOff(
                "only administrators of the installation sign in with a password here: sign in by the provider, at "
                "/login"
            )
        return SignedIn(found.row, caller)


def _accounts(account: str, found: SignIn | None) -> set[str]:
    """The names by which a person signs in, the name and the e-mail: what is counted for one counts for both."""
    if found is None:
        return {account}
    email = found.row.email
    return {account, name_key(found.row.name), *(() if email is None else (email_key(email),))}
