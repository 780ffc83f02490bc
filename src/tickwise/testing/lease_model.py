"""The lease and fencing protocol as a small model, searched whole: every order of every step, up to a few tokens.

One run, one scheduler, two executors that register again under new numbers. At any step an executor may be killed,
its lease may run out though it lives (a pause, a partition, a clock that is off: to the store they are the same), an
answer may be lost, a request may come late, after anything else, and more than once.

    person ──cancel, revoke──►  store: state, holder, token  ◄──expire── scheduler
                                  │ claim        ▲ start, finish (number, token)
                                  ▼              │
                                executor: held ► starting ► begun ► reporting

Checked in every state that can be reached:

- safe: no write of an attempt that is not the current one is accepted, nothing leaves a final state, a run that must
  not run twice does not begin again while nobody knows how its last attempt went, and what a person asked to cancel is
  not claimed again;
- live: from every state the run can reach its end by steps without a further fault (`Step.calm`).

Each guard of the protocol can be taken out (`Protocol`); then the search finds the shortest trace to what goes wrong.

Invariant: the model moves the run by `lifecycle.move` and in no other way, so it knows no transition that the product
does not know; a test shows that it makes every one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from tickwise.domain.errors import Bug
from tickwise.domain.lifecycle import FINAL, HELD, RunEvent, RunState, move

NAMES: Final = (0, 1)
"""Two executors, by the names that they keep when they register again."""


class Fence(StrEnum):
    """By what the store knows that a write is the current attempt's."""

    TOKEN = "run, executor's number and token"
    STATE = "the state alone"
    NAME = "the executor's name"
    NUMBER = "the executor's number alone"
    NODE_CLOCK = "the lease, as the executor's own clock has it"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The guards of a protocol. With all of them it is that of Tickwise."""

    fence: Fence = Fence.TOKEN
    leases_expire: bool = True
    active_claim: bool = True
    """A claim needs an active number."""
    claims_kept: bool = True
    """After a claim whose answer was lost, the executor returns unknown runs (`executors.release_unknown`)."""
    reports_repeated: bool = True
    """A report is sent until it is answered."""
    starts_recorded: bool = True
    """A guarded run begins only after its start is on record."""
    refusals_heeded: bool = True
    """A refused start does not begin."""
    starts_repeatable: bool = True
    """A start that is on record is accepted again."""
    unknown_held: bool = True
    """A run that must not run twice is not freed after a recorded start."""
    cancels_kept: bool = True
    """A request to cancel outlives the attempt that it was made in."""
    reborn_under_new_number: bool = True
    """An executor that was killed comes back as another one."""
    tokens: int = 3
    registrations: int = 3
    """Of both executors together."""
    late_most: int = 1
    """Writes that are under way at the same time."""
    crashes_most: int = 2


TICKWISE: Final = Protocol()


class AttemptStage(StrEnum):
    """The stage of an attempt in an executor."""

    HELD = "held"
    STARTING = "starting"
    """It has asked for its start to be recorded, and has no answer."""
    BEGUN = "begun"
    REPORTING = "reporting"
    """It has told how it ended, and has no answer."""
    SILENT = "silent"
    """Ended, and it will not report again: only without the guard."""


class Number(NamedTuple):
    """An executor's identity in the store."""

    name: int
    boot: int

    def __str__(self) -> str:
        return f"{'AB'[self.name]}{self.boot}"


class AttemptEntry(NamedTuple):
    """The knowledge of an executor about one attempt, until that is over and answered."""

    token: int
    stage: AttemptStage
    guarded: bool
    outcome: RunEvent | None = None


class ExecutorProcess(NamedTuple):
    """One executor."""

    number: Number
    up: bool = True
    work: tuple[AttemptEntry, ...] = ()


class Write(NamedTuple):
    """A request of an executor that is still under way: it may come at any time, any number of times."""

    number: Number
    token: int
    event: RunEvent
    """STARTED, or how the attempt ended."""


