"""Sessions of browsers, and the links that open one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from uuid import UUID

from tickwise.adapters.store.memory.records import BrowserLinkRecord, BrowserSessionRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.browser_sessions import (
    MAX_BROWSER_SESSIONS,
    USE_NOTED_SECONDS,
    BrowserSession,
    NewBrowserSession,
    NewSessionLink,
    SessionSubject,
)
from tickwise.ports.store import EpochCause


class BrowserSessions(Duty):
    """`BrowserSessionStore` of the port."""

    async def begin(
        self,
        session: NewBrowserSession,
        *,
        link: bytes | None = None,
        replaces: bytes | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        sessions, now = self._state.browser_sessions, self._state.now()
        if link is not None:
            found = self._state.session_links.get(link)
            if found is None or found.expires_at <= now or found.opened not in (None, session.session_id):
                return False
            found.opened = session.session_id
        if session.session_id not in sessions:
            sessions[session.session_id] = BrowserSessionRecord(
                session=session, used_at=now, ends_at=now + session.most_seconds
            )
            self._state.audit.write(audit)
        if replaces is not None:
            self._end([each for each in sessions.values() if each.session.digest == replaces])
        mine = [each for each in sessions.values() if _is_same(each.session.subject, session.subject)]
        mine.sort(key=lambda each: (each.used_at, each.session.session_id), reverse=True)
        self._end(
            [each for place, each in enumerate(mine) if place >= MAX_BROWSER_SESSIONS or self._seconds_left(each) < 0]
        )
        links = self._state.session_links
        for digest, each in [*links.items()]:
            if _is_same(each.link.subject, session.subject) and each.expires_at < now:
                del links[digest]
        return True

    async def find(self, digest: bytes, *, used: bool) -> BrowserSession | None:
        for each in self._state.browser_sessions.values():
            if each.session.digest == digest and self._seconds_left(each) > 0:
                if used and self._state.now() - each.used_at > USE_NOTED_SECONDS:
                    each.used_at = self._state.now()
                begun = each.session
                return BrowserSession(begun.session_id, begun.subject, self._seconds_left(each), begun.provider)
        return None

    async def end(
        self, *, digest: bytes | None = None, user_id: UUID | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        ended = [
            each
            for each in self._state.browser_sessions.values()
            if each.session.digest == digest or (user_id is not None and each.session.subject.user_id == user_id)
        ]
        self._end(ended)
        identifiers = [each.session.session_id for each in ended]
        if audit is not None and identifiers:
            self._state.audit.write(audit._replace(targets=identifiers))
        return identifiers

    async def end_all(self, *, audit: AuditEntry | None = None) -> int:
        ended = len(self._state.browser_sessions)
        self._state.browser_sessions.clear()
        self._state.session_links.clear()
        if ended:
            self._state.audit.write(audit)
        return ended

    async def add_link(self, link: NewSessionLink, *, audit: AuditEntry | None = None) -> None:
        if link.digest not in self._state.session_links:
            expires_at = self._state.now() + link.seconds
            self._state.session_links[link.digest] = BrowserLinkRecord(link=link, expires_at=expires_at)
            self._state.audit.write(audit)

    async def link(self, digest: bytes) -> SessionSubject | None:
        found = self._state.session_links.get(digest)
        if found is None or found.opened is not None or found.expires_at <= self._state.now():
            return None
        return found.link.subject

    def _seconds_left(self, record: BrowserSessionRecord) -> float:
        epoch, began_at = self._state.epoch, record.ends_at - record.session.most_seconds
        if epoch.cause is not EpochCause.FIRST and began_at < epoch.began_at:
            return -math.inf
        return min(record.used_at + record.session.idle_seconds, record.ends_at) - self._state.now()

    def _end(self, records: Sequence[BrowserSessionRecord]) -> None:
        for each in records:
            self._state.browser_sessions.pop(each.session.session_id, None)


def _is_same(one: SessionSubject, other: SessionSubject) -> bool:
    return (one.user_id, one.key_id) == (other.user_id, other.key_id)
