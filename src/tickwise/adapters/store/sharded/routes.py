"""The ways of the calls of the store's port, for the parts that need no more than a rule.

    names a namespace (itself, or in a field) ──► its shard
    names several ──► split by namespace
    names none ──► each shard, combined (`combining`)
    people, keys, sign-ins ──► the first shard

Invariant: a call that decides something waits for every shard that it concerns (`lenient` is False). One that lists,
counts or takes what is there goes without a shard that is away, and the answer tells so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Protocol

from tickwise.adapters.store.sharded import combining as combine
from tickwise.adapters.store.sharded.fleet import Fleet, together
from tickwise.adapters.store.sharded.placing import FIRST
from tickwise.domain.callers import INSTALLATION
from tickwise.ports import store as port
from tickwise.ports.audit import AuditStore
from tickwise.ports.identity import (
    BrowserSessionStore,
    DeviceSignInStore,
    FactorStepStore,
    FactorStore,
    FederationStore,
    IdentityKeyStore,
    IdentityStore,
    Keys,
    RoleStore,
    SessionStore,
    UserStore,
)
from tickwise.ports.store import Store
from tickwise.ports.store.environments import EnvironmentStore


class Route(Protocol):
    """The way of a call."""

    async def __call__(self, fleet: Fleet, call: Callable[[Store], Any], asked: Mapping[str, Any]) -> Any:
        """Make the call. `call` gives the method of a store; `asked` has the arguments by name."""
        ...


@dataclass(frozen=True, slots=True)
class ToFirst:
    """The first shard alone."""

    async def __call__(self, fleet: Fleet, call: Callable[[Store], Any], asked: Mapping[str, Any]) -> Any:
        return await fleet.on(FIRST, lambda store: call(store)(**asked))


@dataclass(frozen=True, slots=True)
class ToEach:
    """Each shard, at the same time; those that are away are left out if it is lenient."""

    combined: Callable[[Any, Mapping[str, Any]], Any]
    lenient: bool = True
    patient: bool = False
    """As in `Fleet.each`."""

    async def __call__(self, fleet: Fleet, call: Callable[[Store], Any], asked: Mapping[str, Any]) -> Any:
        answers = await fleet.each(lambda store: call(store)(**asked), lenient=self.lenient, patient=self.patient)
        return self.combined(list(answers.values()), asked)


@dataclass(frozen=True, slots=True)
class ByNamespace:
    """The shard of the namespace that the first argument is or has; without one, as `otherwise` says."""

    otherwise: Route | None = None

    async def __call__(self, fleet: Fleet, call: Callable[[Store], Any], asked: Mapping[str, Any]) -> Any:
        namespace = _namespace(next(iter(asked.values())))
        if namespace is None:
            assert self.otherwise is not None, "a call without a namespace has a route of its own"
            return await self.otherwise(fleet, call, asked)
        return await of_namespace(fleet, namespace, lambda store: call(store)(**asked))


@dataclass(frozen=True, slots=True)
class Split:
    """The items of one argument, each to the shard of its namespace; one without a namespace to each."""

    items: str
    namespace: Callable[[Any], str | None]
    combined: Callable[[Any, Mapping[str, Any]], Any]

    async def __call__(self, fleet: Fleet, call: Callable[[Store], Any], asked: Mapping[str, Any]) -> Any:
        name, items = self.items, asked[self.items]
        shares: dict[int, list[Any]] = {}
        for item in items:
            namespace = self.namespace(item)
            for number in fleet.numbers() if namespace is None else [_shard(fleet, namespace)]:
                shares.setdefault(number, []).append(item)
        if not shares:
            return await call(fleet.first)(**asked)

        async def part(number: int, share: list[Any], rest: Mapping[str, Any]) -> Any:
            return await fleet.on(number, lambda store: call(store)(**{**asked, **rest, name: share}))

        # The entry of the audit log is written once, with the first part.
        begun = min(shares)
        calls = {
            number: part(number, share, {} if number == begun or "audit" not in asked else {"audit": None})
            for number, share in shares.items()
        }
        return self.combined(list((await together(calls)).values()), asked)


async def of_namespace(fleet: Fleet, namespace: str, call: Callable[[Store], Any]) -> Any:
    """Make a call to the shard of a namespace, or of the installation itself."""
    if namespace == INSTALLATION:
        return await fleet.on(FIRST, call)
    return await fleet.of(namespace, call)


def _shard(fleet: Fleet, namespace: str) -> int:
    return FIRST if namespace == INSTALLATION else fleet.places.of(namespace)


def _namespace(argument: Any) -> str | None:
    if isinstance(argument, str):
        return argument
    found: str | None = getattr(argument, "namespace", None)
    return found


class RoutedPart:
    """A part of the store whose methods go as a table says."""

    def __init__(self, fleet: Fleet, name: str, kind: type, routes: Mapping[str, Route], usual: Route) -> None:
        self._fleet = fleet
        self._name = name
        self._kind = kind
        self._routes = routes
        self._usual = usual

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._kind, name, None)
        if name.startswith("_") or not inspect.iscoroutinefunction(method):
            raise AttributeError(name)
        route, fleet = self._routes.get(name, self._usual), self._fleet
        bind = inspect.signature(method).bind
        whole = attrgetter(f"{self._name}.{name}")

        async def routed(*arguments: Any, **named: Any) -> Any:
            bound = bind(None, *arguments, **named)
            bound.apply_defaults()
            asked = dict(bound.arguments)
            asked.pop("self")
            return await route(fleet, whole, asked)

        # Kept, so that the next call does not come here again.
        self.__dict__[name] = routed
        return routed


HERE: Final = ByNamespace()
EACH_UNION: Final = ToEach(combine.united)
EACH_SUM: Final = ToEach(combine.total, patient=True)
EACH_ANY: Final = ToEach(combine.any_of, lenient=False)

PEOPLE: Final[Mapping[str, type]] = {
    "keys": Keys,
    "roles": RoleStore,
    "users": UserStore,
    "sessions": SessionStore,
    "browser_sessions": BrowserSessionStore,
    "identity_keys": IdentityKeyStore,
    "device_sign_ins": DeviceSignInStore,
    "federations": FederationStore,
    "identities": IdentityStore,
    "factors": FactorStore,
    "factor_steps": FactorStepStore,
}
"""The parts that the first shard has alone."""


def _by_secret(item: Any) -> Any:
    return item.namespace, item.name


ROUTES: Final[Mapping[str, tuple[type, Mapping[str, Route]]]] = {
    "tasks": (port.TaskStore, {"scripts": ToEach(combine.joined, lenient=False)}),
    "stops": (port.StopStore, {"find": ByNamespace(ToEach(combine.merged("stop_id", newest_first=True)))}),
    "saved_views": (port.SavedViewStore, {}),
    "status_pages": (
        port.StatusPageStore,
        {
            "find": ByNamespace(ToEach(combine.cut)),
            "look": EACH_ANY,
            "days": ToEach(combine.merged("page_id")),
            "announcements": ToEach(combine.joined),
        },
    ),
    "secrets": (
        port.SecretStore,
        {
            "find": ByNamespace(ToEach(combine.merged(_by_secret), lenient=False)),
            "sealed_keys": ByNamespace(ToEach(combine.merged("place"), lenient=False)),
            "keys_used": ToEach(combine.summed, lenient=False),
            "sealed": Split("places", attrgetter("namespace"), combine.joined),
            "rewrap": Split("keys", attrgetter("place.namespace"), combine.total),
        },
    ),
    "environments": (
        EnvironmentStore,
        {
            "declare": Split("environments", attrgetter("demand.namespace"), combine.nothing),
            "wanted": ToEach(combine.cut),
            "forget": EACH_SUM,
        },
    ),
    "completions": (port.CompletionStore, {"pending": ToEach(combine.merged("run.ended_at"))}),
    "queues": (port.QueueStore, {}),
    "letters": (port.LetterStore, {}),
    "operations": (
        port.OperationStore,
        {"record": Split("operations", attrgetter("namespace"), combine.nothing), "step": EACH_ANY},
    ),
    "error_groups": (
        port.ErrorGroupStore,
        {
            "pending": ToEach(combine.pending_failures),
            "fold": Split("failures", attrgetter("failure.namespace"), combine.total),
        },
    ),
    "channels": (
        port.ChannelStore,
        {
            "backlog": ToEach(combine.channel_backlog),
            "secrets": ToEach(combine.joined),
            "all_secrets": ToEach(combine.merged("channel.channel_id"), lenient=False),
            "reseal": EACH_ANY,
        },
    ),
    "notices": (
        port.NoticeStore,
        {"settle": ToEach(combine.nothing, lenient=False), "backlog": ToEach(combine.backlog)},
    ),
    "notification_rules": (
        port.NotificationRuleStore,
        {
            "find": ByNamespace(ToEach(combine.merged("name"))),
            "version": ToEach(combine.notices_version),
        },
    ),
    "alerts": (
        port.AlertStore,
        {
            "note": Split("noted", attrgetter("namespace"), combine.total),
            "events": ToEach(combine.pending_events),
            "ends": ToEach(combine.joined),
            "bursts": EACH_UNION,
            "due": ToEach(combine.merged("next_at")),
        },
    ),
    "delays": (
        port.DelayStore,
        {
            "slow_runs": ToEach(combine.slow_runs),
            "durations": EACH_UNION,
            "samples": EACH_UNION,
            "watched_jobs": ToEach(combine.watched_jobs),
            "overdue_timers": ToEach(combine.overdue_timers),
            "keys_ending": ToFirst(),
            "lost_executors": ToEach(combine.lost_executors),
        },
    ),
    "objectives": (
        port.ObjectiveStore,
        {
            "jobs": ByNamespace(ToEach(combine.objective_jobs)),
            "find": ByNamespace(ToEach(combine.merged("objective_id"))),
            "counts": EACH_UNION,
            "fold": EACH_SUM,
        },
    ),
    "checks": (
        port.CheckStore,
        {"violations": ToEach(combine.examined)},
    ),
    "incidents": (
        port.IncidentStore,
        {"add": ToFirst(), "between": ToEach(combine.most_of(100))},
    ),
    "marks": (port.MarkStore, {"put": ToFirst(), "get": ToFirst()}),
    "searches": (
        port.Searches,
        {"tally": ByNamespace(ToEach(combine.tallies)), "starts": ToEach(combine.starts)},
    ),
    "audit": (
        AuditStore,
        {
            "add": Split("entries", attrgetter("namespace"), combine.nothing),
            "settled": ToEach(combine.least),
            "seal": EACH_SUM,
            "heads": ToEach(combine.merged("namespace")),
            "unsealed": ToEach(combine.merged("at")),
            "checkpoints": ToEach(combine.joined),
        },
    ),
}
"""The parts whose calls go by these rules alone, or but for those that a subclass has."""