class HolderRequest(StrEnum):
    """A request of the store to the holder of an attempt."""

    CANCEL = "cancel"
    REVOKE = "revoke"


ANSWERS: Final = {HolderRequest.CANCEL: RunEvent.CANCELLED, HolderRequest.REVOKE: RunEvent.SKIPPED}
"""The events of an attempt that has not begun, by the request."""


TROUBLED: Final = frozenset({RunEvent.STARTED, RunEvent.SUCCEEDED, RunEvent.RELEASED})
"""Writes that may be lost, late or doubled. The other endings differ from these in nothing that a fence looks at."""


class ModelState(NamedTuple):
    """One state of everything."""

    processes: tuple[ExecutorProcess, ...]
    once: bool
    """It must not run twice (`on_unknown: hold`)."""
    guarded: bool
    state: RunState = RunState.QUEUED
    holder: Number | None = None
    token: int = 0
    last_token: int = 0
    crashes: int = 0
    asked: HolderRequest | None = None
    gone: frozenset[Number] = frozenset()
    """Numbers that are expired, as far as anybody still goes by them."""
    late: frozenset[Write] = frozenset()
    began: int = 0
    """Of a run that must not run twice: 1 while an attempt has begun and nobody told how it went."""
    cancelled: bool = False
    """A person asked to cancel it; they remember."""


class Step(NamedTuple):
    """One thing that happens."""

    text: str
    world: ModelState
    calm: bool
    """It is no fault: what happens by itself when nothing more goes wrong."""


