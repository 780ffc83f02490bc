"""The messages between roles through a broker, as bytes: `docs/reference/messages.md`.

MessagePack maps with the names of the fields, so that a message can be read by a person with any tool. The rule of
versions: a reader ignores fields that it does not know, and a field that is added has a default. What cannot be read
so is a new `v`; it is read for one release before it is written. A reader that meets a later version than it knows
(`UnreadableMessage`) parks the message with its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeVar
from uuid import UUID

import msgspec

from tickwise.domain.audit import CallerKind, Source
from tickwise.domain.callers import Asker
from tickwise.domain.model import Lane, Outcome
from tickwise.domain.observing.usage import NO_USAGE, ResourceUsage, UsageByRun
from tickwise.domain.trace_context import NO_TRACES, TracesByRun, read_trace
from tickwise.ports.store import NewJob, Ready

VERSION: Final = 1
ID_BYTES: Final = 16
MAX_HINTED: Final = 1_000
"""Runs of one hint. Ours name a hundred; what names very many would fill an executor's memory."""


class UnreadableMessage(Exception):
    """The error that a message is none of this program's, or of a later version. The text says which."""


class Hints(msgspec.Struct, frozen=True, omit_defaults=True):
    """Runs of one lane that can be claimed now or soon."""

    queue: str
    priority: int
    requires: tuple[str, ...]
    runs: bytes
    """Their ids, 16 bytes each."""
    ready: float = 0.0
    """The due time of the last of them, by the store's clock; an executor that claims ahead may claim them before."""
    namespaces: tuple[str, ...] = ()
    """The namespace of each run, in the order of `runs`; one alone is that of all runs. Empty: the sender does not say,
    as programs before 0.2."""
    v: int = VERSION

    @classmethod
    def of(cls, lane: Lane, runs: Sequence[Ready]) -> Hints:
        """The hints of one lane, the earliest run first; at least one run."""
        namespaces = tuple([run.namespace for run in runs])
        if namespaces.count(namespaces[0]) == len(namespaces):
            namespaces = namespaces[:1]
        text = b"".join([run.run_id.bytes for run in runs])
        return cls(lane.queue, lane.priority, lane.requires, text, runs[-1].ready, namespaces)

    @property
    def lane(self) -> Lane:
        """The lane in which they wait."""
        return Lane(self.queue, self.priority, self.requires)

    def ids(self) -> list[UUID]:
        """The runs."""
        text = self.runs
        return [UUID(bytes=text[at : at + ID_BYTES]) for at in range(0, len(text), ID_BYTES)]


class OutcomeUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The resources that one attempt used. Absent: not measured."""

    outcome: int
    """The place of its outcome in `outcomes`, from 0."""
    cpu_seconds: float | None = None
    """Processor time, user and system."""
    memory_bytes: int | None = None
    """The peak."""
    output_bytes: int | None = None
    """The output that was kept."""
    read_bytes: int | None = None
    """Bytes from disks."""
    written_bytes: int | None = None
    """Bytes to disks."""
    network_bytes: int | None = None
    """Bytes from and to the network."""
    work_bytes: int | None = None
    """The most that it kept in its work folder."""
    image: str | None = None
    """The image of its container, with its digest."""

    @property
    def usage(self) -> ResourceUsage:
        """As the store keeps it."""
        return ResourceUsage(*[getattr(self, name) for name in ResourceUsage._fields])


class OutcomeTrace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The span of one attempt that is recorded as a trace. Absent: it is not recorded."""

    outcome: int
    """The place of its outcome in `outcomes`, from 0."""
    traceparent: str
    """By W3C Trace Context. One that is not valid is ignored."""
    tracestate: str = ""
    """The notes of systems on the way."""


