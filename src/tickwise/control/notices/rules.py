"""Notification rules: make, change, preview, test, remove.

NotificationRuleBody ──► names of channels and jobs become ids ──► NotificationRule ──► store
                             └─ preview: the jobs that it concerns, and what of the last day it would have told
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.jobs.named_jobs import jobs_named
from tickwise.control.notices.channels import named_channels
from tickwise.control.notices.places import place_for, places_for
from tickwise.control.notices.previews import RulePreview, preview_of
from tickwise.control.notices.rule_bodies import (
    NotificationRuleBody,
    NotificationRuleChangeBody,
    check_rule,
    rule_fields,
    seconds_of,
    simple_fields,
)
from tickwise.control.notices.sending import send_tests, settled
from tickwise.control.texts import clean_line, clean_text
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.model import Principal, time_id
from tickwise.domain.notices.rules import (
    INSTALLATION,
    Escalation,
    Notice,
    NoticeChannel,
    NotificationRule,
)
from tickwise.domain.permissions import Permission
from tickwise.domain.selectors import labels_from, matches
from tickwise.ports.store import JobRow
from tickwise.ports.store.notices import NotificationRuleQuery

ESCALATE_SECONDS_LEAST: Final = 60.0
RULES_OF_JOB_MOST: Final = 100


class NotificationRuleService:
    """Everything about rules. A rule is for jobs of the whole namespace: a permission for jobs with certain labels is
    not enough."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.NOTICES_WRITE)
    async def add(self, who: Principal, body: NotificationRuleBody) -> NotificationRule:
        """Make a rule. Raises `Invalid`; `Forbidden` for the installation; `Conflict`, code `name_taken` or
        `rules_exhausted`."""
        rule = await self._read(who, body)
        if rule.namespace == who.namespace:
            await self._context.namespaces.check_open(rule.namespace)
        audit = entry(
            who, AuditAction.NOTIFICATION_RULE_ADDED, "notification_rule", rule.rule_id, namespace=rule.namespace,
            after=rule_fields(rule),
        )  # fmt: skip
        return await self._context.surely(lambda: self._context.store.notification_rules.add(rule, audit=audit))

    @requires(Permission.NOTICES_WRITE)
    async def preview(self, who: Principal, body: NotificationRuleBody) -> RulePreview:
        """The jobs that a rule would concern, and what of the last day it would have told. Nothing is changed. Raises
        as `add`."""
        rule = await self._read(who, body)
        return await preview_of(self._context, rule)

    @requires(Permission.NOTICES_READ)
    async def page(
        self, who: Principal, *, after_name: str | None, limit: int, installation: bool = False
    ) -> Sequence[NotificationRule]:
        """Rules in the order of their names. Raises `Forbidden` for those of the installation."""
        namespace = place_for(who, Permission.NOTICES_READ, installation=installation)
        query = NotificationRuleQuery(namespace=namespace, after_name=after_name, limit=limit)
        return await self._context.store.notification_rules.find(query)

    @requires(Permission.NOTICES_READ)
    async def get(self, who: Principal, rule_id: UUID) -> NotificationRule:
        """One. Raises `NotFound`."""
        return await self._find(who, rule_id, Permission.NOTICES_READ)

    @requires(Permission.NOTICES_READ)
    async def names(self, who: Principal, rules: Sequence[NotificationRule]) -> Mapping[UUID, str]:
        """The names of the channels of these rules."""
        found: dict[UUID, str] = {}
        for namespace in {rule.namespace for rule in rules} & set(places_for(who, Permission.NOTICES_READ)):
            found |= {each.channel_id: each.name for each in await self._channels(namespace)}
        return found

    @requires(Permission.NOTICES_READ, Permission.NOTICES_WRITE)
    async def channel_names(self, _who: Principal, rule: NotificationRule) -> Mapping[UUID, str]:
        """The names of the channels of a rule that the caller was answered."""
        return {each.channel_id: each.name for each in await self._channels(rule.namespace)}

    @requires(Permission.NOTICES_READ)
    async def concerning(self, who: Principal, job: JobRow) -> Sequence[NotificationRule]:
        """The rules that concern a job, by name; at most `RULES_OF_JOB_MOST`."""
        query = NotificationRuleQuery(namespace=who.namespace)
        rules = await self._context.store.notification_rules.find(query)
        return [rule for rule in rules if concerns(rule, job.job_id, job.labels)][:RULES_OF_JOB_MOST]

    @requires(Permission.NOTICES_WRITE)
    async def change(self, who: Principal, rule_id: UUID, body: NotificationRuleChangeBody) -> NotificationRule:
        """Change fields of it. Raises `NotFound`, `Invalid`; `Conflict`, code `name_taken` or `version_changed`."""
        old = await self._find(who, rule_id, Permission.NOTICES_WRITE)
        fields = simple_fields(body) | await self._named(who, old.namespace, body)
        new = replace(old, **fields)
        check_rule(new)
        audit = entry(
            who, AuditAction.NOTIFICATION_RULE_CHANGED, "notification_rule", rule_id, namespace=old.namespace,
            before=rule_fields(old), after=rule_fields(new),
        )  # fmt: skip
        changed = await self._context.surely(lambda: self._context.store.notification_rules.change(new, audit=audit))
        if changed is None:
            raise _no_rule(who, rule_id)
        return changed

    @requires(Permission.NOTICES_WRITE)
    async def remove(self, who: Principal, rule_id: UUID) -> NotificationRule:
        """Remove it, and answer it as it was: its alerts are closed, its waiting notices are dropped, on record.
        Raises `NotFound`."""
        old = await self._find(who, rule_id, Permission.NOTICES_WRITE)
        audit = entry(
            who, AuditAction.NOTIFICATION_RULE_REMOVED, "notification_rule", rule_id, namespace=old.namespace,
            before=rule_fields(old),
        )  # fmt: skip
        removed = await self._context.surely(
            lambda: self._context.store.notification_rules.remove(old.namespace, rule_id, audit=audit)
        )
        if not removed:
            raise _no_rule(who, rule_id)
        return old

    @requires(Permission.NOTICES_WRITE)
    async def test(
        self, who: Principal, rule_id: UUID, *, escalation: bool = False, wait_seconds: float = 0.0
    ) -> Sequence[Notice]:
        """Send a test notice to each of its channels, or to those of its escalation; the notices as they are after up
        to `wait_seconds`. Raises `NotFound`, `Invalid`."""
        rule = await self._find(who, rule_id, Permission.NOTICES_WRITE)
        wanted = rule.channels
        if escalation:
            if rule.escalation is None:
                raise Invalid("this rule has no escalation to test", pointer="/escalation")
            wanted = rule.escalation.channels
        channels = await self._context.store.channels.find(rule.namespace, channel_ids=wanted)
        if not channels:
            raise Invalid("all channels of this rule were removed; give it others", pointer="/channels")
        audit = entry(
            who, AuditAction.NOTIFICATION_RULE_TESTED, "notification_rule", rule_id, namespace=rule.namespace,
            detail={"name": rule.name, "escalation": escalation},
        )  # fmt: skip
        sent = await send_tests(
            self._context,
            who,
            channels,
            audit=audit,
            rule_id=rule_id,
            rule_name=rule.name,
            severity=rule.severity,
        )
        return await settled(self._context, sent, wait_seconds)

    # ------------------------------------------------------------------------------------------ parts

    async def _read(self, who: Principal, body: NotificationRuleBody) -> NotificationRule:
        """The rule that a body means. Raises `Invalid`, `Forbidden`."""
        namespace = place_for(who, Permission.NOTICES_WRITE, installation=body.installation)
        now = await self._context.time.now()
        fields = simple_fields(body) | await self._named(who, namespace, body)
        rule = NotificationRule(
            rule_id=time_id(int(now * 1000), self._context.clock.random_bytes(10)),
            namespace=namespace,
            created_at=now,
            created_by=who.name,
            **fields,
        )
        check_rule(rule)
        return rule

    async def _named(
        self, who: Principal, namespace: str, body: NotificationRuleBody | NotificationRuleChangeBody
    ) -> dict[str, Any]:
        """The fields that name channels and jobs, as ids, and the name. Raises `Invalid`."""
        found: dict[str, Any] = {}
        if not isinstance(body.name, UnsetType):
            found["name"] = clean_line(body.name, "/name")
        if not isinstance(body.labels, UnsetType):
            for name, value in (body.labels or {}).items():
                clean_text(name, "/labels")
                clean_text(value, "/labels")
        if body.channels or body.escalate:
            channels = await self._channels(namespace)
            if body.channels:
                found["channels"] = named_channels(channels, body.channels, "/channels")
            if body.escalate:
                after = seconds_of(body.escalate.after, "/escalate/after", least=ESCALATE_SECONDS_LEAST)
                ids = named_channels(channels, body.escalate.channels, "/escalate/channels")
                found["escalation"] = Escalation(after, ids)
        if body.escalate is None:
            found["escalation"] = None
        if body.jobs is not UNSET:
            found["jobs"] = await self._jobs(who, namespace, body.jobs or [])
        return found

    async def _channels(self, namespace: str) -> Sequence[NoticeChannel]:
        return await self._context.store.channels.find(namespace)

    async def _jobs(self, who: Principal, namespace: str, names: Sequence[str]) -> tuple[UUID, ...]:
        """The ids of jobs that are named by id, key or name. Raises `Invalid`."""
        if namespace == INSTALLATION and names:
            raise Invalid("a rule of the installation is about no jobs; leave jobs out", pointer="/jobs")
        return await jobs_named(self._context, who, names, "/jobs")

    async def _find(self, who: Principal, rule_id: UUID, permission: Permission) -> NotificationRule:
        for namespace in places_for(who, permission):
            query = NotificationRuleQuery(namespace=namespace, rule_id=rule_id, limit=1)
            for found in await self._context.store.notification_rules.find(query):
                return found
        raise _no_rule(who, rule_id)


def concerns(rule: NotificationRule, job_id: UUID, labels: Mapping[str, str]) -> bool:
    """Check whether a rule of the job's namespace concerns the job."""
    if job_id in rule.jobs:
        return True
    return bool(rule.labels or not rule.jobs) and matches(labels, (labels_from(rule.labels),))


def _no_rule(who: Principal, rule_id: UUID) -> NotFound:
    return NotFound(f"there is no notification rule {rule_id} in the namespace {who.namespace}")
