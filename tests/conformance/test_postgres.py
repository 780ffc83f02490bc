"""The PostgreSQL store keeps every promise of the store's port, on a real server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support.sessions import kept_sessions
from tests.support.walks import WALKS_SECONDS, walked_seeds
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.records import job_walks, letters, run_walks
from tickwise.adapters.store.postgres.records.records import MAX_PAGES_COUNTED
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.notices.rules import Notice
from tickwise.ports.store import Check, NoticeQuery, RuleRow, Store
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.contracts.store.dispatch.bound_executors import BoundExecutorsContract
from tickwise.testing.contracts.store.dispatch.claims import ClaimsContract
from tickwise.testing.contracts.store.dispatch.continuity import DiffersContract, EpochsContract, HeldContract
from tickwise.testing.contracts.store.dispatch.fairness import FairnessContract
from tickwise.testing.contracts.store.dispatch.finishes import FinishesContract, KeepsContract
from tickwise.testing.contracts.store.dispatch.handovers import HandoverContract
from tickwise.testing.contracts.store.dispatch.hints import FiredNamesContract, WaitingNamesContract
from tickwise.testing.contracts.store.dispatch.lanes import LanesContract
from tickwise.testing.contracts.store.dispatch.leases import LeasesContract
from tickwise.testing.contracts.store.dispatch.limits import LimitsContract
from tickwise.testing.contracts.store.dispatch.line_tables import LineTableContract, WaitingTableContract
from tickwise.testing.contracts.store.dispatch.named_claims import NamedClaimsContract
from tickwise.testing.contracts.store.dispatch.overlap import OverlapContract
from tickwise.testing.contracts.store.dispatch.queues import QueuesContract
from tickwise.testing.contracts.store.dispatch.races import RacesContract
from tickwise.testing.contracts.store.dispatch.random_walks import WalksContract
from tickwise.testing.contracts.store.dispatch.rates import RatesContract
from tickwise.testing.contracts.store.dispatch.request_tables import RequestTableContract
from tickwise.testing.contracts.store.dispatch.rule_tables import LossTableContract, ReturnTableContract
from tickwise.testing.contracts.store.dispatch.slot_tables import RateTableContract, SlotTableContract
from tickwise.testing.contracts.store.dispatch.stops import StopsContract
from tickwise.testing.contracts.store.dispatch.unknown import UnknownContract
from tickwise.testing.contracts.store.dispatch.waiting import WaitingContract
from tickwise.testing.contracts.store.environments.declared import DeclaredEnvironmentsContract
from tickwise.testing.contracts.store.failures.error_groups import (
    CountedFailuresContract,
    DecidedErrorsContract,
    ForgottenErrorsContract,
    FoundErrorsContract,
    PendingFailuresContract,
)
from tickwise.testing.contracts.store.jobs.audit import (
    AuditedJobsContract,
    AuditedThingsContract,
    AuditRetentionContract,
    AuditSealsContract,
    AuditSearchContract,
)
from tickwise.testing.contracts.store.jobs.changes import EditsContract, PlansContract
from tickwise.testing.contracts.store.jobs.counts import CountsContract
from tickwise.testing.contracts.store.jobs.decisions import DecisionsContract, FirstInLineContract, SkipsContract
from tickwise.testing.contracts.store.jobs.health import ChecksContract, HealsContract
from tickwise.testing.contracts.store.jobs.holds import HoldsContract, PausedRunsContract
from tickwise.testing.contracts.store.jobs.incidents import IncidentsContract, TracesContract, WitnessesContract
from tickwise.testing.contracts.store.jobs.letters import FoundLettersContract, SettledLettersContract
from tickwise.testing.contracts.store.jobs.looks import ComingJobsContract, LatestRunsContract, PlannedContract
from tickwise.testing.contracts.store.jobs.marks import MarksContract, RecordedOperationsContract
from tickwise.testing.contracts.store.jobs.moves import CancelledKeysContract, CancelsContract, MovesContract
from tickwise.testing.contracts.store.jobs.namespaces import WallsContract
from tickwise.testing.contracts.store.jobs.operations import OperationsContract
from tickwise.testing.contracts.store.jobs.pages import PagesContract
from tickwise.testing.contracts.store.jobs.receipts import (
    ReceiptsContract,
    RequestedRunsContract,
    TasksContract,
)
from tickwise.testing.contracts.store.jobs.records import ListingsContract, StatusContract, UpkeepContract
from tickwise.testing.contracts.store.jobs.requests import OccurrenceMovesContract, RunRequestsContract
from tickwise.testing.contracts.store.jobs.rules import RulesContract, UsedRulesContract
from tickwise.testing.contracts.store.jobs.selectors import SelectorsContract
from tickwise.testing.contracts.store.jobs.sequences import OnDemandContract, SequencesContract
from tickwise.testing.contracts.store.jobs.submits import SubmitsContract
from tickwise.testing.contracts.store.jobs.timers import TimersContract
from tickwise.testing.contracts.store.jobs.transfers import TransfersContract
from tickwise.testing.contracts.store.notices.alerts import (
    DecidedAlertsContract,
    DelaysContract,
    FoldsContract,
    NotedEventsContract,
)
from tickwise.testing.contracts.store.notices.channels import ChannelsContract
from tickwise.testing.contracts.store.notices.deliveries import (
    DueNoticesContract,
    FairNoticesContract,
    SettledNoticesContract,
)
from tickwise.testing.contracts.store.notices.rules import NotificationRulesContract
from tickwise.testing.contracts.store.observing.analytics import AnalyticsContract
from tickwise.testing.contracts.store.observing.endings import EndingsContract
from tickwise.testing.contracts.store.observing.group_objectives import GroupObjectivesContract
from tickwise.testing.contracts.store.observing.names import NamedSearchesContract
from tickwise.testing.contracts.store.observing.objectives import ObjectiveJobsContract, StartsContract
from tickwise.testing.contracts.store.observing.pauses import PausingSearchesContract
from tickwise.testing.contracts.store.observing.status_pages import StatusPagesContract
from tickwise.testing.contracts.store.observing.usage import SamplesContract, UsageContract
from tickwise.testing.contracts.store.people.browser_sessions import BrowserSessionsContract
from tickwise.testing.contracts.store.people.device_sign_ins import DeviceSignInsContract
from tickwise.testing.contracts.store.people.factors import SecondFactorsContract
from tickwise.testing.contracts.store.people.federations import FederationsContract
from tickwise.testing.contracts.store.people.identities import IdentitiesContract
from tickwise.testing.contracts.store.people.identity_keys import IdentityKeysContract
from tickwise.testing.contracts.store.people.key_rotation import KeyRotationContract
from tickwise.testing.contracts.store.people.keys import KeysContract
from tickwise.testing.contracts.store.people.namespaces import NamespacesContract
from tickwise.testing.contracts.store.people.quotas import QuotasContract
from tickwise.testing.contracts.store.people.removals import ClosedNamespacesContract, RemovalsContract
from tickwise.testing.contracts.store.people.run_quotas import RunQuotasContract
from tickwise.testing.contracts.store.people.saved_views import SavedViewsContract
from tickwise.testing.contracts.store.people.sessions import SessionsContract
from tickwise.testing.contracts.store.people.users import UsersContract
from tickwise.testing.contracts.store.secrets.secrets import SecretsContract
from tickwise.testing.contracts.store.secrets.uses import SecretUsesContract
from tickwise.testing.contracts.store.timed_stops import TimedStopsContract
from tickwise.testing.contracts.store.walks.feed import FeedContract
from tickwise.testing.contracts.store.walks.standstill import StandstillWalksContract

FULL_PAGES: Final = MAX_PAGES_COUNTED // 2
"""Half of the pages of runs from which on `stats` and the lists of queues and executors take a sample."""

STARTED = "SELECT date_part('epoch', clock_timestamp() - pg_postmaster_start_time())"

EMPTIES = """
    SELECT 'SELECT set_config(''tickwise.audit_retires'', pg_current_xact_id()::text, true);' ||
      string_agg(format('DELETE FROM %s%s', oid::regclass, CASE WHEN relname = 'namespaces' THEN
      ' WHERE name <> ''default''' END), ';') FROM pg_class
    WHERE relnamespace = 'tickwise'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
      AND relname NOT LIKE '%version%' AND relname NOT LIKE 'shard%' AND relname <> 'cluster'"""

CHANNEL = """
    INSERT INTO tickwise.channels (created_at, channel_id, namespace, name, kind, settings, allow_private, created_by)
    VALUES (tickwise.now(), gen_random_uuid(), $1, $2, 'webhook', '{}', false, 'ada') RETURNING channel_id::text"""

NOTICES = """
    SELECT coalesce(array_agg(notice_id ORDER BY made_at, notice_id), '{}')
    FROM tickwise.notices WHERE namespace = $1"""

RULES = """
    INSERT INTO tickwise.rules (created, updated, version, namespace, kind, name, body, created_by)
    VALUES (tickwise.now(), tickwise.now(), 1, $1, $2, $3, $4, $5)"""

DAMAGES = {
    Check.ENDED_ONCE: """
        INSERT INTO tickwise.history (due, queued, ended, executor, token, run_id, job_id, state, before, attempt,
                                      failures, crashes, trigger, namespace)
        SELECT due, queued, queued, holder, token, run_id, job_id, 7, 1, attempt, failures, crashes, trigger, namespace
        FROM tickwise.runs WHERE run_id = $1""",
    Check.HELD_BY_ACTIVE: """
        UPDATE tickwise.executors SET gone = born, settled = true
        WHERE executor = (SELECT holder FROM tickwise.runs WHERE run_id = $1)""",
    Check.PLANNED: "DELETE FROM tickwise.timers WHERE job_id = $1",
    Check.WAITS_FOR_SOMETHING: "UPDATE tickwise.runs SET blocked = true, ready = 'infinity' WHERE run_id = $1",
    Check.HEARD_IN_TIME: """
        INSERT INTO tickwise.cancel_requests (asked, token, holder, run_id, kind)
        VALUES (tickwise.now() - interval '1 hour', 1, 1, $1, 'cancel')""",
    Check.HAS_A_JOB: """
        DELETE FROM tickwise.jobs WHERE job_id = (SELECT job_id FROM tickwise.runs WHERE run_id = $1)""",
}
"""How a server is brought into a state that no call of the port brings it into."""


@pytest_asyncio.fixture(scope="module")
async def upgraded_url(database_url: str) -> AsyncIterator[str]:
    """A database with the whole schema."""
    await upgrade(database_url)
    async with kept_sessions():
        yield database_url


async def empty(connection: asyncpg.Connection[Any]) -> None:
    """Remove every row, and the room of those of runs that earlier tests left: a large table is only sampled."""
    await connection.execute(await connection.fetchval(EMPTIES))
    pages = "SELECT pg_relation_size('tickwise.runs') / current_setting('block_size')::bigint"
    if await connection.fetchval(pages) > FULL_PAGES:
        await connection.execute("VACUUM tickwise.runs")


class Backend:
    """Two clients of one database, emptied before each test, whose clocks the test moves together.

    Emptied and not made anew: a copy of a database takes half a second, and there are hundreds of promises.
    """

    @pytest_asyncio.fixture
    async def clients(self, upgraded_url: str) -> AsyncIterator[list[PostgresStore]]:
        self.url = upgraded_url
        connection = await asyncpg.connect(upgraded_url)
        await empty(connection)
        await connection.close()
        self.clock = ShiftedClock()
        self.shifted_seconds = self.late_start_seconds = 0.0
        self.stores = [PostgresStore(upgraded_url, clock=self.clock, near_seconds=2.0) for _ in range(2)]
        for store in self.stores:
            await store.open()
        yield self.stores
        for store in self.stores:
            await store.close()

    @pytest.fixture
    def store(self, clients: list[PostgresStore]) -> Store:
        return clients[0]

    @pytest.fixture
    def other(self, clients: list[PostgresStore]) -> Store:
        return clients[1]

    async def shift(self, store: Store, seconds: float) -> None:
        self.clock.shift(seconds)
        self.shifted_seconds += seconds
        await self._adjust()

    async def restart(self, store: Store) -> None:
        """The server of all tests stays; these clients take it to have started just now."""
        connection = await asyncpg.connect(self.url)
        self.late_start_seconds = self.shifted_seconds + await connection.fetchval(STARTED)
        await connection.close()
        await self._adjust()

    async def add_channel(self, store: Store, namespace: str, name: str) -> UUID:
        return UUID(str(await self._query(CHANNEL, namespace, name)))

    async def notices(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Notice]:
        found = await store.notices.find(NoticeQuery(namespace=namespace, limit=1_000))
        notices = {each.notice_id: each for each in found}
        return [notices[notice_id] for notice_id in await self._query(NOTICES, namespace)]

    async def take_notices(self, store: Store) -> None:
        await self._query("UPDATE tickwise.notices SET sender = 'sender' WHERE state = 'waiting' RETURNING true")

    async def _query(self, query: str, *arguments: object) -> Any:
        connection = await asyncpg.connect(self.url)
        found = await connection.fetchval(query, *arguments)
        await connection.close()
        return found

    async def damage(self, store: Store, check: Check, subject: UUID) -> None:
        connection = await asyncpg.connect(self.url)
        assert await connection.execute(DAMAGES[check], subject) in {"INSERT 0 1", "UPDATE 1", "DELETE 1"}
        await connection.close()

    async def _adjust(self) -> None:
        for client in self.stores:
            await client.shift(self.shifted_seconds, start_seconds=self.late_start_seconds)


class TestLanes(Backend, LanesContract):
    pass


class TestSubmits(Backend, SubmitsContract):
    pass


class TestClaims(Backend, ClaimsContract):
    pass


class TestFinishes(Backend, FinishesContract):
    pass


class TestKeeps(Backend, KeepsContract):
    pass


class TestLeases(Backend, LeasesContract):
    pass


class TestTimers(Backend, TimersContract):
    pass


class TestEdits(Backend, EditsContract):
    pass


class TestPlans(Backend, PlansContract):
    pass


class TestMoves(Backend, MovesContract):
    pass


class TestCancelledKeys(Backend, CancelledKeysContract):
    pass


class TestCancels(Backend, CancelsContract):
    pass


class TestReceipts(Backend, ReceiptsContract):
    pass


class TestRequestedRuns(Backend, RequestedRunsContract):
    pass


class TestTasks(Backend, TasksContract):
    pass


class TestAuditedJobs(Backend, AuditedJobsContract):
    pass


class TestAuditedThings(Backend, AuditedThingsContract):
    pass


class TestAuditSearch(Backend, AuditSearchContract):
    pass


class TestAuditSeals(Backend, AuditSealsContract):
    pass


class TestAuditRetention(Backend, AuditRetentionContract):
    pass


class TestKeys(Backend, KeysContract):
    pass


class TestKeyRotation(Backend, KeyRotationContract):
    pass


class TestUsers(Backend, UsersContract):
    pass


class TestSessions(Backend, SessionsContract):
    pass


class TestPendingFailures(Backend, PendingFailuresContract):
    pass


class TestCountedFailures(Backend, CountedFailuresContract):
    pass


class TestNotificationRules(Backend, NotificationRulesContract):
    pass


class TestNotedEvents(Backend, NotedEventsContract):
    pass


class TestFolds(Backend, FoldsContract):
    pass


class TestDecidedAlerts(Backend, DecidedAlertsContract):
    pass


class TestDelays(Backend, DelaysContract):
    pass


class TestDecidedErrors(Backend, DecidedErrorsContract):
    pass


class TestFoundErrors(Backend, FoundErrorsContract):
    pass


class TestForgottenErrors(Backend, ForgottenErrorsContract):
    pass


class TestLatestRuns(Backend, LatestRunsContract):
    pass


class TestEndings(Backend, EndingsContract):
    pass


class TestComingJobs(Backend, ComingJobsContract):
    pass


class TestSavedViews(Backend, SavedViewsContract):
    pass


class TestIdentityKeys(Backend, IdentityKeysContract):
    pass


class TestSecondFactors(Backend, SecondFactorsContract):
    pass


class TestBrowserSessions(Backend, BrowserSessionsContract):
    pass


class TestDeviceSignIns(Backend, DeviceSignInsContract):
    pass


class TestFederations(Backend, FederationsContract):
    pass


class TestIdentities(Backend, IdentitiesContract):
    pass


class TestStatus(Backend, StatusContract):
    pass


class TestListings(Backend, ListingsContract):
    pass


class TestDeclaredEnvironments(Backend, DeclaredEnvironmentsContract):
    pass


class TestPlanned(Backend, PlannedContract):
    pass


class TestSelectors(Backend, SelectorsContract):
    pass


class TestUpkeep(Backend, UpkeepContract):
    pass


class TestWalls(Backend, WallsContract):
    pass


class TestDecisions(Backend, DecisionsContract):
    pass


class TestSkips(Backend, SkipsContract):
    pass


class TestFirstInLine(Backend, FirstInLineContract):
    pass


class TestHolds(Backend, HoldsContract):
    pass


class TestPausedRuns(Backend, PausedRunsContract):
    pass


class TestOverlap(Backend, OverlapContract):
    pass


class TestWaiting(Backend, WaitingContract):
    pass


class TestOccurrenceMoves(Backend, OccurrenceMovesContract):
    pass


class TestRunRequests(Backend, RunRequestsContract):
    pass


class TestRules(Backend, RulesContract):
    async def crowd(self, store: Store, rules: Sequence[RuleRow]) -> None:
        """In one statement: ten thousand commits would be a minute."""
        connection = await asyncpg.connect(self.url)
        rows = [(rule.namespace, rule.kind.value, rule.name, rule.body, rule.created_by) for rule in rules]
        await connection.executemany(RULES, rows)
        await connection.close()


class TestUsedRules(Backend, UsedRulesContract):
    pass


class TestRaces(Backend, RacesContract):
    pass


class TestIncidents(Backend, IncidentsContract):
    pass


class TestWitnesses(Backend, WitnessesContract):
    pass


class TestTraces(Backend, TracesContract):
    pass


class TestWalks(Backend, WalksContract):
    pass


@pytest.mark.takes_up_to(WALKS_SECONDS)
class TestStandstillWalks(Backend, StandstillWalksContract):
    seeds = walked_seeds(2)

    @pytest.fixture
    def walked(self, store: Store) -> Sequence[Store]:
        """Beside the memory store, which must show the same."""
        return [MemoryStore(self.clock), store]


class TestUnknown(Backend, UnknownContract):
    pass


class TestLimits(Backend, LimitsContract):
    pass


class TestFeed(Backend, FeedContract):
    """Every change of a run's state."""


