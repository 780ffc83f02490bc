"""The state of a namespace and of the machinery in one sentence that is true: the gravest finding, or that all runs.

    counts of the store, alerts, stops, executors, queues, objectives ──► findings, the gravest first ──► verdict

Pure. A finding of level NOTE leaves the verdict as it is. A fact that a visitor may not see says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from tickwise.control.observing.objectives import StandingObjective
from tickwise.domain.excerpts import one_line
from tickwise.domain.notices.rules import Alert, AlertState, Severity
from tickwise.domain.observing.objectives import ObjectiveState
from tickwise.domain.stops import Stop, StopScope
from tickwise.ports.store import ExecutorRow, QueueRow, StoreStats
from tickwise.web.texts import capital, coarse, number

LATE_LIMIT_SECONDS: Final = 60.0
"""A timer that is so late means that no scheduler keeps up: as `/readyz` judges."""
LOST_SECONDS: Final = 900.0
"""An executor that went silent is a finding for so long."""
NAMED: Final = 3
"""Things of one finding that are named."""
NAME_CHARACTERS: Final = 60
REASON_CHARACTERS: Final = 200


class Level(IntEnum):
    """The gravity of a finding."""

    NOTE = 0
    WARN = 1
    BAD = 2


class Finding(NamedTuple):
    """One thing that is not as usual."""

    level: Level
    sentence: str
    advice: str = ""
    path: str = ""
    """The page that shows it, or `#ID` of a part of this one; empty: there is none."""
    query: Mapping[str, str] = {}
    until: float | None = None
    """Its end, if that is known."""


class MissedTimes(NamedTuple):
    """The times that did not run although nobody chose that."""

    times: int
    """Of all records: one may stand for many."""
    jobs: int
    more: bool
    """There is more than was read."""
    query: Mapping[str, str]
    """The filter of the list of runs that shows them, and where there are several reasons, other skips too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFacts:
    """The facts. Empty: nothing is known, or there is nothing."""

    now: float
    stats: StoreStats
    alerts: Sequence[Alert] = ()
    """Open and acknowledged ones, in any order."""
    is_cut: bool = False
    """There are more alerts."""
    objectives: Sequence[StandingObjective] = ()
    stops: Sequence[Stop] = ()
    """Those in force."""
    executors: Sequence[ExecutorRow] = ()
    """Active ones, and those gone lately."""
    queues: Sequence[QueueRow] = ()
    unserved: Sequence[str] = ()
    """Queues in which runs wait, and which no active executor serves."""
    overdue: int = 0
    """Jobs whose time has passed without a run, though nobody holds them back."""
    failed: int = 0
    """Runs that failed in this hour."""
    is_failed_cut: bool = False
    """There may be more of them."""
    hour: Mapping[str, str] = field(default_factory=dict)
    """The filter of the list of runs that shows them."""
    missed: MissedTimes | None = None
    """The times of the last day that did not run, and nobody chose that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthVerdict:
    """The finding that leads, and those behind it."""

    level: Level
    lead: Finding
    rest: Sequence[Finding]


WELL: Final = Finding(Level.NOTE, "Everything runs.")


def verdict(known: HealthFacts) -> HealthVerdict:
    """The gravest finding leads. Of equal ones the machinery comes first, then alerts, then decisions of people."""
    parts = (_machinery, _alerts, _lost, _queues, _stops, _objectives, _missed, _failures)
    found = sorted((each for part in parts for each in part(known)), key=lambda each: -each.level)
    if found and found[0].level > Level.NOTE:
        return HealthVerdict(level=found[0].level, lead=found[0], rest=found[1:])
    return HealthVerdict(level=Level.NOTE, lead=WELL, rest=found)


def _machinery(known: HealthFacts) -> list[Finding]:
    stats = known.stats
    found = []
    if stats.executors == 0:
        advice = "Start one: tickwise executor, or tickwise up."
        found.append(Finding(Level.BAD, "No executor is active, so nothing runs.", advice, "/executors"))
    if stats.timers_late_seconds > LATE_LIMIT_SECONDS:
        sentence = f"No scheduler keeps up: the oldest timer is late by {coarse(stats.timers_late_seconds)}."
        advice = "Look at the log of the schedulers, or start another one."
        found.append(Finding(Level.BAD, sentence, advice, "/executors"))
    if known.overdue:
        sentence = "One job is overdue." if known.overdue == 1 else f"{number(known.overdue)} jobs are overdue."
        found.append(Finding(Level.WARN, sentence, path="#next-title"))
    if stats.executors and stats.oldest_ready_seconds > LATE_LIMIT_SECONDS:
        sentence = f"A run has waited for {coarse(stats.oldest_ready_seconds)} although executors are active."
        advice = "They are busy, or none offers what it needs: its page says which."
        found.append(Finding(Level.WARN, sentence, advice, "/runs", {"status": "QUEUED"}))
    if known.unserved and stats.executors:
        plural, those = ("s", "them") if len(known.unserved) > 1 else ("", "it")
        sentence = f"Runs wait in the queue{plural} {_named(known.unserved)}, and no active executor serves {those}."
        advice = "Start an executor with --queues, or give the jobs another queue."
        found.append(Finding(Level.WARN, sentence, advice, "/queues"))
    return found


_OF_SEVERITY: Final = (
    (Severity.CRITICAL, Level.BAD, "critical "),
    (Severity.WARNING, Level.WARN, ""),
    (Severity.INFO, Level.NOTE, "minor "),
)


def _alerts(known: HealthFacts) -> list[Finding]:
    """Open ones by their severity. One that a person has in hand counts a level less."""
    found = []
    for severity, level, word in _OF_SEVERITY:
        open_ones = [each for each in known.alerts if (each.state, each.severity) == (AlertState.OPEN, severity)]
        if open_ones:
            words = _of_alerts(open_ones, word, "open", is_cut=known.is_cut)
            found.append(Finding(level, words, path=_page_of(open_ones)))
    taken = [each for each in known.alerts if each.state is AlertState.ACKNOWLEDGED]
    if taken:
        level = Level.WARN if any(each.severity is Severity.CRITICAL for each in taken) else Level.NOTE
        query = {"state": AlertState.ACKNOWLEDGED.value} if len(taken) > 1 else {}
        words = _of_alerts(taken, "", "acknowledged, and not over", is_cut=known.is_cut)
        found.append(Finding(level, words, path=_page_of(taken), query=query))
    return found


def _of_alerts(these: Sequence[Alert], word: str, how: str, *, is_cut: bool) -> str:
    if len(these) == 1:
        told = "." if is_cut else f": {one_line(these[0].subject_name, NAME_CHARACTERS)}."
        return f"{'At least one' if is_cut else 'One'} {word}alert is {how}{told}"
    return f"{'At least ' if is_cut else ''}{number(len(these))} {word}alerts are {how}."


def _page_of(these: Sequence[Alert]) -> str:
    return f"/alerts/{these[0].alert_id}" if len(these) == 1 else "/alerts"


def _lost(known: HealthFacts) -> list[Finding]:
    """Executors that went silent, unless one of the same name came after them."""
    active = {row.name for row in known.executors if row.gone_at is None and row.lease_until >= known.now}
    silent: dict[str, float] = {}
    for row in known.executors:
        since = row.lease_until if row.gone_at is None else row.gone_at
        # One that leaves in order is gone before its lease ends.
        if row.lease_until <= since and known.now - LOST_SECONDS < since < known.now and row.name not in active:
            silent[row.name] = max(since, silent.get(row.name, since))
    if not silent:
        return []
    names = sorted(silent, key=lambda name: -silent[name])
    ago = coarse(known.now - silent[names[0]])
    if len(names) == 1:
        sentence = f"The executor {_named(names)} went silent {ago} ago."
    else:
        sentence = f"{number(len(names))} executors went silent, the last one {ago} ago: {_named(names)}."
    advice = f"{'Its' if len(names) == 1 else 'Their'} runs go on elsewhere, if their jobs let them."
    return [Finding(Level.WARN, sentence, advice, "/executors")]


def _queues(known: HealthFacts) -> list[Finding]:
    held = [row for row in known.queues if row.held]
    if not held:
        return []
    names, waiting = [row.queue for row in held], sum(row.queued for row in held)
    if len(names) == 1:
        sentence = f"The queue {_named(names)} is on hold."
    else:
        sentence = f"{number(len(names))} queues are on hold: {_named(names)}."
    runs = "run waits" if waiting == 1 else "runs wait"
    advice = f"{number(waiting)} {runs} in {'it' if len(names) == 1 else 'them'}." if waiting else ""
    return [Finding(Level.WARN, sentence, advice, "/queues")]


def _stops(known: HealthFacts) -> list[Finding]:
    """The widest one, with its end and its reason; of several others their number."""
    if not known.stops:
        return []
    whole = [stop for stop in known.stops if stop.scope == StopScope()]
    if not whole and len(known.stops) > 1:
        return [Finding(Level.WARN, f"{number(len(known.stops))} stops are in force.", path="/stops")]
    stop = (whole or known.stops)[0]
    words = capital(one_line(stop.scope.words(), 2 * NAME_CHARACTERS))
    sentence = f"{words} {'is' if stop.scope.is_one else 'are'} stopped."
    advice = f"By {one_line(stop.by, NAME_CHARACTERS)}: {one_line(stop.reason, REASON_CHARACTERS)}"
    return [Finding(Level.WARN, sentence, advice, "/stops", until=None if stop.open_ended else stop.until)]


_OF_STATE: Final = (
    (ObjectiveState.BURNING, "burns its error budget too fast", "burn their error budgets too fast"),
    (ObjectiveState.EXHAUSTED, "has no error budget left", "have no error budget left"),
)


def _objectives(known: HealthFacts) -> list[Finding]:
    found = []
    for state, one, many in _OF_STATE:
        names = [each.name for each in known.objectives if each.standing.state is state]
        if len(names) == 1:
            found.append(Finding(Level.WARN, f"The objective of {_named(names)} {one}.", path="/objectives"))
        elif names:
            sentence = f"{number(len(names))} objectives {many}: {_named(names)}."
            found.append(Finding(Level.WARN, sentence, path="/objectives"))
    return found


def _missed(known: HealthFacts) -> list[Finding]:
    missed = known.missed
    if missed is None:
        return []
    times = "One time" if missed.times == 1 else f"{number(missed.times)} times"
    jobs = "one job" if missed.jobs == 1 else f"{number(missed.jobs)} jobs"
    more = "More than " if missed.more else ""
    words = f"{more}{times} of {jobs} did not run in 24 hours."
    advice = "Nobody chose that; the list says why."
    return [Finding(Level.NOTE, words, advice, "/runs", missed.query)]


def _failures(known: HealthFacts) -> list[Finding]:
    if not known.failed:
        return []
    runs = "One run" if known.failed == 1 else f"{number(known.failed)} runs"
    runs = f"At least {runs}" if known.is_failed_cut else runs
    return [Finding(Level.NOTE, f"{runs} failed in this hour.", path="/runs", query=known.hour)]


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, NAME_CHARACTERS) for name in names[:NAMED])
    return f"{shown} and {number(len(names) - NAMED)} more" if len(names) > NAMED else shown
