"""The shortcuts of the suites about notification rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import DEFAULT_NAMESPACE, Claimed
from tickwise.domain.notices.changes import AlertChange, AlertKey, Fold, NoticeChange, PendingEvent
from tickwise.domain.notices.rules import Alert, Notice, NoticeEvent, NoticeLine, NotificationRule, Severity
from tickwise.ports.store import AlertQuery, NewJob, Store
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract
from tickwise.testing.factories import Factory, outcome

LONG_SECONDS = 100 * DAY_SECONDS


def entry(target: UUID, namespace: str = DEFAULT_NAMESPACE) -> AuditEntry:
    """An entry about a thing."""
    source = Source(CallerKind.KEY, None, "ada")
    return AuditEntry(namespace, AuditAction.ERROR_RESOLVED, source, "alert", target=str(target))


class NoticesContract(StoreContract):
    """The backend provides `add_channel`, `notices` and `take_notices`: channels and senders have ports of their
    own."""

    async def add_channel(self, store: Store, namespace: str, name: str) -> UUID:
        """A channel that is there."""
        raise NotImplementedError

    async def notices(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Notice]:
        """All notices of a namespace, the oldest first."""
        raise NotImplementedError

    async def take_notices(self, store: Store) -> None:
        """A sender takes all that wait."""
        raise NotImplementedError

    async def channel(self, store: Store, name: str = "ops", namespace: str = DEFAULT_NAMESPACE) -> UUID:
        """A channel that is there."""
        return await self.add_channel(store, namespace, name)

    async def rule(self, store: Store, make: Factory, name: str = "nights", **fields: Any) -> NotificationRule:
        """A stored rule about failures."""
        namespace = fields.pop("namespace", DEFAULT_NAMESPACE)
        if "channels" not in fields:
            fields["channels"] = (await self.channel(store, f"of {name}", namespace),)
        given: dict[str, Any] = {"on": frozenset({NoticeEvent.FAILURE, NoticeEvent.RECOVERY}), **fields}
        rule = NotificationRule(
            rule_id=make.identifier(), namespace=namespace, name=name, created_by="ada", **given
        )  # fmt: skip
        return await store.notification_rules.add(rule)

    async def ended(
        self,
        store: Store,
        make: Factory,
        state: RunState = RunState.FAILED,
        job: NewJob | None = None,
        **fields: Any,
    ) -> Claimed:
        """A run that ended so."""
        executor = await self.register(store, lease_seconds=LONG_SECONDS)
        claimed = await self.held(store, executor, make.job() if job is None else job)
        error = {"reason": "error", "error": "no disk"} if state is not RunState.SUCCESS else {}
        assert await self.finish(store, executor, outcome(claimed, state, **{**error, **fields})) == []
        return claimed

    async def again(
        self, store: Store, make: Factory, job_id: UUID, state: RunState, namespace: str = DEFAULT_NAMESPACE
    ) -> Claimed:
        """Another run of a job, which ends so."""
        await self.shift(store, 1.0)
        executor = await self.register(store, lease_seconds=LONG_SECONDS)
        await store.runs.add(namespace, job_id, [make.run(job_id, await store.now())])
        [claimed] = await self.claim_freed(store, executor)
        error = {"reason": "error", "error": "no disk"} if state is not RunState.SUCCESS else {}
        assert await self.finish(store, executor, outcome(claimed, state, **error)) == []
        return claimed

    async def pending(self, store: Store) -> list[PendingEvent]:
        """All events that are not judged."""
        return list((await store.alerts.events(1_000)).events)

    def alert(self, rule: NotificationRule, make: Factory, subject: str = "job", **fields: Any) -> AlertChange:
        """An alert that opens."""
        given: dict[str, Any] = {
            "key": AlertKey(rule.namespace, rule.rule_id, NoticeEvent.FAILURE, subject),
            "alert_id": make.identifier(),
            "seen": None,
            "subject_name": f"name of {subject}",
            "severity": Severity.WARNING,
            "events": 1,
            "first_at": make.now,
            "last_at": make.now,
            "sentence": "a run failed",
            "run_id": None,
        }
        return AlertChange(**{**given, **fields})

    def notice(self, rule: NotificationRule, make: Factory, **fields: Any) -> NoticeChange:
        """A notice with one line, for the first channel of the rule."""
        line = NoticeLine(make.now, NoticeEvent.FAILURE, rule.severity, "job", "nightly", None, "a run failed", None)
        given: dict[str, Any] = {
            "notice_id": make.identifier(),
            "namespace": rule.namespace,
            "channel_id": rule.channels[0],
            "rule_id": rule.rule_id,
            "rule_name": rule.name,
            "severity": rule.severity,
            "events": 1,
            "first_at": make.now,
            "last_at": make.now,
            "lines": [line],
            "due": make.now,
        }
        return NoticeChange(**{**given, **fields})

    def fold(self, *changes: AlertChange | NoticeChange, judged: Sequence[PendingEvent] = ()) -> Fold:
        """A fold of the default namespace, or of that of its events or changes."""
        namespaces = [each.namespace for each in judged]
        namespaces += [each.key.namespace if isinstance(each, AlertChange) else each.namespace for each in changes]
        return Fold(
            (namespaces or [DEFAULT_NAMESPACE])[0],
            [(each.event_id, each.token) for each in judged],
            [each for each in changes if isinstance(each, AlertChange)],
            [each for each in changes if isinstance(each, NoticeChange)],
        )

    async def alerts(self, store: Store, **fields: Any) -> list[Alert]:
        """The alerts that a search finds."""
        return list(await store.alerts.find(AlertQuery(**{"namespace": DEFAULT_NAMESPACE, **fields})))
