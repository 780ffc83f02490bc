"""Notices, from their making to their delivery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.records import NoticeRecord
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.audit import AuditEntry
from tickwise.domain.notices.merging import merged
from tickwise.domain.notices.rules import AlertState, Notice, NoticeChannel, NoticeChannelKind, NoticeState
from tickwise.ports.store.notices import (
    FAILING_OF_NAMESPACE,
    FAILING_SENDS,
    LINGER_SECONDS,
    LINGERING_OF_NAMESPACE,
    SEND_LEASE_SECONDS,
    SENDS_OF_NAMESPACE,
    DueNotices,
    KindBacklog,
    NoticeQuery,
    SettledNotice,
    no_channel,
)


class Notices(Duty):
    """`NoticeStore` of the port."""

    async def add(self, notice: Notice, *, audit: AuditEntry | None = None) -> Notice:
        state = self._state
        stored = state.notices.get(notice.notice_id)
        if stored is not None:
            return stored.notice
        channel = state.channels.get(notice.channel_id)
        if channel is None or channel.namespace != notice.namespace:
            raise no_channel()
        state.check_open(notice.namespace)
        for record in state.notices.values() if notice.is_test else ():
            other = record.notice
            if other.is_test and other.state is NoticeState.WAITING and other.channel_id == notice.channel_id:
                if not _is_held(record, state.now()):
                    record.notice = replace(
                        other, due=min(notice.due, state.now()), tries=0, tried_at=None, error=None, served=()
                    )
                    record.sender = None
                state.audit.write(audit)
                return record.notice
        state.notices[notice.notice_id] = NoticeRecord(notice=notice, made_at=state.now())
        state.audit.write(audit)
        return notice

    async def due(self, sender: str, limit: int) -> DueNotices:
        state, now = self._state, self._state.now()
        held = [each for each in state.notices.values() if _is_held(each, now)]
        busy = {each.notice.channel_id for each in held}
        turns = [each for each in held if not _lingers(each, now)]
        of_namespace = Counter(each.notice.namespace for each in turns)
        for namespace, lingering in Counter(each.notice.namespace for each in held if _lingers(each, now)).items():
            of_namespace[namespace] += max(lingering - LINGERING_OF_NAMESPACE, 0)
        ill_of_namespace = Counter(each.notice.namespace for each in turns if self._is_ill(each.notice))
        ill_of_sender = sum(each.sender == sender and self._is_ill(each.notice) for each in turns)
        waiting = [
            each
            for each in state.notices.values()
            if each.notice.state is NoticeState.WAITING
            and each.notice.due <= now
            and (each.notice.is_test or not self._rests(each.notice, now))
        ]
        taken: list[Notice] = []
        while len(taken) < limit:
            free = [
                (is_ill, of_namespace[notice.namespace], notice.due, notice.notice_id)
                for notice in (each.notice for each in waiting)
                if notice.channel_id not in busy
                and of_namespace[notice.namespace] < SENDS_OF_NAMESPACE
                and (
                    not (is_ill := self._is_ill(notice))
                    or (ill_of_namespace[notice.namespace] < FAILING_OF_NAMESPACE and ill_of_sender < FAILING_SENDS)
                )
            ]
            if not free:
                break
            is_ill, _, _, identifier = min(free)
            record = state.notices[identifier]
            busy.add(record.notice.channel_id)
            of_namespace[record.notice.namespace] += 1
            ill_of_namespace[record.notice.namespace] += is_ill
            ill_of_sender += is_ill
            record.sender, record.leased_until = sender, now + SEND_LEASE_SECONDS
            record.notice = replace(
                record.notice, tries=record.notice.tries + 1, tried_at=record.notice.tried_at or now
            )
            taken.append(record.notice)
        taken.sort(key=lambda each: (each.due, each.notice_id))
        return DueNotices(taken, bool(state.channels))

    def _is_ill(self, notice: Notice) -> bool:
        """Check whether the newest try of its channel failed or took long."""
        channel = self._state.channels.get(notice.channel_id)
        return channel is not None and (channel.is_slow or _is_failing(channel))

    def _rests(self, notice: Notice, now: float) -> bool:
        channel = self._state.channels.get(notice.channel_id)
        return channel is not None and channel.again_at is not None and channel.again_at > now

    async def settle(self, sender: str, results: Sequence[SettledNotice]) -> None:
        for each in results:
            record = self._state.notices.get(each.notice_id)
            if record is not None and record.sender == sender and record.notice.state is NoticeState.WAITING:
                self._settle(record, each)

    def _settle(self, record: NoticeRecord, result: SettledNotice) -> None:
        state, now = self._state, self._state.now()
        record.sender = None
        if not result.was_tried:
            tries = record.notice.tries - 1
            tried_at = record.notice.tried_at if tries else None
            waits = replace(record.notice, tries=tries, tried_at=tried_at, due=now + result.again_seconds)
            record.notice = self._with_waiting(waits)
            return
        channel = state.channels.get(record.notice.channel_id)
        if channel is not None and result.state is NoticeState.DELIVERED:
            state.channels[channel.channel_id] = replace(
                channel, delivered_at=now, failures=0, again_at=None, is_slow=result.was_slow
            )
            hurry(state, channel.channel_id)
        elif channel is not None:
            rests = result.state is NoticeState.WAITING and not record.notice.is_test and result.rest_seconds > 0
            state.channels[channel.channel_id] = replace(
                channel,
                failed_at=now,
                error=result.error,
                failures=channel.failures + rests,
                again_at=max(channel.again_at or now, now + result.rest_seconds) if rests else channel.again_at,
                is_slow=result.was_slow,
            )
        if result.state is NoticeState.WAITING:
            waits = replace(
                record.notice, error=result.error, due=now + result.again_seconds, served=tuple(result.served)
            )
            record.notice = self._with_waiting(waits)
        else:
            record.notice = replace(
                record.notice, state=result.state, error=result.error, ended_at=now, served=tuple(result.served)
            )
            if result.state is NoticeState.DEAD:
                self._untell(record.notice)

    def _untell(self, dead: Notice) -> None:
        """Nobody was told of its alerts, unless another notice of the rule waits or was delivered."""
        if dead.is_test or dead.is_escalation:
            return
        others = {
            line.alert_id
            for each in (record.notice for record in self._state.notices.values())
            if each.state in (NoticeState.WAITING, NoticeState.DELIVERED)
            and (each.namespace, each.rule_id, each.is_test, each.is_escalation)
            == (dead.namespace, dead.rule_id, False, False)
            for line in each.lines
        }
        for alert_id in {line.alert_id for line in dead.lines} - others:
            alert = None if alert_id is None else self._state.alerts.get(alert_id)
            if alert is not None and alert.told_at is not None and alert.alert.state is not AlertState.CLOSED:
                alert.told_at, alert.version = None, alert.version + 1

    def _with_waiting(self, notice: Notice) -> Notice:
        """The notice with the events of the one that waits for the same channel and rule, which goes."""
        if notice.is_test:
            return notice
        for identifier, record in list(self._state.notices.items()):
            other = record.notice
            if (
                identifier != notice.notice_id
                and other.state is NoticeState.WAITING
                and record.sender is None
                and not other.is_test
                and _target(other) == _target(notice)
            ):
                del self._state.notices[identifier]
                return merged(notice, other)
        return notice

    async def find(self, query: NoticeQuery) -> Sequence[Notice]:
        found = [
            each.notice
            for each in self._state.notices.values()
            if each.notice.namespace == query.namespace
            and (not query.states or each.notice.state in query.states)
            and query.channel_id in (None, each.notice.channel_id)
            and query.rule_id in (None, each.notice.rule_id)
            and query.notice_id in (None, each.notice.notice_id)
            and (query.before is None or each.notice.notice_id < query.before)
        ]
        return sorted(found, key=lambda each: each.notice_id, reverse=True)[: query.limit]

    async def backlog(self) -> Mapping[NoticeChannelKind, KindBacklog]:
        state, now = self._state, self._state.now()
        found = {}
        for kind in NoticeChannelKind:
            channels = {each.channel_id: each for each in state.channels.values() if each.kind is kind}
            since = [
                notice.due if notice.tried_at is None else notice.tried_at
                for notice in (each.notice for each in state.notices.values())
                if notice.channel_id in channels
                and notice.state is NoticeState.WAITING
                and (notice.due <= now or notice.tries)
            ]
            oldest = max(now - min(since, default=now), 0.0)
            failing = sum(_is_failing(each) for each in channels.values())
            resting = sum((each.again_at or now) > now for each in channels.values())
            found[kind] = KindBacklog(len(since), oldest, failing, resting)
        return found

    async def again(self, namespace: str, notice_id: UUID, *, audit: AuditEntry | None = None) -> Notice | None:
        state = self._state
        record = state.notices.get(notice_id)
        if (
            record is None
            or record.notice.namespace != namespace
            or record.notice.state is not NoticeState.DEAD
            or record.notice.channel_id not in state.channels
        ):
            return None
        waits = replace(
            record.notice, state=NoticeState.WAITING, due=state.now(), tries=0, tried_at=None, ended_at=None
        )
        record.notice = self._with_waiting(waits)
        channel = state.channels[record.notice.channel_id]
        state.channels[channel.channel_id] = replace(channel, again_at=None)
        state.audit.write(audit)
        return record.notice


def hurry(state: State, channel_id: UUID) -> bool:
    """Let what waits for another try at a channel go now; whether anything did."""
    is_any = False
    for record in state.notices.values():
        notice = record.notice
        is_due_later = notice.tries > 0 and notice.due > state.now() and not notice.is_test
        if (
            notice.channel_id == channel_id
            and notice.state is NoticeState.WAITING
            and record.sender is None
            and is_due_later
        ):
            record.notice, is_any = replace(notice, due=state.now()), True
    return is_any


def _is_held(record: NoticeRecord, now: float) -> bool:
    """Check whether a sender has it, whose lease goes on."""
    return (
        record.notice.state is NoticeState.WAITING and record.sender is not None and (record.leased_until or 0.0) > now
    )


def _lingers(record: NoticeRecord, now: float) -> bool:
    """Check whether a notice that is held is held for so long that it has no turn any more."""
    return (record.leased_until or 0.0) - SEND_LEASE_SECONDS < now - LINGER_SECONDS


def _is_failing(channel: NoticeChannel) -> bool:
    """Check whether the newest try of a channel failed."""
    if channel.failed_at is None:
        return False
    return channel.delivered_at is None or channel.failed_at > channel.delivered_at


def _target(notice: Notice) -> tuple[UUID, UUID | None, bool]:
    return notice.channel_id, notice.rule_id, notice.is_escalation
