"""Slices of events of a namespace: judging holds up all else that a scheduler does. Pure.

    events, the oldest first ──► weight of each: its rules, by the channels of each ──► as many as `most` allows

Invariant: a slice has an event if there is one, of any weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.changes import NoticeJob, PendingEvent
from tickwise.domain.notices.index import RuleIndex
from tickwise.domain.notices.judging import asked_names
from tickwise.domain.notices.rules import PASSES, NoticeEvent

_OF_SUCCESS: Final = (NoticeEvent.RECOVERY, NoticeEvent.SUCCESS, *sorted(PASSES))
"""A success tells rules about recoveries and successes, and closes alerts of rules about the others."""

_Key = tuple[NoticeEvent, UUID | None]


class EventSlice(NamedTuple):
    """The events that are judged at a time."""

    events: Sequence[PendingEvent]
    leaves_out: bool
    """More rules concern one of them than are asked."""


def sliced(events: Sequence[PendingEvent], index: RuleIndex, jobs: Mapping[UUID, NoticeJob], most: int) -> EventSlice:
    """The first events of a namespace whose weights are at most `most` together. The weight of one is 1, and the number
    of channels of each rule that is asked about it."""
    known: dict[_Key, tuple[int, bool]] = {}
    weight, leaves_out = 0, False
    for count, event in enumerate(events):
        own, crowded = _weight(event, index, jobs, known)
        if count and weight + own > most:
            return EventSlice(events[:count], leaves_out)
        weight, leaves_out = weight + own, leaves_out or crowded
    return EventSlice(events, leaves_out)


def _weight(
    event: PendingEvent, index: RuleIndex, jobs: Mapping[UUID, NoticeJob], known: dict[_Key, tuple[int, bool]]
) -> tuple[int, bool]:
    if event.rule_id is not None:
        return 1, False
    names = asked_names(event)
    if event.state is RunState.SUCCESS:
        names = _OF_SUCCESS
    elif event.event is NoticeEvent.RECOVERY:
        names = (NoticeEvent.RECOVERY,)
    job = None if event.job_id is None else jobs.get(event.job_id)
    labels = {} if job is None else job.labels
    weight, leaves_out = 1, False
    for name in names:
        key = name, event.job_id
        if key not in known:
            rules = index.concerning(event.namespace, name, event.job_id, labels)
            crowded = index.leaves_out(event.namespace, name, event.job_id, labels)
            known[key] = sum(len(rule.channels) or 1 for rule in rules), crowded
        weight, leaves_out = weight + known[key][0], leaves_out or known[key][1]
    return weight, leaves_out
