"""The memory store keeps every promise of the store's port."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from tests.support.walks import WALKS_SECONDS, walked_seeds
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.lifecycle import CancelKind
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.notices.rules import Notice, NoticeChannel, NoticeChannelKind
from tickwise.domain.rules.requests import StopRequest
from tickwise.ports.store import Check, Store
from tickwise.testing.clock import VirtualClock
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


class Backend:
    """A store on a clock that stands until the test moves it."""

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def store(self, clock: VirtualClock) -> Store:
        self.virtual_clock = clock
        return MemoryStore(clock)

    @pytest.fixture
    def other(self, store: Store) -> Store:
        return store

    async def shift(self, store: Store, seconds: float) -> None:
        await self.virtual_clock.advance(seconds)

    async def restart(self, store: Store) -> None:
        await store.close()
        await store.open()

    async def add_channel(self, store: Store, namespace: str, name: str) -> UUID:
        assert isinstance(store, MemoryStore)
        channel = NoticeChannel(channel_id=uuid4(), namespace=namespace, name=name, kind=NoticeChannelKind.WEBHOOK)
        store.state.channels[channel.channel_id] = channel
        return channel.channel_id

    async def notices(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Notice]:
        assert isinstance(store, MemoryStore)
        return [each.notice for each in store.state.notices.values() if each.notice.namespace == namespace]

    async def take_notices(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        for notice in store.state.notices.values():
            notice.sender = "sender"

    async def damage(self, store: Store, check: Check, subject: UUID) -> None:
        assert isinstance(store, MemoryStore)
        state = store.state
        run = state.runs.get(subject)
        if check is Check.PLANNED:
            state.drop_timer(state.jobs[subject])
        elif run is None:
            assert check is Check.HEARD_IN_TIME, "here a request is a part of its run, and cannot outlive it"
        elif check is Check.ENDED_ONCE:
            state.cancel(run, StopRequest(CancelKind.CANCEL, state.now()))
            state.runs[subject] = run.job.runs[subject] = run
            state.place(run)
        elif check is Check.HELD_BY_ACTIVE:
            assert run.executor is not None
            state.executors[run.executor].gone_at = state.now()
        elif check is Check.WAITS_FOR_SOMETHING:
            run.blocked = True
            state.place(run)
        else:
            assert check is Check.HAS_A_JOB
            del state.jobs[run.job.job_id]


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
    pass


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
    seeds = walked_seeds(10)


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


class TestPausingSearches(Backend, PausingSearchesContract):
    pass


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


class TestLineTable(Backend, LineTableContract):
    pass


class TestSlotTable(Backend, SlotTableContract):
    pass


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
