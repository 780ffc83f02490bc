"""Rules by what they concern: no event is compared with each rule.

    namespace ─► event ─► by job id · by one label of the rule · of the whole namespace

Invariant: `concerning` gives each rule that concerns the job and the event, once, up to `MAX_ASKED`. A rule with jobs
and labels concerns these jobs and those that have all the labels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from tickwise.domain.notices.rules import NoticeEvent, NotificationRule

MAX_ASKED: Final = 100
"""Rules that are asked whether one event concerns them: those of its job, then those of its labels, then those of the
whole namespace, of each the oldest first. The others are left out."""

_NONE: Final[Sequence[NotificationRule]] = ()

Label = tuple[str, str]


class _EventIndex:
    """The rules of one namespace for one event."""

    __slots__ = ("by_job", "by_label", "whole")

    def __init__(self) -> None:
        self.by_job: dict[UUID, list[NotificationRule]] = defaultdict(list)
        self.by_label: dict[Label, dict[frozenset[Label], list[NotificationRule]]] = defaultdict(dict)
        """Under one label of each rule; of the others each combination is compared once."""
        self.whole: list[NotificationRule] = []

    def add(self, rule: NotificationRule, labels: frozenset[Label], rarest: Label | None) -> None:
        for job_id in rule.jobs:
            self.by_job[job_id].append(rule)
        if rarest is not None:
            self.by_label[rarest].setdefault(labels, []).append(rule)
        elif not rule.jobs:
            self.whole.append(rule)

    def of_job(self, job_id: UUID, labels: Mapping[str, str]) -> Iterator[NotificationRule]:
        """The rules of the job and of its labels, each once."""
        mine = self.by_job.get(job_id, _NONE)
        yield from mine
        if not self.by_label:
            return
        seen, all_labels = {rule.rule_id for rule in mine}, frozenset(labels.items())
        for label in sorted(all_labels):
            for wanted, rules in self.by_label.get(label, {}).items():
                if wanted <= all_labels:
                    yield from (rule for rule in rules if rule.rule_id not in seen)


class RuleIndex:
    """The enabled rules that a scheduler knows."""

    def __init__(
        self, rules: Iterable[NotificationRule], *, label_set: type[frozenset[Label]] = frozenset[Label]
    ) -> None:
        oldest_first = sorted(rules, key=lambda rule: (rule.created_at, rule.rule_id))
        self.by_id: Final = {rule.rule_id: rule for rule in oldest_first if rule.enabled}
        self._events: dict[tuple[str, NoticeEvent], _EventIndex] = {}
        uses = Counter((rule.namespace, label) for rule in self.by_id.values() for label in rule.labels.items())
        for rule in self.by_id.values():
            # The label that the fewest rules have: one that all have would make each event be compared with all.
            rarest = min(rule.labels.items(), key=lambda label: (uses[rule.namespace, label], label), default=None)
            labels = label_set(rule.labels.items())
            for event in rule.on:
                self._events.setdefault((rule.namespace, event), _EventIndex()).add(rule, labels, rarest)

    def namespaces(self, event: NoticeEvent) -> list[str]:
        """The namespaces with a rule about this event, in order."""
        return sorted(namespace for namespace, known in self._events if known is event)

    def about(self, namespace: str, event: NoticeEvent) -> Sequence[NotificationRule]:
        """Each rule of a namespace about this event."""
        found = self._events.get((namespace, event))
        if found is None:
            return _NONE
        rules = [*found.whole, *(rule for some in found.by_job.values() for rule in some)]
        rules += (rule for some in found.by_label.values() for same in some.values() for rule in same)
        return list({rule.rule_id: rule for rule in rules}.values())

    def concerning(
        self, namespace: str, event: NoticeEvent, job_id: UUID | None, labels: Mapping[str, str]
    ) -> Sequence[NotificationRule]:
        """The rules of a namespace about this event of this job, at most `MAX_ASKED`; without a job, those of the whole
        namespace."""
        return self._found(namespace, event, job_id, labels, MAX_ASKED)

    def leaves_out(self, namespace: str, event: NoticeEvent, job_id: UUID | None, labels: Mapping[str, str]) -> bool:
        """Check whether more rules than `MAX_ASKED` concern it."""
        return len(self._found(namespace, event, job_id, labels, MAX_ASKED + 1)) > MAX_ASKED

    def _found(
        self, namespace: str, event: NoticeEvent, job_id: UUID | None, labels: Mapping[str, str], most: int
    ) -> Sequence[NotificationRule]:
        found = self._events.get((namespace, event))
        if found is None:
            return _NONE
        rules = [] if job_id is None else list(islice(found.of_job(job_id, labels), most))
        return [*found.whole[: most - len(rules)], *rules]
