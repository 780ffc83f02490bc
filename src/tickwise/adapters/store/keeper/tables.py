"""The parts of a memory store that are kept: its tables and single values; all else follows from them or may be lost.

    kept        tables (a dictionary each) and single values
    derived     indexes over what is kept: `rebuild` makes them anew
    passing     ends with the process: what a scheduler has taken for a decision, the feed of who watches now, turns

Invariant: each attribute of the state is in exactly one of the three. `check_complete` says so of every state that is
opened, so that a part that is new cannot be forgotten here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from tickwise.adapters.store.memory.records import (
    AlertRecord,
    BrowserLinkRecord,
    BrowserSessionRecord,
    CompletionRecord,
    DeviceSignInRecord,
    EndedRun,
    EnvironmentRecord,
    ErrorGroupRecord,
    ExecutorRecord,
    JobRecord,
    KeyRecord,
    LetterRecord,
    LinkRecord,
    NoticeRecord,
    OperationRecord,
    ReceiptRecord,
    RecoveryRecord,
    RemovalRecord,
    RunRecord,
    SecretRecord,
    SessionRecord,
    SignInRecord,
    StepRecord,
    TimerRecord,
    UserRecord,
)
from tickwise.adapters.store.memory.slots import Name, PacedKey
from tickwise.adapters.store.memory.state import State
from tickwise.domain.accounts.federations import Federation
from tickwise.domain.audit import AuditSeal
from tickwise.domain.decision import TimerState
from tickwise.domain.errors import Bug
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane
from tickwise.domain.notices.changes import PendingEvent
from tickwise.domain.notices.rules import NoticeChannel, NotificationRule
from tickwise.domain.observing.objectives import GroupObjective
from tickwise.domain.observing.status_pages import Announcement, StateSeconds, StatusPage
from tickwise.domain.stops import Stop
from tickwise.ports.audit import AuditCheckpoint, AuditRow
from tickwise.ports.identity.factors import Factor, FactorReset
from tickwise.ports.identity.identities import Identity
from tickwise.ports.identity.namespaces import NamespaceRow
from tickwise.ports.identity.sessions import PublicKey
from tickwise.ports.identity.tokens import IdentityKey
from tickwise.ports.identity.users import RoleRow
from tickwise.ports.shards import NamespacePlace, Shard
from tickwise.ports.store import (
    Epoch,
    FailureId,
    Incident,
    MarkedChannel,
    QueueHold,
    RuleKind,
    RuleRow,
    SavedView,
    StoredTask,
)
from tickwise.ports.store.secrets import SecretPlace


class TimerImage(NamedTuple):
    """A timer, as it is kept in the image of its job."""

    pending: TimerState
    run_id: UUID | None
    zone_data: str | None
    place: int

    @classmethod
    def of(cls, timer: TimerRecord | None) -> TimerImage | None:
        """The image of a timer."""
        return None if timer is None else cls(timer.pending, timer.run_id, timer.zone_data, timer.place)


@dataclass(frozen=True, slots=True)
class FieldImage:
    """A field of a record that is kept as something else than it is."""

    kind: Any
    """The type of the image."""
    image: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A record that is changed in place, and the form of its fields."""

    derived: frozenset[str] = frozenset()
    """Fields that are indexes over other tables."""
    images: Mapping[str, FieldImage] | None = None
    key: str | None = None
    """The field that is its key, for the records that are changed most: the others are looked up."""
    whole_with: frozenset[str] = frozenset()
    """Fields with which the image is a whole one: a readable row has another key then."""


