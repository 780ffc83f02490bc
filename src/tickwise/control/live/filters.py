"""The filters of streams, and the index by which a batch of changes finds its streams.

Many streams ask for one job or one run each. So a batch is looked at once, by an index of the ids that are asked for,
and not once for each stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tickwise.domain.lifecycle import RunState
from tickwise.domain.selectors import Selector, matches
from tickwise.ports.feed import RunChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """The changes that a stream is about; everything given must match."""

    namespace: str | None
    """None: each one."""
    jobs: frozenset[bytes] = frozenset()
    """Ids of 16 bytes; empty: any."""
    runs: frozenset[bytes] = frozenset()
    states: frozenset[RunState] = frozenset()
    labels: Mapping[str, str] | None = None
    """Of the job."""
    brief: bool = False
    """It is told that something changed, once for each page of changes, and not what."""

    @property
    def is_broad(self) -> bool:
        """True if it names neither jobs nor runs."""
        return not self.jobs and not self.runs


class Interested(Protocol):
    """A stream, as the index sees it."""

    @property
    def filter(self) -> EventFilter: ...
    @property
    def within(self) -> Selector | None: ...


S = TypeVar("S", bound=Interested)


class Audience(Generic[S]):
    """The streams of one namespace, or of all, by what they ask for."""

    def __init__(self) -> None:
        self.broad: dict[S, None] = {}
        self.by_job: dict[bytes, dict[S, None]] = {}
        self.by_run: dict[bytes, dict[S, None]] = {}

    def add(self, stream: S) -> None:
        """Put a stream into the index."""
        for place in self._places(stream):
            place[stream] = None

    def remove(self, stream: S) -> None:
        """Take a stream out of the index."""
        for place in self._places(stream):
            place.pop(stream, None)
        for index, ids in ((self.by_job, stream.filter.jobs), (self.by_run, stream.filter.runs)):
            for each in ids:
                if each in index and not index[each]:
                    del index[each]

    def _places(self, stream: S) -> list[dict[S, None]]:
        asked = stream.filter
        if asked.runs:
            return [self.by_run.setdefault(run, {}) for run in asked.runs]
        if asked.jobs:
            return [self.by_job.setdefault(job, {}) for job in asked.jobs]
        return [self.broad]

    @property
    def is_empty(self) -> bool:
        """True if there is no stream in it."""
        return not (self.broad or self.by_job or self.by_run)

    def match(self, changes: RunChanges) -> dict[S, Sequence[int]]:
        """The indexes of the changes that each stream is about, but for labels."""
        found: dict[S, Sequence[int]] = {
            stream: range(len(changes.attempts)) for stream in self.broad if _takes_state(stream, changes.state)
        }
        for index, ids in ((self.by_job, changes.jobs), (self.by_run, changes.runs)):
            if not index or index.keys().isdisjoint(packed := ids.each()):
                continue  # nearly always, in a fifth of the time that a look at each would take
            for at, each in enumerate(packed):
                for stream in index.get(each, ()):
                    if _takes_state(stream, changes.state) and _takes_job(stream, changes, at):
                        found.setdefault(stream, []).append(at)  # type: ignore[attr-defined]  # no broad stream is in an index
        return found


def _takes_state(stream: Interested, state: RunState) -> bool:
    states = stream.filter.states
    return not states or state in states


def _takes_job(stream: Interested, changes: RunChanges, at: int) -> bool:
    jobs = stream.filter.jobs
    return not (jobs and stream.filter.runs) or changes.jobs.at(at) in jobs


def asks_for_labels(stream: Interested) -> bool:
    """Check whether a stream is about jobs with certain labels alone, by its filter or by its caller's permission."""
    return stream.filter.labels is not None or stream.within is not None


def takes_labels(stream: Interested, labels: Mapping[str, str]) -> bool:
    """Check whether a stream is about a job with these labels."""
    asked = stream.filter.labels
    return (asked is None or asked.items() <= labels.items()) and matches(labels, stream.within)
