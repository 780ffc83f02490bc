"""Makes one answer of those of several shards.

Lists are merged by the order that their port states, and cut to what was asked for. Of pages that go on behind a place,
the combined one ends at the least of the places at which a shard ended: behind that, a shard may have more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.domain.observing.objectives import StartCount
from tickwise.ports.audit import AuditPage, AuditPlace
from tickwise.ports.store import (
    BusyQueue,
    Examined,
    JobStarts,
    KindBacklog,
    Maintained,
    NoticeJobPage,
    NoticesVersion,
    ObjectiveJobs,
    OverdueTimers,
    PendingEvents,
    PendingFailures,
    SlowRuns,
    StoreStats,
    Tally,
)
from tickwise.ports.store.notices import ChannelBacklog

T = TypeVar("T")
K = TypeVar("K")

Asked = Mapping[str, Any]
"""The arguments of the call, by name."""


def total(answers: Sequence[int], _: Asked) -> int:
    """The sum."""
    return sum(answers)


def any_of(answers: Sequence[bool], _: Asked) -> bool:
    """True if one shard says so."""
    return any(answers)


def least(answers: Sequence[float], _: Asked) -> float:
    """The least."""
    return min(answers)


def nothing(_: Sequence[None], __: Asked) -> None:
    """The answer of a call without one."""


def joined(answers: Sequence[Iterable[T]], _: Asked) -> list[T]:
    """The items of all shards, in any order."""
    return list(chain.from_iterable(answers))


def united(answers: Sequence[Mapping[K, T]], _: Asked) -> dict[K, T]:
    """Maps of things that are in one shard each."""
    return {key: value for answer in answers for key, value in answer.items()}


def summed(answers: Sequence[Mapping[K, int]], _: Asked) -> dict[K, int]:
    """Maps of numbers."""
    found = Counter[K]()
    for answer in answers:
        found.update(dict(answer))
    return dict(found)


def merged(
    key: Callable[[Any], Any] | str, *, newest_first: bool = False, most: str = "limit"
) -> Callable[[Sequence[Sequence[Any]], Asked], list[Any]]:
    """Lists in one order, at most as many as the argument `most` says, or the field `limit` of the query."""
    order = attrgetter(key) if isinstance(key, str) else key

    def merge(answers: Sequence[Sequence[Any]], asked: Asked) -> list[Any]:
        found = sorted(chain.from_iterable(answers), key=order, reverse=newest_first)
        return found[: _limit(asked, most)]

    return merge


def _limit(asked: Asked, most: str) -> int | None:
    query = asked.get("query")
    found: int | None = asked.get(most) if query is None else getattr(query, most, None)
    return found


def most_of(limit: int) -> Callable[[Sequence[Sequence[Any]], Asked], list[Any]]:
    """Lists of incidents, the oldest first, at most so many."""

    def merge(answers: Sequence[Sequence[Any]], _: Asked) -> list[Any]:
        return sorted(chain.from_iterable(answers), key=attrgetter("begin"))[:limit]

    return merge


def cut(answers: Sequence[Sequence[T]], asked: Asked) -> list[T]:
    """In turn one of each shard, at most as many as were asked for."""
    turns = [list(answer) for answer in answers]
    found = [turn[at] for at in range(max(map(len, turns), default=0)) for turn in turns if at < len(turn)]
    return found[: _limit(asked, "limit")]


def _behind(
    answers: Sequence[Any], rows: Callable[[Any], Sequence[Any]], place: Callable[[Any], Any]
) -> tuple[list[Any], Any]:
    """Rows of pages by places, up to the least place at which a page ended."""
    ends = [answer.beyond for answer in answers if answer.beyond is not None]
    end = min(ends, default=None)
    found = [row for answer in answers for row in rows(answer) if end is None or place(row) <= end]
    return sorted(found, key=place), end


def slow_runs(answers: Sequence[SlowRuns], _: Asked) -> SlowRuns:
    """`DelayStore.slow_runs`."""
    return SlowRuns(*_behind(answers, attrgetter("runs"), attrgetter("run_id")))


def watched_jobs(answers: Sequence[NoticeJobPage], _: Asked) -> NoticeJobPage:
    """`DelayStore.watched_jobs`."""
    return NoticeJobPage(*_behind(answers, attrgetter("jobs"), attrgetter("job_id")))


def overdue_timers(answers: Sequence[OverdueTimers], _: Asked) -> OverdueTimers:
    """`DelayStore.overdue_timers`."""
    return OverdueTimers(*_behind(answers, attrgetter("timers"), lambda timer: (timer.due_at, timer.job_id)))


def objective_jobs(answers: Sequence[ObjectiveJobs], _: Asked) -> ObjectiveJobs:
    """`ObjectiveStore.jobs` of all namespaces."""
    return ObjectiveJobs(*_behind(answers, attrgetter("jobs"), attrgetter("job_id")))


def examined(answers: Sequence[Examined], _: Asked) -> Examined:
    """`CheckStore.violations`. An executor is in each shard, and may be found in several."""
    ends = [answer.last for answer in answers if answer.last is not None]
    end = min(ends, default=None)
    found = {each.subject: each for answer in answers for each in answer.found if end is None or each.subject <= end}
    return Examined(last=end, found=[found[subject] for subject in sorted(found)])


def lost_executors(answers: Sequence[Sequence[Any]], asked: Asked) -> list[Any]:
    """`DelayStore.lost_executors`: an executor that one shard has lost and others have not was cut off from it."""
    newest: dict[int, Any] = {}
    for each in chain.from_iterable(answers):
        known = newest.get(each.number)
        if known is None or each.gone_at > known.gone_at:
            newest[each.number] = each
    return sorted(newest.values(), key=attrgetter("gone_at"), reverse=True)[: asked["limit"]]


def pending_failures(answers: Sequence[PendingFailures], asked: Asked) -> PendingFailures:
    """`ErrorGroupStore.pending`."""
    failures = cut([answer.failures for answer in answers], asked)
    return PendingFailures(failures, united([answer.jobs for answer in answers], asked))


def pending_events(answers: Sequence[PendingEvents], asked: Asked) -> PendingEvents:
    """`AlertStore.events`."""
    events = cut([answer.events for answer in answers], asked)
    left = sum(len(answer.events) for answer in answers) > len(events)
    return PendingEvents(
        events, united([answer.jobs for answer in answers], asked), left or any(answer.more for answer in answers)
    )


def notices_version(answers: Sequence[NoticesVersion], _: Asked) -> NoticesVersion:
    """`NotificationRuleStore.version`: each part only grows, so the sum changes with each."""
    return NoticesVersion(sum(each.version for each in answers), any(each.is_watched for each in answers))


def backlog(
    answers: Sequence[Mapping[NoticeChannelKind, KindBacklog]], _: Asked
) -> dict[NoticeChannelKind, KindBacklog]:
    """`NoticeStore.backlog`."""
    return {
        kind: KindBacklog(
            waiting=sum(answer[kind].waiting for answer in answers),
            oldest_seconds=max(answer[kind].oldest_seconds for answer in answers),
            failing=sum(answer[kind].failing for answer in answers),
            resting=sum(answer[kind].resting for answer in answers),
        )
        for kind in answers[0]
    }


def channel_backlog(answers: Sequence[Mapping[UUID, ChannelBacklog]], _: Asked) -> dict[UUID, ChannelBacklog]:
    """`ChannelStore.backlog`: a shard that does not have a channel counts nothing of it."""
    found: dict[UUID, ChannelBacklog] = {}
    for answer in answers:
        for channel_id, counted in answer.items():
            known = found.get(channel_id)
            if known is None or counted.notices:
                found[channel_id] = counted
    return found


def maintained(answers: Sequence[Maintained], _: Asked) -> Maintained:
    """`UpkeepStore.maintain`."""
    return Maintained(
        made=[name for each in answers for name in each.made],
        dropped=[name for each in answers for name in each.dropped],
        receipts=sum(each.receipts for each in answers),
    )


def stats(answers: Sequence[StoreStats], asked: Asked) -> StoreStats:
    """`UpkeepStore.stats`. An executor is in each shard."""
    queues: list[BusyQueue] = joined([each.queues for each in answers], asked)
    queues.sort(key=lambda queue: (-(queue.waiting + queue.held), queue.namespace, queue.queue))
    return StoreStats(
        queued=sum(each.queued for each in answers),
        held=sum(each.held for each in answers),
        retrying=sum(each.retrying for each in answers),
        oldest_ready_seconds=max(each.oldest_ready_seconds for each in answers),
        timers=sum(each.timers for each in answers),
        timers_late_seconds=max(each.timers_late_seconds for each in answers),
        executors=max(each.executors for each in answers),
        queues=queues[: asked["queues"]],
    )


def tallies(answers: Sequence[Sequence[Tally]], _: Asked) -> list[Tally]:
    """`Searches.tally` of all namespaces."""
    counts: Counter[tuple[float, Any]] = Counter()
    for each in chain.from_iterable(answers):
        counts[each.hour, each.state] += each.runs
    return [Tally(hour=hour, state=state, runs=runs) for (hour, state), runs in sorted(counts.items(), key=_hour)]


def _hour(item: tuple[tuple[float, Any], int]) -> tuple[float, str]:
    (hour, state), _ = item
    return hour, state.value


def starts(answers: Sequence[Mapping[Any, JobStarts]], _: Asked) -> dict[Any, JobStarts]:
    """`Searches.starts`: a job is in one shard, and the others count nothing of it."""
    found: dict[Any, JobStarts] = {}
    for answer in answers:
        for job_id, counted in answer.items():
            known = found.get(job_id)
            if known is None or any(_counts(each) for each in counted.counts.values()):
                found[job_id] = counted
    return found


def _counts(count: StartCount) -> bool:
    return bool(count.good or count.late)


def audit_page(answers: Sequence[AuditPage], asked: Asked) -> AuditPage:
    """`AuditStore.find`. One that paused has looked up to its place: what lies behind is left for the next page."""
    query = asked["query"]
    sign = 1 if query.ascending else -1
    pauses = [answer.goes_on for answer in answers if answer.goes_on is not None]
    ends = [*pauses, *(AuditPlace(answer[-1].at, answer[-1].entry) for answer in answers if answer.cut and answer)]

    def order(place: Any) -> tuple[float, int]:
        return sign * place.at, sign * place.entry

    end = min(ends, key=order, default=None)
    rows = sorted(chain.from_iterable(answers), key=order)
    shown = rows if end is None else [row for row in rows if order(row) <= order(end)]
    was_cut = end is not None and end not in pauses and len(shown) <= query.limit
    goes_on = end if end in pauses and len(shown) <= query.limit else None
    return AuditPage(shown[: query.limit], cut=was_cut, goes_on=goes_on)


def by_namespace(items: Iterable[T], namespace: Callable[[T], str]) -> dict[str, list[T]]:
    """The items of each namespace."""
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(namespace(item), []).append(item)
    return found