class TestRunQuotas(Backend, RunQuotasContract):
    pass


class TestHandovers(Backend, HandoverContract):
    pass


class TestRates(Backend, RatesContract):
    pass


class TestFoundLetters(Backend, FoundLettersContract):
    pass


class TestSettledLetters(Backend, SettledLettersContract):
    pass


class TestOperations(Backend, OperationsContract):
    pass


class TestPages(Backend, PagesContract):
    pass


class TestSequences(Backend, SequencesContract):
    pass


class TestOnDemand(Backend, OnDemandContract):
    pass


class TestQueues(Backend, QueuesContract):
    pass


class TestChannels(Backend, ChannelsContract):
    """`ChannelStore`."""


class TestDueNotices(Backend, DueNoticesContract):
    """Notices that are due."""


class TestFairNotices(Backend, FairNoticesContract):
    """Shares of namespaces and of channels that fail."""


class TestSettledNotices(Backend, SettledNoticesContract):
    """Notices that were tried."""


class TestSecretUses(Backend, SecretUsesContract):
    """Which jobs and stored tasks name a secret."""


class TestSecrets(Backend, SecretsContract):
    pass


class TestStatusPages(Backend, StatusPagesContract):
    """`StatusPageStore`."""


class TestTimedStops(Backend, TimedStopsContract):
    pass