class Results(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ends of attempts of one executor. Keyed by the executor, so they come in order."""

    executor: int
    number: int
    """Of this message, counted up by its executor from 1."""
    outcomes: tuple[Outcome, ...]
    since: int = 1
    """The lowest number that its executor still waits for, this one at most: all before it are settled, so that no
    recorder waits for a lost message."""
    usage: tuple[OutcomeUsage, ...] = ()
    """Of the attempts that were measured. Not in `outcomes`: an array with one more item would be a new version."""
    traces: tuple[OutcomeTrace, ...] = ()
    """Of the attempts that are recorded, for the span of the recorder."""
    v: int = VERSION

    @classmethod
    def of(
        cls,
        executor: int,
        number: int,
        outcomes: Sequence[Outcome],
        since: int,
        usage: UsageByRun = NO_USAGE,
        traces: TracesByRun = NO_TRACES,
    ) -> Results:
        """A message with these outcomes, and the usage and the spans of those that have one."""
        if not usage and not traces:
            return cls(executor, number, tuple(outcomes), since)
        used = [(place, usage.get(outcome.run_id)) for place, outcome in enumerate(outcomes)]
        recorded = [(place, traces.get(outcome.run_id)) for place, outcome in enumerate(outcomes)]
        return cls(
            executor,
            number,
            tuple(outcomes),
            since,
            tuple(OutcomeUsage(place, *found) for place, found in used if found is not None),
            tuple(OutcomeTrace(place, on.traceparent, on.tracestate) for place, on in recorded if on is not None),
        )

    def usage_by_run(self) -> UsageByRun:
        """The usage of its outcomes, by their runs."""
        return {self.outcomes[each.outcome].run_id: each.usage for each in self.usage}

    def traces_by_run(self) -> TracesByRun:
        """The spans of its attempts that are recorded, by their runs. Text that is no trace is left out."""
        return {
            self.outcomes[each.outcome].run_id: trace
            for each in self.traces
            if each.outcome in range(len(self.outcomes))
            and (trace := read_trace(each.traceparent, each.tracestate)) is not None
            and trace.sampled
        }


class NewJobPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The job of a create, as it was composed: `ports.store.NewJob` without what the request itself says."""

    name: str
    schedule_type: str
    task_kind: str
    definition: str
    """JSON text."""
    queue: str
    priority: int
    requires: tuple[str, ...]
    recurring: bool = False
    run_id: UUID | None = None
    due: float | None = None
    never: bool = False
    named: bool = False
    key: str | None = None
    digest: bytes | None = None
    labels: dict[str, str] | None = None
    owner: str | None = None
    calendars: tuple[str, ...] = ()
    zone_data: str | None = None
    secrets: tuple[str, ...] = ()
    """A program of an earlier release sends none."""

    @classmethod
    def of(cls, job: NewJob) -> NewJobPart:
        """The part of a job, which makes no runs besides (`missed`)."""
        lane = job.lane
        return cls(
            job.name,
            job.schedule_type,
            job.task_kind,
            job.definition,
            lane.queue,
            lane.priority,
            lane.requires,
            job.recurring,
            job.run_id,
            job.due,
            job.never,
            job.named,
            job.key,
            job.digest,
            None if job.labels is None else dict(job.labels),
            job.owner,
            tuple(job.calendars),
            job.zone_data,
            tuple(job.secrets),
        )


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change that was accepted. Keyed by the job, so those of one job come in order."""

    kind: Literal["create", "change", "cancel"]
    operation_id: UUID
    """Under which its end is on record. Of a create the job's own id, unless the client chose that, or an
    Idempotency-Key from which it follows: then a hash of the id and of what was asked for."""
    job_id: UUID
    namespace: str
    principal: str
    """The caller."""
    accepted: float
    """The time of acceptance, by the store's clock as far as it was known; what it asks for is judged as of then."""
    job: NewJobPart | None = None
    """Of a create: the job as it was composed."""
    body: bytes = b""
    """Of a change: its JSON body, as it was sent."""
    key_id: UUID | None = None
    """The credential of the caller, which is looked up again when the request is applied: the key, …"""
    user_id: UUID | None = None
    """… the person who was signed in, …"""
    owner_id: UUID | None = None
    """… and the person whose key it was. All absent: a program of the release before accepted it."""
    caller_kind: str = ""
    """Of the caller, for the audit log; empty: an earlier release sent it, without this and the next three."""
    caller_id: UUID | None = None
    """The id of the person or the key."""
    address: str = ""
    """The address from which the request came."""
    request_id: str = ""
    """The id of the request, as its answer bore it."""
    v: int = VERSION

    @property
    def asker(self) -> Asker | None:
        """The credential behind it; None: its maker does not say."""
        found = Asker(self.key_id, self.user_id, self.owner_id)
        return None if (self.key_id, self.user_id) == (None, None) else found

    @property
    def source(self) -> Source:
        """The caller who made the request, and the place from which it came."""
        place = self.principal, self.address, self.request_id
        if self.caller_kind in set(CallerKind):
            return Source(CallerKind(self.caller_kind), self.caller_id, *place)
        if self.user_id is not None:
            return Source(CallerKind.PERSON, self.user_id, *place)
        return Source(CallerKind.PROGRAM if self.key_id is None else CallerKind.KEY, self.key_id, *place)

    def new_job(self) -> NewJob:
        """Of a create: what is to be stored. Raises `UnreadableMessage` if nothing is said of it."""
        said = self.job
        if said is None:
            raise UnreadableMessage("a request to create a job brings the job")
        return NewJob(
            job_id=self.job_id,
            namespace=self.namespace,
            name=said.name,
            schedule_type=said.schedule_type,
            task_kind=said.task_kind,
            definition=said.definition,
            lane=Lane(said.queue, said.priority, said.requires),
            created_by=self.principal,
            recurring=said.recurring,
            run_id=said.run_id,
            due=said.due,
            never=said.never,
            named=said.named,
            key=said.key,
            digest=said.digest,
            labels=said.labels,
            owner=said.owner,
            calendars=said.calendars,
            zone_data=said.zone_data,
            source=self.source,
            secrets=said.secrets,
        )


T = TypeVar("T", Hints, Results, Request)


class _Version(msgspec.Struct):
    v: int = VERSION


_encode: Final = msgspec.msgpack.Encoder().encode
_version: Final = msgspec.msgpack.Decoder(_Version)
KINDS: Final = (Hints, Results, Request)
_decoders: Final = {kind: msgspec.msgpack.Decoder(kind) for kind in KINDS}


def encode(message: Hints | Results | Request) -> bytes:
    """The bytes of a message."""
    return _encode(message)


def decode(kind: type[T], value: bytes) -> T:
    """As it was meant. Raises `UnreadableMessage`."""
    try:
        message: T = _decoders[kind].decode(value)  # type: ignore[assignment]  # by its own kind
    except (msgspec.MsgspecError, ValueError) as wrong:
        raise UnreadableMessage(_why(value, wrong)) from wrong
    if message.v > VERSION:
        raise UnreadableMessage(f"it is of version {message.v}, and this program reads up to {VERSION}")
    if isinstance(message, Results) and not all(
        0 <= each.outcome < len(message.outcomes) and each.usage.is_plausible for each in message.usage
    ):
        raise UnreadableMessage("it names a usage of no outcome, or one that cannot be")
    if isinstance(message, Hints) and len(message.runs) % ID_BYTES:
        raise UnreadableMessage("its list of runs does not end with a whole id")
    if isinstance(message, Hints) and len(message.runs) > MAX_HINTED * ID_BYTES:
        raise UnreadableMessage(f"it names {len(message.runs) // ID_BYTES} runs, and a hint names {MAX_HINTED} at most")
    if isinstance(message, Hints) and len(message.namespaces) not in (0, 1, len(message.runs) // ID_BYTES):
        raise UnreadableMessage("its namespaces are neither one for all of its runs nor one for each")
    return message


def _why(value: bytes, wrong: Exception) -> str:
    try:
        said = _version.decode(value).v
    except (msgspec.MsgspecError, ValueError):
        return f"it is no message of ours: {wrong}"
    if said > VERSION:
        return f"it is of version {said}, and this program reads up to {VERSION}"
    return f"it is not as its version says: {wrong}"
