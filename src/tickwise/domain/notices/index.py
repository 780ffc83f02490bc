"""Rules by what they concern: no event is compared with each rule.

    namespace ─► event ─► by job id · by one label of the rule · of the whole namespace

Invariant: `concerning` gives each rule that concerns the job and the event, once. A rule with jobs and labels concerns
these jobs and those that have all the labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from tickwise.domain.notices.rules import NoticeEvent, NotificationRule

_NONE: Final[Sequence[NotificationRule]] = ()


class _EventIndex:
    """The rules of one namespace for one event."""

    __slots__ = ("by_job", "by_label", "whole")

    def __init__(self) -> None:
        self.by_job: dict[UUID, list[NotificationRule]] = defaultdict(list)
        self.by_label: dict[tuple[str, str], list[NotificationRule]] = defaultdict(list)
        """Under one label of each rule; the others are compared."""
        self.whole: list[NotificationRule] = []

    def add(self, rule: NotificationRule) -> None:
        for job_id in rule.jobs:
            self.by_job[job_id].append(rule)
        if rule.labels:
            self.by_label[min(rule.labels.items())].append(rule)
        elif not rule.jobs:
            self.whole.append(rule)


class RuleIndex:
    """The enabled rules that a scheduler knows."""

    def __init__(self, rules: Iterable[NotificationRule]) -> None:
        self.by_id: Final = {rule.rule_id: rule for rule in rules if rule.enabled}
        self._events: dict[tuple[str, NoticeEvent], _EventIndex] = {}
        for rule in self.by_id.values():
            for event in rule.on:
                self._events.setdefault((rule.namespace, event), _EventIndex()).add(rule)

    def namespaces(self, event: NoticeEvent) -> list[str]:
        """The namespaces with a rule about this event, in order."""
        return sorted(namespace for namespace, known in self._events if known is event)

    def about(self, namespace: str, event: NoticeEvent) -> Sequence[NotificationRule]:
        """Each rule of a namespace about this event."""
        found = self._events.get((namespace, event))
        if found is None:
            return _NONE
        rules = [*found.whole, *(rule for some in found.by_job.values() for rule in some)]
        rules += (rule for some in found.by_label.values() for rule in some)
        return list({rule.rule_id: rule for rule in rules}.values())

    def concerning(
        self, namespace: str, event: NoticeEvent, job_id: UUID | None, labels: Mapping[str, str]
    ) -> Sequence[NotificationRule]:
        """The rules of a namespace about this event of this job; without a job, those of the whole namespace."""
        found = self._events.get((namespace, event))
        if found is None:
            return _NONE
        if job_id is None:
            return found.whole
        rules = {rule.rule_id: rule for rule in found.by_job.get(job_id, _NONE)}
        if found.by_label:
            for label in labels.items():
                for rule in found.by_label.get(label, _NONE):
                    if rule.labels.items() <= labels.items():
                        rules[rule.rule_id] = rule
        return [*found.whole, *rules.values()] if rules else found.whole
