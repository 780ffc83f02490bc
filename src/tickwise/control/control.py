"""`Control`: the services of the layer, put together over one context, with their life."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from tickwise.control.audit.denials import Denials
from tickwise.control.audit.service import AuditService
from tickwise.control.buffered.ingest import BufferedIngest
from tickwise.control.buffered.reads import PendingReads
from tickwise.control.buffered.service import BufferedService
from tickwise.control.bulk.operations import OperationService
from tickwise.control.circuit_breaker import StoreCircuitBreaker
from tickwise.control.cluster import ClusterService, SettingInForce
from tickwise.control.context import ControlContext
from tickwise.control.environments.declarations import EnvironmentDeclarations
from tickwise.control.explain.service import ExplainService
from tickwise.control.factors.assembly import SecondFactors
from tickwise.control.federations.service import FederationService
from tickwise.control.identity.service import IdentityKeyService
from tickwise.control.jobs.changes import JobChanges
from tickwise.control.jobs.composer import JobComposer
from tickwise.control.jobs.presence import PresenceService
from tickwise.control.jobs.saved_views import SavedViewService
from tickwise.control.jobs.service import JobService
from tickwise.control.jobs.submission import Counters, GroupCommit, Submissions
from tickwise.control.keys.credentials import Credentials
from tickwise.control.keys.forms import SecretForms
from tickwise.control.keys.service import KeyService
from tickwise.control.live.service import LiveOptions, LiveService
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.namespaces.service import NamespaceService
from tickwise.control.notices.alerts import AlertService
from tickwise.control.notices.channels import ChannelService
from tickwise.control.notices.link_actions import LinkActionService
from tickwise.control.notices.notices import NoticeService
from tickwise.control.notices.rules import NotificationRuleService
from tickwise.control.observing.analytics import AnalyticsService
from tickwise.control.observing.anomalies import AnomalyService
from tickwise.control.observing.objectives import ObjectiveService
from tickwise.control.observing.status_pages import StatusPageService
from tickwise.control.people.password_check import PasswordSignIn
from tickwise.control.people.people import People
from tickwise.control.people.second_step import SecondStepOf
from tickwise.control.people.session_opening import BrowserLimits
from tickwise.control.people.sso.proxy import ProxyConfig
from tickwise.control.people.sso.rules import SsoConfig
from tickwise.control.people.users import SelfRegistration
from tickwise.control.receipts import ReceiptService
from tickwise.control.requests import RequestService
from tickwise.control.runs.error_groups import ErrorGroupService
from tickwise.control.runs.letters import LetterService
from tickwise.control.runs.queues import QueueService
from tickwise.control.runs.service import RunService
from tickwise.control.schedules.calendars import CalendarService
from tickwise.control.schedules.service import ScheduleService
from tickwise.control.schedules.stored_rules import StoredRules
from tickwise.control.schedules.windows import WindowService
from tickwise.control.secrets.service import SecretService
from tickwise.control.stops.service import StopService
from tickwise.control.tasks import MAX_SOURCE_BYTES, TaskCheck, TaskService
from tickwise.domain.accounts.run_as import NO_USERS, RunAsUsers
from tickwise.domain.accounts.second_factor import FactorPolicy
from tickwise.observability.buffers import Buffer
from tickwise.ports.broker import REQUESTS, Broker
from tickwise.ports.calendars import CalendarReader
from tickwise.ports.identity import Keys
from tickwise.ports.identity.federations import AssertionVerifier
from tickwise.ports.identity.tokens import TokenIssuer
from tickwise.ports.limits import RateLimits
from tickwise.ports.runner import ScriptCheck, TaskKind
from tickwise.ports.shared_state import SharedState
from tickwise.ports.signing import Signer
from tickwise.roles.shared.group_send import Sender


class Control:
    """Everything that people and programs ask of Tickwise, as services: `control.jobs.pause(who, ...)`. Each public
    method of a service declares the permission that it needs (`access`). Start it before the first submit, stop it
    after the last."""

    name = "control"

    def __init__(
        self,
        context: ControlContext,
        *,
        keys: Keys,
        kinds: Mapping[str, TaskKind],
        calendars: CalendarReader,
        counters: Counters | None = None,
        broker: Broker | None = None,
        signer: Signer | None = None,
        shared_state: SharedState | None = None,
        membership: SharedState | None = None,
        group_commit: GroupCommit | None = None,
        scripts: ScriptCheck | None = None,
        registration: SelfRegistration | None = None,
        limits: RateLimits | None = None,
        source_bytes_most: int = MAX_SOURCE_BYTES,
        run_as_users: RunAsUsers = NO_USERS,
        bootstrap_key: str | None = None,
        live: LiveOptions | None = None,
        browser_limits: BrowserLimits | None = None,
        second_factor: FactorPolicy | None = None,
        settings: Sequence[SettingInForce] = (),
        issuer: TokenIssuer | None = None,
        verifier: AssertionVerifier | None = None,
        sso: SsoConfig | None = None,
        proxy: ProxyConfig | None = None,
        password_sign_in: PasswordSignIn = PasswordSignIn.ON,
    ) -> None:
        """`kinds` by their name. With `broker`, requests are buffered: a request that goes through it is answered once
        the broker has it; `signer` signs requests, and `shared_state` carries notes of them to other processes.
        `membership` is the shared state where roles note that they are active, and people which job they have open.
        `scripts` looks at the syntax of scripts; None: nothing does. `registration`: how people register; None: they do
        not. `limits` counts sign-ins of all processes. `source_bytes_most`: how long a script in a job may be.
        `run_as_users`: those that jobs may name, as far as this process knows. `bootstrap_key`: that of the settings.
        `browser_limits`: when sessions of browsers end. `settings`: those in force, for administrators. `issuer` signs
        identity tokens. `sso` and `proxy` sign people in, `password_sign_in` says who does with a password, and
        `second_factor` who needs one. `verifier` checks tokens of other issuers; None: none is taken."""
        self.context, self.clock, self._kinds, self._scripts = context, context.clock, kinds, scripts
        check = TaskCheck(
            kinds, scripts=scripts, source_bytes_most=source_bytes_most, run_as_users=run_as_users, issuer=issuer
        )
        composer = JobComposer(context, check)
        submissions = self._submissions = Submissions(context, composer, counters=counters, group_commit=group_commit)
        breaker = None if broker is None else StoreCircuitBreaker(context.clock)
        changes = JobChanges(context, composer, submissions)
        self._ingest: BufferedIngest | None = None
        self.jobs, self.identity = JobService(context, changes), IdentityKeyService(issuer)
        self._begin_schedules(context, calendars)
        self.bulk, self.live = OperationService(context), LiveService(context, live)
        self._begin_runs(context, check, submissions.declarations, membership)
        self._begin_notices(context)
        self._begin_observing(context, membership, settings)
        self._begin_access(context, keys, breaker)
        self.denials, self.audit, forms = Denials(context), AuditService(context), SecretForms(bootstrap_key)
        known = (
            context, keys, self.directory, registration, forms, self.denials, limits, browser_limits, sso, proxy,
            password_sign_in, verifier,
        )  # fmt: skip
        people = self._begin_people(partial(People, *known), SecondFactors(context, second_factor or FactorPolicy()))
        self.credentials = Credentials(context, keys, people.callers.of_digest, forms, breaker)
        reads: PendingReads | None = None
        if broker is not None and breaker is not None:
            ingest = self._ingest = BufferedIngest(
                context, composer=composer, changes=changes, breaker=breaker, broker=broker, signer=signer,
                sender=Sender(broker, REQUESTS, context.clock, room=submissions.room), shared_state=shared_state,
            )  # fmt: skip
            reads = PendingReads(context, ingest=ingest, breaker=breaker)
        self.requests = RequestService(context, submissions, changes, self._ingest)
        self.buffered = BufferedService(context, reads)

    def _begin_schedules(self, context: ControlContext, calendars: CalendarReader) -> None:
        rules = StoredRules(context, calendars)
        self.schedules = ScheduleService(context)
        self.calendars, self.windows = CalendarService(rules), WindowService(rules)

    def _begin_access(self, context: ControlContext, keys: Keys, breaker: StoreCircuitBreaker | None) -> None:
        self.directory = NamespaceDirectory(context.store.namespaces, context.clock, breaker)
        self.namespaces = NamespaceService(context, context.store.namespaces)
        self.keys, self.secrets = KeyService(context, keys, self.directory), SecretService(context)
        self.federations = FederationService(context, keys, self.directory)

    def _begin_runs(
        self,
        context: ControlContext,
        check: TaskCheck,
        declarations: EnvironmentDeclarations,
        membership: SharedState | None,
    ) -> None:
        self.tasks = TaskService(context, check, declarations)
        self.receipts = ReceiptService(context)
        self.letters, self.errors = LetterService(context), ErrorGroupService(context)
        self.runs, self.queues, self.saved_views = RunService(context), QueueService(context), SavedViewService(context)
        self.explain, self.stops = ExplainService(context, declarations, membership), StopService(context)

    def _begin_people(self, make: Callable[[SecondStepOf], People], second: SecondFactors) -> People:
        """The services of people and of their second factors."""
        people = self._people = make(second.assemble)
        self.factors, self.factor_sign_ins, self.browsers = second.service, second.sign_ins, people.browsers
        self.sso, self.proxy, self.identities, self.devices = (
            people.sso,
            people.proxy,
            people.identities,
            people.devices,
        )
        self.users, self.access_roles, self.auth, self.bearers = people.users, people.roles, people.auth, people.bearers
        return people

    def _begin_notices(self, context: ControlContext) -> None:
        self.channels, self.notification_rules = ChannelService(context), NotificationRuleService(context)
        self.alerts, self.notices = AlertService(context), NoticeService(context)
        self.link_actions = LinkActionService(context)

    def _begin_observing(
        self, context: ControlContext, membership: SharedState | None, settings: Sequence[SettingInForce]
    ) -> None:
        self.presence, self.cluster = (
            PresenceService(context, membership),
            ClusterService(context, membership, settings),
        )
        self.analytics, self.anomalies = AnalyticsService(context), AnomalyService(context)
        self.objectives, self.status_pages = ObjectiveService(context), StatusPageService(context)

    @property
    def task_kinds(self) -> Collection[TaskKind]:
        """The kinds of tasks that are known here, for the description of the API."""
        return self._kinds.values()

    async def start(self) -> None:
        """Begin to take jobs."""
        await self._submissions.start()
        await self.denials.start()
        if self._ingest is not None:
            await self._ingest.start()

    def buffers(self) -> Mapping[str, Buffer]:
        """The waiting writes, for the metrics."""
        buffers = self._submissions.buffers()
        return buffers if self._ingest is None else {**buffers, **self._ingest.buffers()}

    async def drain(self) -> None:
        """Write the waiting requests, and end the streams."""
        await self.live.stop()
        try:
            if self._ingest is not None:
                await self._ingest.stop()
        finally:
            await self._submissions.stop()
            await self.credentials.stop()
            await self.denials.stop()

    async def stop(self) -> None:
        """Write the waiting requests, and take no more."""
        try:
            await self.drain()
        finally:
            self._people.close()
            if self._scripts is not None:
                await self._scripts.close()
