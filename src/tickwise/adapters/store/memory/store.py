"""`MemoryStore`: the parts put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tickwise.adapters.store.memory.analytics import AnalyticsSearches
from tickwise.adapters.store.memory.analytics.objectives import Objectives
from tickwise.adapters.store.memory.analytics.starts import StartSearches
from tickwise.adapters.store.memory.audit_store import Audit
from tickwise.adapters.store.memory.continuity import Epochs, Held, set_back, snapshot_of
from tickwise.adapters.store.memory.definitions import Jobs, Receipts, Tasks
from tickwise.adapters.store.memory.dispatch import Attempts, RunCommands
from tickwise.adapters.store.memory.environments import DeclaredEnvironments
from tickwise.adapters.store.memory.executors import Executors
from tickwise.adapters.store.memory.failures.error_groups import ErrorGroups
from tickwise.adapters.store.memory.feed import Feed
from tickwise.adapters.store.memory.flow import Completions, Queues
from tickwise.adapters.store.memory.health import Checks, TimerRepair
from tickwise.adapters.store.memory.history import Incidents, Marks, RunRecords, Upkeep
from tickwise.adapters.store.memory.letters import Letters, LetterSearches
from tickwise.adapters.store.memory.looks import Looks
from tickwise.adapters.store.memory.notices.alerts import Alerts
from tickwise.adapters.store.memory.notices.channels import NoticeChannels
from tickwise.adapters.store.memory.notices.delays import Delays
from tickwise.adapters.store.memory.notices.notices import Notices
from tickwise.adapters.store.memory.notices.rules import NotificationRules
from tickwise.adapters.store.memory.observing.status_pages import StatusPages
from tickwise.adapters.store.memory.operations import Operations
from tickwise.adapters.store.memory.people.browser_sessions import BrowserSessions
from tickwise.adapters.store.memory.people.device_sign_ins import DeviceSignIns
from tickwise.adapters.store.memory.people.factors import Factors, FactorSteps
from tickwise.adapters.store.memory.people.federations import Federations
from tickwise.adapters.store.memory.people.identities import Identities
from tickwise.adapters.store.memory.people.identity_keys import IdentityKeys
from tickwise.adapters.store.memory.people.keys import ApiKeys
from tickwise.adapters.store.memory.people.namespaces import Namespaces
from tickwise.adapters.store.memory.people.removals import Removals
from tickwise.adapters.store.memory.people.saved_views import SavedViews
from tickwise.adapters.store.memory.people.users import Roles, Sessions, Users
from tickwise.adapters.store.memory.quotas import QuotaUses
from tickwise.adapters.store.memory.rules import Rules, Stops
from tickwise.adapters.store.memory.secrets.secrets import Secrets
from tickwise.adapters.store.memory.shards.shard_map import MemoryShardMap
from tickwise.adapters.store.memory.state import State
from tickwise.adapters.store.memory.timers import TimerCommands
from tickwise.ports.clock import Clock
from tickwise.ports.paging import Page
from tickwise.ports.store import Handover, JobQuery, LetterQuery, RunQuery, SearchCount

NEAR_SECONDS = 2.0


class Runs(RunCommands, RunRecords):
    """`RunStore` of the port."""


class Timers(TimerCommands, TimerRepair):
    """`TimerStore` of the port."""


class RunAnalyses(AnalyticsSearches, StartSearches):
    """The questions about many runs."""


class Searches(Looks, LetterSearches, RunAnalyses):
    """`Searches` of the port."""

    async def count(self, query: JobQuery | RunQuery | LetterQuery) -> SearchCount:
        whole = replace(query, bytes_most=None)
        found: Page[Any]
        if isinstance(whole, JobQuery):
            found = await self.jobs(whole)
        else:
            found = await (self.runs(whole) if isinstance(whole, RunQuery) else self.letters(whole))
        return SearchCount(len(found), is_whole=len(found) < query.limit and found.paused_at is None)


class MemoryStore:
    """The port `Store`. Its clock is the store's clock; what it holds lives as long as the object."""

    def __init__(self, clock: Clock, near_seconds: float = NEAR_SECONDS, *, shard: int | None = None) -> None:
        """`shard`: the number that its tokens name, if it is one of several."""
        self.state = state = State(clock, near_seconds, shard)
        self.jobs = Jobs(state)
        self.tasks = Tasks(state)
        self.receipts = Receipts(state)
        self.rules = Rules(state)
        self.stops = Stops(state)
        self.saved_views = SavedViews(state)
        self.status_pages = StatusPages(state)
        self.secrets = Secrets(state)
        self.environments = DeclaredEnvironments(state)
        self.timers = Timers(state)
        self.runs = Runs(state)
        self.attempts = Attempts(state)
        self.executors = Executors(state)
        self.held = Held(state)
        self.epochs = Epochs(state)
        self.completions = Completions(state)
        self.queues = Queues(state)
        self.letters = Letters(state)
        self.operations = Operations(state)
        self.error_groups = ErrorGroups(state)
        self.objectives = Objectives(state)
        self.channels = NoticeChannels(state)
        self.notices = Notices(state)
        self.notification_rules = NotificationRules(state)
        self.alerts = Alerts(state)
        self.delays = Delays(state)
        self.checks = Checks(state)
        self.incidents = Incidents(state)
        self.marks = Marks(state)
        self.upkeep = Upkeep(state)
        self.searches = Searches(state)
        self.keys = ApiKeys(state)
        self.namespaces = Namespaces(state)
        self.quotas = QuotaUses(state)
        self.removals = Removals(state)
        self.users = Users(state)
        self.roles = Roles(state)
        self.sessions = Sessions(state)
        self.browser_sessions = BrowserSessions(state)
        self.identity_keys = IdentityKeys(state)
        self.device_sign_ins = DeviceSignIns(state)
        self.federations = Federations(state)
        self.identities = Identities(state)
        self.factors, self.factor_steps = Factors(state), FactorSteps(state)
        self.audit = Audit(state)
        self.feed = Feed(state)
        self.shard_map = MemoryShardMap(state)

    async def open(self) -> None:
        """Be there. Leases that ran out while it was closed get one more period."""
        self.state.opened_at = self.state.now()

    async def close(self) -> None:
        """Do nothing: the memory store holds nothing outside of the process."""

    async def now(self) -> float:
        return self.state.now()

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        self.state.on_handover = tell

    # ------------------------------------------------------------------------------------------- for the world

    def snapshot(self) -> State:
        """Copy the present state as a standby that follows no longer."""
        return snapshot_of(self.state)

    def set_back(self, snapshot: State) -> None:
        """Promote that standby: later writes are lost, acknowledged ones too. Then the first role connects and begins
        an epoch. No scheduler may hold timers for a decision."""
        set_back(self.state, snapshot)
