"""The check of a name and a password, for tokens and for the pages.

Nobody learns from an answer whether a name exists, nor from its time. Attempts are paced by address before a hash is
computed, and by name and network after a failure: many wrong passwords from one place wait there, and the person goes
on from another (`pace`).
"""

from __future__ import annotations

from typing import Final

import structlog

from tickwise.control.audit.denials import Denials
from tickwise.control.people.pace import SignInPace
from tickwise.control.people.passwords import Passwords
from tickwise.domain.errors import Unauthenticated
from tickwise.domain.model import Origin
from tickwise.domain.names import email_key, likeness
from tickwise.ports.identity.users import UserRow, UserStore

_WRONG: Final = "the name or the password is wrong"

logger = structlog.get_logger("tickwise.people")


class PasswordCheck:
    """Finds the person of a name and a password."""

    def __init__(self, users: UserStore, passwords: Passwords, pace: SignInPace, denials: Denials) -> None:
        """`denials` counts failed sign-ins for the audit log."""
        self._users = users
        self._passwords = passwords
        self._pace = pace
        self._denials = denials

    async def person(self, username: str, password: str, origin: Origin) -> UserRow:
        """The active person. `username`: the name or the e-mail. Raises `Unauthenticated`, `SignInPaced`, `Busy`."""
        account = email_key(username) if "@" in username else likeness(username)
        address = origin.address
        self._pace.begin(account, address)
        found = await self._users.sign_in(account)
        usable = found is not None and found.row.active
        good = await self._passwords.verify(
            found.password if found is not None and usable else None,
            password,
            first=self._pace.is_known(account, address),
        )
        if found is None or not good:
            logger.info("sign_in_failed", account=account[:100], address=address)
            self._denials.sign_in_failed(account, origin)
            self._pace.failed(account, address)
            raise Unauthenticated(_WRONG)
        self._pace.succeeded(account, address)
        return found.row