RECORDS: Final[Mapping[type, RecordKind]] = {
    JobRecord: RecordKind(
        frozenset({"runs"}),
        {"timer": FieldImage(TimerImage | None, TimerImage.of)},
        key="job_id",
        whole_with=frozenset({"namespace"}),
    ),
    RunRecord: RecordKind(images={"job": FieldImage(UUID, attrgetter("job_id"))}, key="run_id"),
    ExecutorRecord: RecordKind(frozenset({"held"}), key="number"),
    OperationRecord: RecordKind(),
    RemovalRecord: RecordKind(),
    ErrorGroupRecord: RecordKind(images={"hours": FieldImage(dict[float, int], dict)}),
    AlertRecord: RecordKind(),
    NoticeRecord: RecordKind(),
    KeyRecord: RecordKind(),
    UserRecord: RecordKind(),
    LinkRecord: RecordKind(),
    BrowserSessionRecord: RecordKind(),
    SignInRecord: RecordKind(),
    BrowserLinkRecord: RecordKind(),
    DeviceSignInRecord: RecordKind(),
    SessionRecord: RecordKind(),
    StepRecord: RecordKind(),
    RecoveryRecord: RecordKind(),
    PacedKey: RecordKind(frozenset({"given"})),
}
"""The records that are changed in place. All other values are replaced, never changed."""


@dataclass(frozen=True, slots=True)
class TableKind:
    """A dictionary of the state that is kept."""

    path: str
    """Its place in the state, with dots."""
    key: Any
    value: Any