class ModelViolation(Exception):
    """Something that must never be."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(what)
        self.what = what
        self.text = text
        """The step that leads there."""


STUCK: Final = "it is stuck"


class SearchResult(NamedTuple):
    """The result of a search."""

    states: int
    moves: frozenset[tuple[RunState, RunEvent]]
    violation: str | None = None
    trace: tuple[str, ...] = ()
    """The steps to it; one of the shortest."""

    def __str__(self) -> str:
        if self.violation is None:
            return f"{self.states} states, safe and live"
        return "\n".join([self.violation, *(f"  {number}. {text}" for number, text in enumerate(self.trace, 1))])


class Model:
    """The steps of one protocol."""

    def __init__(self, protocol: Protocol = TICKWISE) -> None:
        self.protocol = protocol
        self.moves: set[tuple[RunState, RunEvent]] = set()

    def starts(self) -> Iterator[ModelState]:
        """The states in which it may begin: a run that may run again (and is guarded once it was lost), one that must
        not."""
        processes = tuple(ExecutorProcess(Number(name, 1)) for name in NAMES)
        yield ModelState(processes, once=False, guarded=False)
        yield ModelState(processes, once=True, guarded=True)

    def steps(self, world: ModelState) -> Iterator[Step]:
        """All that can happen next. Raises `ModelViolation`."""
        if world.state in FINAL:
            self._stays(world)
            return
        for name in NAMES:
            yield from self._claims(world, name)
            yield from self._works(world, name)
            yield from self._dies(world, name)
        yield from self._comes_late(world)
        yield from self._expires(world)
        yield from self._is_asked(world)

    def _stays(self, world: ModelState) -> None:
        """Nothing that is known or under way moves an ended run, or begins it. What an executor may do in two steps it
        names in the first, so looking one step ahead is looking to the end."""
        deque(self._comes_late(world), maxlen=0)
        for name in NAMES:
            deque(self._works(world, name), maxlen=0)

    # ------------------------------------------------------------------------------------------- the store

    def _moved(self, world: ModelState, event: RunEvent) -> ModelState:
        """The run after `event`, which must be legal."""
        try:
            after = move(world.state, event)
        except Bug as bug:
            raise ModelViolation("an illegal move was made", str(bug)) from None
        self.moves.add((world.state, event))
        free = after not in HELD
        return world._replace(state=after, holder=None if free else world.holder, token=0 if free else world.token)

    def _accepts(self, world: ModelState, write: Write) -> bool:
        """Check whether the fence accepts the write."""
        held = world.state in HELD
        match self.protocol.fence:
            case Fence.TOKEN:
                return held and world.holder == write.number and world.token == write.token
            case Fence.NUMBER:
                return held and world.holder == write.number
            case Fence.NAME:
                return held and world.holder is not None and world.holder.name == write.number.name
            case Fence.NODE_CLOCK:
                # Nobody has told it otherwise, and its own clock cannot.
                process = world.processes[write.number.name]
                return held and process.up and process.number == write.number
            case Fence.STATE:
                return held
            case Fence.NOTHING:
                return True

    def _written(self, world: ModelState, write: Write) -> tuple[ModelState, bool]:
        """The store takes a write or refuses it."""
        if not self._accepts(world, write):
            return world, False
        if world.state in FINAL:
            raise ModelViolation(
                "two results were accepted", f"{_said(write)} is accepted, and it had ended {world.state}"
            )
        if (world.holder, world.token) != (write.number, write.token):
            raise ModelViolation("a stale result was accepted", f"{_said(write)} is accepted")
        if write.event is RunEvent.STARTED:
            if world.state is RunState.RUNNING:
                return world, self.protocol.starts_repeatable
            return self._moved(world, RunEvent.STARTED), True
        began = world.state is RunState.RUNNING or write.event is RunEvent.RETRIED
        if began:
            # The executor that began it reported its end: no outcome is unknown any more.
            world = world._replace(began=0)
        return self._freed(self._moved(world, write.event), began=began), True

    def _freed(self, world: ModelState, *, began: bool) -> ModelState:
        """The store carries out the request to a holder once there is no holder any more."""
        asked = world.asked
        if world.state in HELD or asked is None:
            return world
        world = world._replace(asked=None)
        if world.state in FINAL:
            return world
        if asked is HolderRequest.CANCEL and self.protocol.cancels_kept:
            return self._moved(world, RunEvent.CANCELLED)
        if asked is HolderRequest.REVOKE and not began:
            return self._moved(world, RunEvent.SKIPPED)
        return world

    def _expires(self, world: ModelState) -> Iterator[Step]:
        """A scheduler expires a number whose lease ran out, and frees what it held."""
        numbers = {process.number for process in world.processes if process.up}
        numbers |= {world.holder} if world.holder is not None else set()
        for number in sorted(numbers - world.gone) if self.protocol.leases_expire else ():
            lives = world.processes[number.name] == (number, True, world.processes[number.name].work)
            after = world._replace(gone=world.gone | {number})
            after = self._lost(after) if world.holder == number else after
            yield Step(f"the lease of {number} runs out: {after.state}", after, calm=not lives)

    def _lost(self, world: ModelState) -> ModelState:
        """Its holder is expired."""
        began = world.state is RunState.RUNNING
        if began and world.once and self.protocol.unknown_held:
            return self._moved(world, RunEvent.UNKNOWN)._replace(asked=None)
        if began and world.crashes + 1 >= self.protocol.crashes_most:
            return self._moved(world, RunEvent.QUARANTINED)._replace(asked=None)
        freed = self._moved(world, RunEvent.LEASE_LOST)._replace(guarded=True, crashes=world.crashes + began)
        return self._freed(freed, began=began)

    def _is_asked(self, world: ModelState) -> Iterator[Step]:
        """A person cancels, or an edit takes back what has not begun."""
        if world.state in (RunState.QUEUED, RunState.RETRYING):
            yield Step(
                "a person cancels it", self._moved(world._replace(cancelled=True), RunEvent.CANCELLED), calm=False
            )
        if world.state is RunState.QUEUED:
            yield Step("it is skipped", self._moved(world, RunEvent.SKIPPED), calm=False)
        if world.state in HELD and world.asked is not HolderRequest.CANCEL:
            yield Step(
                "a person asks to cancel it", world._replace(asked=HolderRequest.CANCEL, cancelled=True), calm=False
            )
        if world.state is RunState.DISPATCHED and world.asked is None:
            yield Step("it is asked back", world._replace(asked=HolderRequest.REVOKE), calm=False)

    # ------------------------------------------------------------------------------------------- executors

    def _claims(self, world: ModelState, name: int) -> Iterator[Step]:
        process = world.processes[name]
        number, token = process.number, world.last_token + 1
        if self.protocol.claims_kept and process.up and world.holder == number and world.state is RunState.DISPATCHED:
            known = any(entry.token == world.token for entry in process.work)
            if not known:
                after = self._freed(self._moved(world, RunEvent.RELEASED), began=False)
                yield Step(f"{number} gives back what it does not know: {after.state}", after, calm=True)
        free = world.state in (RunState.QUEUED, RunState.RETRYING) and token <= self.protocol.tokens
        if not free or not process.up or (self.protocol.active_claim and number in world.gone):
            return
        if world.cancelled:
            raise ModelViolation("what was to be cancelled was claimed again", f"{number} claims it with token {token}")
        held = world._replace(holder=number, token=token, last_token=token)
        held = self._moved(held, RunEvent.CLAIMED)
        entry = AttemptEntry(token, AttemptStage.HELD, world.guarded)
        yield Step(f"{number} claims it with token {token}", _with(held, name, entry), calm=True)
        yield Step(f"{number} claims it with token {token}, and the answer is lost", held, calm=False)

    def _works(self, world: ModelState, name: int) -> Iterator[Step]:
        """The steps of an active executor with each attempt that it knows, and the answers to its heartbeats."""
        process = world.processes[name]
        if not process.up:
            return
        if process.number in world.gone:
            yield Step(f"{process.number} hears that it is expired", self._registered_again(world, name), calm=True)
        for entry in process.work:
            match entry.stage:
                case AttemptStage.HELD:
                    yield from self._held(world, name, entry)
                case AttemptStage.STARTING:
                    yield from self._asks(world, name, entry, RunEvent.STARTED)
                case AttemptStage.BEGUN:
                    yield from self._begun(world, name, entry)
                case AttemptStage.REPORTING:
                    assert entry.outcome is not None
                    yield from self._asks(world, name, entry, entry.outcome)
                case AttemptStage.SILENT:
                    pass

    def _held(self, world: ModelState, name: int, entry: AttemptEntry) -> Iterator[Step]:
        if entry.guarded and self.protocol.starts_recorded:
            yield from self._asks(world, name, entry, RunEvent.STARTED)
        else:
            yield self._begins(world, name, entry)
        yield from self._asks(world, name, entry, RunEvent.RELEASED)
        if world.asked is not None and (world.holder, world.token) == (world.processes[name].number, entry.token):
            yield from self._asks(world, name, entry, ANSWERS[world.asked])

    def _begins(self, world: ModelState, name: int, entry: AttemptEntry) -> Step:
        text = f"the task begins on {world.processes[name].number} with token {entry.token}"
        if world.once and world.began:
            raise ModelViolation("what must not run twice began again", text)
        began = _with(world._replace(began=int(world.once)), name, entry._replace(stage=AttemptStage.BEGUN))
        return Step(text, began, calm=True)

    def _begun(self, world: ModelState, name: int, entry: AttemptEntry) -> Iterator[Step]:
        for event in (RunEvent.SUCCEEDED, RunEvent.FAILED, RunEvent.RETRIED, RunEvent.RELEASED):
            yield from self._asks(world, name, entry, event)
        if world.asked is HolderRequest.CANCEL and (world.holder, world.token) == (
            world.processes[name].number,
            entry.token,
        ):
            yield from self._asks(world, name, entry, RunEvent.CANCELLED)
        if not entry.guarded:
            # What goes on for a while tells so; nothing waits for it.
            yield from self._asks(world, name, entry, RunEvent.STARTED)

    def _asks(self, world: ModelState, name: int, entry: AttemptEntry, event: RunEvent) -> Iterator[Step]:
        """A write goes to the store: answered; taken, and the answer lost; lost; or late."""
        write = Write(world.processes[name].number, entry.token, event)
        after, accepted = self._written(world, write)
        text = f"{_said(write)}: {after.state if accepted else 'refused'}"
        yield self._answered(after, name, entry, event, accepted=accepted, text=text)
        if event not in TROUBLED:
            return
        waits = self._unanswered(entry, event)
        yield Step(f"{text}, and the answer is lost", _with(after, name, waits), calm=False)
        if waits is not entry:
            yield Step(f"{_said(write)}, which is lost", _with(world, name, waits), calm=False)
        if write not in world.late and len(world.late) < self.protocol.late_most:
            late = _with(world._replace(late=world.late | {write}), name, waits)
            yield Step(f"{_said(write)}, which is under way", late, calm=False)

    def _unanswered(self, entry: AttemptEntry, event: RunEvent) -> AttemptEntry:
        if event is RunEvent.STARTED:
            return entry if entry.stage is AttemptStage.BEGUN else entry._replace(stage=AttemptStage.STARTING)
        stage = AttemptStage.REPORTING if self.protocol.reports_repeated else AttemptStage.SILENT
        return entry._replace(stage=stage, outcome=event)

    def _answered(
        self, world: ModelState, name: int, entry: AttemptEntry, event: RunEvent, *, accepted: bool, text: str
    ) -> Step:
        over = _without(world, name, entry)
        if event is not RunEvent.STARTED:
            return Step(text, over, calm=True)
        if not accepted and (entry.stage is AttemptStage.BEGUN or self.protocol.refusals_heeded):
            return Step(f"{text}; it is dropped", over, calm=True)
        if entry.stage is AttemptStage.BEGUN:
            return Step(text, world, calm=True)
        began = self._begins(world, name, entry)
        return began._replace(text=f"{text}; {began.text}")

    def _comes_late(self, world: ModelState) -> Iterator[Step]:
        """A late write arrives, also if its sender is gone by then; it may come again."""
        for write in sorted(world.late, key=str):
            after, accepted = self._written(world, write)
            if accepted:
                yield Step(f"late: {_said(write)}: {after.state}", after, calm=False)

    def _dies(self, world: ModelState, name: int) -> Iterator[Step]:
        process = world.processes[name]
        if process.up:
            after = _process(world, name, process._replace(up=False, work=()))
            yield Step(f"{process.number} is killed", after, calm=False)
        elif sum(each.number.boot for each in world.processes) < self.protocol.registrations:
            yield Step(f"{process.number} starts again", self._registered_again(world, name), calm=True)

    def _registered_again(self, world: ModelState, name: int) -> ModelState:
        """It knows nothing, and what it ran is dead. After its last registration it stays away."""
        number = world.processes[name].number
        if not self.protocol.reborn_under_new_number and number not in world.gone:
            return _process(world, name, ExecutorProcess(number))
        if sum(process.number.boot for process in world.processes) >= self.protocol.registrations:
            return _process(world, name, ExecutorProcess(number, up=False))
        return _process(world, name, ExecutorProcess(Number(name, number.boot + 1)))


def search(protocol: Protocol = TICKWISE) -> SearchResult:
    """Look at every state that can be reached, the nearest first, then at whether each can come to an end."""
    model = Model(protocol)
    came: dict[ModelState, ModelState | None] = dict.fromkeys(model.starts())
    calm_from: dict[ModelState, list[ModelState]] = {}
    waiting = deque(came)
    while waiting:
        world = waiting.popleft()
        try:
            for step in model.steps(world):
                after = _relevant(step.world)
                if step.calm:
                    calm_from.setdefault(after, []).append(world)
                if after not in came:
                    came[after] = world
                    waiting.append(after)
        except ModelViolation as violation:
            return SearchResult(len(came), frozenset(model.moves), violation.what, _trace(model, came, world))
    stuck = _stuck(came, calm_from, protocol)
    if stuck is not None:
        last = f"and from here nothing leads to an end: it stays {stuck.state}"
        return SearchResult(len(came), frozenset(model.moves), STUCK, (*_trace(model, came, stuck), last))
    return SearchResult(len(came), frozenset(model.moves))


def _stuck(
    came: dict[ModelState, ModelState | None], calm_from: dict[ModelState, list[ModelState]], protocol: Protocol
) -> ModelState | None:
    """The nearest state from which no calm steps lead to an end."""
    ends = [world for world in came if _may_end(world, protocol)]
    can_end = set(ends)
    while ends:
        for world in calm_from.get(ends.pop(), ()):
            if world not in can_end:
                can_end.add(world)
                ends.append(world)
    return next((world for world in came if world not in can_end), None)


def _may_end(world: ModelState, protocol: Protocol) -> bool:
    """It has ended, or it is free and only the bound on tokens or registrations ends the search here."""
    over = world.last_token >= protocol.tokens or not any(process.up for process in world.processes)
    return world.state in FINAL or (over and world.state not in HELD)


def _relevant(world: ModelState) -> ModelState:
    """Without what nobody goes by any more, and with the names in one order: states that differ in nothing else are
    one."""
    if world.state in FINAL:
        # Of an ended run only what executors may still do matters.
        world = ModelState(
            world.processes, world.once, guarded=True, state=world.state, late=world.late, began=world.began
        )
    if world.gone:
        numbers = {process.number for process in world.processes} | {world.holder}
        world = world._replace(gone=world.gone & numbers)
    one, other = world.processes
    if (other.number.boot, other.up, other.work) < (one.number.boot, one.up, one.work):
        world = _swapped(world)
    return world


def _swapped(world: ModelState) -> ModelState:
    """This state with the two names exchanged."""

    def of(number: Number) -> Number:
        return Number(1 - number.name, number.boot)

    one, other = (process._replace(number=of(process.number)) for process in world.processes)
    return world._replace(
        processes=(other, one),
        holder=None if world.holder is None else of(world.holder),
        gone=frozenset(map(of, world.gone)),
        late=frozenset(write._replace(number=of(write.number)) for write in world.late),
    )


def _trace(model: Model, came: dict[ModelState, ModelState | None], last: ModelState) -> tuple[str, ...]:
    """The steps to a state, and the one that went wrong there, if one did.

    They are taken once more from the start, so that each executor keeps its name from the first line to the last.
    """
    way = [last]
    while (before := came[way[-1]]) is not None:
        way.append(before)
    texts: list[str] = []
    world = way.pop()
    try:
        while way:
            step = next(step for step in model.steps(world) if _relevant(step.world) == way[-1])
            texts.append(step.text)
            world = step.world
            way.pop()
        deque(model.steps(world), maxlen=0)
    except ModelViolation as violation:
        texts.append(violation.text)
    return tuple(texts)


def _with(world: ModelState, name: int, entry: AttemptEntry) -> ModelState:
    """With what this executor knows of one attempt."""
    process = world.processes[name]
    others = tuple(other for other in process.work if other.token != entry.token)
    return _process(world, name, process._replace(work=tuple(sorted((*others, entry), key=lambda each: each.token))))


def _without(world: ModelState, name: int, entry: AttemptEntry) -> ModelState:
    """Without it: that attempt is over and answered."""
    process = world.processes[name]
    return _process(world, name, process._replace(work=tuple(each for each in process.work if each is not entry)))


def _process(world: ModelState, name: int, process: ExecutorProcess) -> ModelState:
    processes = tuple(process if other == name else world.processes[other] for other in NAMES)
    return world._replace(processes=processes)


def _said(write: Write) -> str:
    return f"{write.number} says of token {write.token}: {write.event.name}"
