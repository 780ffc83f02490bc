"""Test notices, and waiting for what becomes of notices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.domain.audit import AuditEntry
from tickwise.domain.model import Principal, time_id
from tickwise.domain.notices.rules import Notice, NoticeChannel, NoticeEvent, NoticeLine, NoticeState, Severity
from tickwise.ports.store.notices import NoticeQuery

LOOK_SECONDS: Final = 0.2
"""Between two looks at a notice that is awaited."""
WAIT_SECONDS_MOST: Final = 30.0


async def send_tests(
    context: ControlContext,
    who: Principal,
    channels: Sequence[NoticeChannel],
    *,
    audit: AuditEntry,
    rule_id: UUID | None = None,
    rule_name: str | None = None,
    severity: Severity = Severity.INFO,
) -> list[Notice]:
    """One test notice for each channel. The entry is written with the first."""
    now = await context.time.now()
    made = []
    for place, channel in enumerate(channels):
        what = f"the channel {channel.name}" if rule_name is None else f"the rule {rule_name}"
        notice = Notice(
            notice_id=time_id(int(now * 1000), context.clock.random_bytes(10)),
            namespace=channel.namespace,
            channel_id=channel.channel_id,
            rule_id=rule_id,
            rule_name=rule_name or "",
            severity=severity,
            state=NoticeState.WAITING,
            events=1,
            first_at=now,
            last_at=now,
            lines=(
                NoticeLine(
                    at=now,
                    event=NoticeEvent.FAILURE,
                    severity=severity,
                    subject="test",
                    subject_name="Test",
                    run_id=None,
                    sentence=f"This is a test of {what}, sent by {who.name}. Nothing failed.",
                    alert_id=None,
                ),
            ),
            due=now,
            is_test=True,
        )
        first = audit if place == 0 else None
        made.append(await _stored(context, notice, first))
    return made


async def _stored(context: ControlContext, notice: Notice, audit: AuditEntry | None) -> Notice:
    return await context.surely(lambda: context.store.notices.add(notice, audit=audit))


async def settled(context: ControlContext, notices: Sequence[Notice], wait_seconds: float) -> list[Notice]:
    """The notices as they are once a try of each has ended, or after so long."""
    until = context.clock.monotonic() + min(wait_seconds, WAIT_SECONDS_MOST)
    found = list(notices)
    while (left := until - context.clock.monotonic()) > 0:
        now = await context.time.now()
        if not any(_is_open(each, now) for each in found):
            break
        await context.clock.sleep(min(LOOK_SECONDS, left))
        found = [await _newest(context, each) for each in found]
    return found


def _is_open(notice: Notice, now: float) -> bool:
    """Check whether no try of a notice has ended yet. A try counts when it begins; one that failed leaves an error, and
    its notice is due in the future. A notice that is due may be under way, so its error is an older one's."""
    return notice.state is NoticeState.WAITING and (notice.error is None or notice.due <= now)


async def _newest(context: ControlContext, notice: Notice) -> Notice:
    query = NoticeQuery(namespace=notice.namespace, notice_id=notice.notice_id, limit=1)
    rows = await context.store.notices.find(query)
    return rows[0] if rows else notice