TABLES: Final = tuple(
    TableKind(*each)
    for each in (
        ("namespaces", str, NamespaceRow),
        ("jobs", UUID, JobRecord),
        ("executors", int, ExecutorRecord),
        ("runs", UUID, RunRecord),
        ("ended", UUID, EndedRun),
        ("slots.paces", Name, PacedKey),
        ("tallies", tuple[str, int, RunState], int),
        ("known", tuple[str, Lane], float | None),
        ("queue_holds", tuple[str, str], QueueHold),
        ("stops", UUID, Stop),
        ("completions", UUID, CompletionRecord),
        ("letters", UUID, LetterRecord),
        ("failures", FailureId, bool),
        ("error_groups", UUID, ErrorGroupRecord),
        ("error_letters", UUID, UUID),
        ("environments", tuple[str, str, str, tuple[str, ...]], EnvironmentRecord),
        ("status_pages", UUID, StatusPage),
        ("status_days", tuple[UUID, str, date], StateSeconds),
        ("status_announcements", UUID, Announcement),
        ("secrets", SecretPlace, SecretRecord),
        ("objectives", UUID, GroupObjective),
        ("ended_before", UUID, frozenset[UUID]),
        ("channels", UUID, NoticeChannel),
        ("channel_secrets", UUID, Mapping[str, str]),
        ("notification_rules", UUID, NotificationRule),
        ("notices_watched", str, int),
        ("notices_successes", str, frozenset[UUID]),
        ("notice_events", tuple[UUID, int], PendingEvent),
        ("noted_once", tuple[str, str], float),
        ("alerts", UUID, AlertRecord),
        ("notices", UUID, NoticeRecord),
        ("operations", UUID, OperationRecord),
        ("marks", tuple[MarkedChannel, int], float),
        ("receipts", tuple[str, str, str], ReceiptRecord),
        ("tasks", tuple[str, str], list[StoredTask]),
        ("rules", tuple[str, RuleKind, str], RuleRow),
        ("runs_of_day", str, tuple[int, int]),
        ("fires_in_minute", str, int),
        ("saved_views", tuple[str, str, str, str], SavedView),
        ("incidents", tuple[str, float, str], Incident),
        ("api_keys", bytes, KeyRecord),
        ("removals", str, RemovalRecord),
        ("namespaces_removed", str, float),
        ("people", UUID, UserRecord),
        ("user_links", bytes, LinkRecord),
        ("custom_roles", tuple[str, str], RoleRow),
        ("sessions", UUID, SessionRecord),
        ("token_keys", str, PublicKey),
        ("identity_keys", str, IdentityKey),
        ("browser_sessions", UUID, BrowserSessionRecord),
        ("session_links", bytes, BrowserLinkRecord),
        ("device_sign_ins", UUID, DeviceSignInRecord),
        ("federations", UUID, Federation),
        ("used_assertions", bytes, tuple[float, UUID]),
        ("identities", Identity, UUID),
        ("sign_ins", bytes, SignInRecord),
        ("logout_tokens", bytes, float),
        ("second_factors.factors", UUID, Factor),
        ("second_factors.recovery", UUID, dict[bytes, RecoveryRecord]),
        ("second_factors.steps", bytes, StepRecord),
        ("second_factors.resets", UUID, FactorReset),
        ("audit.rows", int, AuditRow),
        ("audit.seals", tuple[str, int], AuditSeal),
        ("audit.checkpoints", str, AuditCheckpoint),
        ("shards", int, Shard),
        ("shard_places", str, NamespacePlace),
    )
)
"""In this order they are read back: jobs before their runs."""


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A single value of the state that is kept. It is compared after each call, so no change of it is missed."""

    name: str
    kind: Any
    get: Callable[[State], Any]
    put: Callable[[State, Any], None]


def _attribute(path: str, kind: Any) -> ValueKind:
    owner, _, last = path.rpartition(".")
    parent: Callable[[State], Any] = attrgetter(owner) if owner else lambda state: state
    return ValueKind(path, kind, attrgetter(path), lambda state, value: setattr(parent(state), last, value))


def _lent(state: State) -> dict[int, dict[str, int]]:
    return {number: batch.runs for number, batch in state.batches.items() if batch.runs} if state.batches else {}


LENT: Final = "lent"
VALUES: Final = (
    _attribute("cluster_id", str | None),
    _attribute("epoch", Epoch),
    _attribute("epochs_before", list[Epoch]),
    _attribute("tokens.last", int),
    _attribute("rules_version", int),
    _attribute("minute", int),
    _attribute("notices_version", int),
    _attribute("notices_watched_by_jobs", set[str]),
    _attribute("notices_retries", set[str]),
    _attribute("audit.numbers.last", int),
    _attribute("shard_map_version", int),
    _attribute("shards_added", int),
    # Of batches that end with the process: they are given back at the next start.
    ValueKind(LENT, dict[int, dict[str, int]], _lent, lambda _state, _value: None),
)

DERIVED: Final = frozenset(
    {"tickets", "secret_uses", "one_time", "decided", "known_of", "lanes", "slots", "rules_of_kind"}
)
PASSING: Final = frozenset(
    {
        "clock",
        "near_seconds",
        "shard",  # as the store is opened
        "on_handover",
        "opened_at",  # each opening sets it
        "turns",  # whose turn it is among namespaces, and when the longest wait goes first: fair again after ten claims
        "claims",
        "batch_numbers",  # above all earlier ones in each tenure
        "batches",
        "taken",
        "feed",  # above all earlier places in each tenure
    }
)
COMPOUND: Final = {
    "slots": frozenset({"_lines", "paces"}),
    "second_factors": frozenset({"factors", "recovery", "steps", "resets"}),
    "audit": frozenset({"_clock", "numbers", "rows", "unsealed", "seals", "last_seals", "checkpoints"}),
}
"""The parts of the state that have attributes of their own."""


def check_complete(state: State) -> None:
    """Raise `Bug` if the state has an attribute that is neither kept, nor derived, nor passing."""
    kept = {each.path.partition(".")[0] for each in TABLES} | {each.name.partition(".")[0] for each in VALUES}
    unknown = vars(state).keys() - kept - DERIVED - PASSING
    for name, parts in COMPOUND.items():
        whole = getattr(state, name)
        attributes = vars(whole).keys() if hasattr(whole, "__dict__") else set(type(whole).__slots__)
        unknown |= {f"{name}.{each}" for each in attributes - parts}
    if unknown:
        raise Bug(f"the store's log does not know these parts of the state: {', '.join(sorted(unknown))}")