class TestBoundExecutors(Backend, BoundExecutorsContract):
    pass


class TestFairness(Backend, FairnessContract):
    pass


class TestStops(Backend, StopsContract):
    pass


class TestChecks(Backend, ChecksContract):
    pass


class TestHeals(Backend, HealsContract):
    pass


class TestCounts(Backend, CountsContract):
    pass


class TestNamedSearches(Backend, NamedSearchesContract):
    pass


def short_looks(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Let each look have four rows."""
    for module, name in (
        (job_walks, "LOOKED_JOBS"),
        (job_walks, "LOOKED_REPEATING"),
        (job_walks, "LOOKED_MARKED"),
        (run_walks, "LOOKED_RUNS"),
        (run_walks, "LOOKED_JOBS"),
        (letters, "LOOKED_LETTERS"),
    ):
        monkeypatch.setattr(module, name, 4)
    if what == "many":
        for module in (job_walks, run_walks):
            monkeypatch.setattr(module, "FEW_JOBS", 2)
        monkeypatch.setattr(run_walks, "FEW_LATE", 2)
    if what == "without an index":
        monkeypatch.setattr(job_walks, "_TRIGRAM", re.compile(r"(?!)"))


class TestNamedSearchesThatPause(Backend, NamedSearchesContract):
    @pytest.fixture(params=["few", "many", "without an index"], autouse=True)
    def _bounds(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each call looks at four rows; the name is one of few jobs, of many, or has no index."""
        short_looks(monkeypatch, request.param)


class TestPausingSearches(Backend, PausingSearchesContract):
    pass


class TestPausingSearchesInShortLooks(Backend, PausingSearchesContract):
    @pytest.fixture(params=["few", "many", "without an index"], autouse=True)
    def _bounds(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """As of searches by name."""
        short_looks(monkeypatch, request.param)


class TestAnalytics(Backend, AnalyticsContract):
    pass


class TestStarts(Backend, StartsContract):
    pass


class TestGroupObjectives(Backend, GroupObjectivesContract):
    pass


class TestObjectiveJobs(Backend, ObjectiveJobsContract):
    pass


class TestUsage(Backend, UsageContract):
    pass


class TestSamples(Backend, SamplesContract):
    pass


class TestNamedClaims(Backend, NamedClaimsContract):
    pass


class TestFiredNames(Backend, FiredNamesContract):
    pass


class TestWaitingNames(Backend, WaitingNamesContract):
    pass


class TestMarks(Backend, MarksContract):
    pass


class TestRecordedOperations(Backend, RecordedOperationsContract):
    pass


class TestEpochs(Backend, EpochsContract):
    pass


class TestHeld(Backend, HeldContract):
    pass


class TestDiffers(Backend, DiffersContract):
    pass


class TestLossTable(Backend, LossTableContract):
    pass


class TestRequestTable(Backend, RequestTableContract):
    pass


class TestReturnTable(Backend, ReturnTableContract):
    pass


@pytest.mark.thorough
class TestLineTable(Backend, LineTableContract):
    pass


@pytest.mark.thorough
class TestSlotTable(Backend, SlotTableContract):
    pass


@pytest.mark.thorough
class TestRateTable(Backend, RateTableContract):
    pass


class TestWaitingTable(Backend, WaitingTableContract):
    pass


class TestNamespaces(Backend, NamespacesContract):
    pass


class TestQuotas(Backend, QuotasContract):
    pass


class TestClosedNamespaces(Backend, ClosedNamespacesContract):
    pass


class TestRemovals(Backend, RemovalsContract):
    pass


class TestTransfers(Backend, TransfersContract):
    pass
