"""`PostgresStore`: the parts put together, opened and closed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tickwise.adapters.store.postgres.base import Shared
from tickwise.adapters.store.postgres.connection.link import BEAT, POOL_CONNECTIONS
from tickwise.adapters.store.postgres.dispatch.attempts import Attempts
from tickwise.adapters.store.postgres.dispatch.epochs import Epochs, Held
from tickwise.adapters.store.postgres.dispatch.executors import Executors
from tickwise.adapters.store.postgres.dispatch.timers import TimerCommands
from tickwise.adapters.store.postgres.health import Checks, TimerRepair
from tickwise.adapters.store.postgres.jobs.environments import DeclaredEnvironments
from tickwise.adapters.store.postgres.jobs.flow import Completions, Queues
from tickwise.adapters.store.postgres.jobs.jobs import Lookups
from tickwise.adapters.store.postgres.jobs.keys import ApiKeys
from tickwise.adapters.store.postgres.jobs.looks import Looks
from tickwise.adapters.store.postgres.jobs.quotas import QuotaUses
from tickwise.adapters.store.postgres.jobs.rules import Rules
from tickwise.adapters.store.postgres.jobs.run_commands import RunCommands
from tickwise.adapters.store.postgres.jobs.stops import Stops
from tickwise.adapters.store.postgres.jobs.submits import Receipts, Submits
from tickwise.adapters.store.postgres.jobs.tasks import Tasks
from tickwise.adapters.store.postgres.jobs.transfers import Transfers
from tickwise.adapters.store.postgres.notices.alerts import Alerts
from tickwise.adapters.store.postgres.notices.channels import NoticeChannels
from tickwise.adapters.store.postgres.notices.delays import Delays
from tickwise.adapters.store.postgres.notices.notices import Notices
from tickwise.adapters.store.postgres.notices.rules import NotificationRules
from tickwise.adapters.store.postgres.observing.status_pages import StatusPages
from tickwise.adapters.store.postgres.people.browser_sessions import BrowserSessions
from tickwise.adapters.store.postgres.people.device_sign_ins import DeviceSignIns
from tickwise.adapters.store.postgres.people.factors import Factors, FactorSteps
from tickwise.adapters.store.postgres.people.federations import Federations
from tickwise.adapters.store.postgres.people.identities import Identities
from tickwise.adapters.store.postgres.people.identity_keys import IdentityKeys
from tickwise.adapters.store.postgres.people.namespaces import Namespaces
from tickwise.adapters.store.postgres.people.removals import Removals
from tickwise.adapters.store.postgres.people.saved_views import SavedViews
from tickwise.adapters.store.postgres.people.sessions import Sessions
from tickwise.adapters.store.postgres.people.users import Roles, Users
from tickwise.adapters.store.postgres.records.analytics import AnalyticsSearches
from tickwise.adapters.store.postgres.records.audit import Audit
from tickwise.adapters.store.postgres.records.error_groups import ErrorGroups
from tickwise.adapters.store.postgres.records.feed import Feed
from tickwise.adapters.store.postgres.records.letters import Letters, LetterSearches, Operations
from tickwise.adapters.store.postgres.records.objectives import Objectives
from tickwise.adapters.store.postgres.records.records import Figures, Incidents, Marks, RunRecords
from tickwise.adapters.store.postgres.records.starts import StartSearches
from tickwise.adapters.store.postgres.schema import WANTED, SchemaVersion, current
from tickwise.adapters.store.postgres.secrets.secrets import Secrets
from tickwise.adapters.store.postgres.server import settings_findings, upkeep_findings
from tickwise.adapters.store.postgres.shards.shard_map import PostgresShardMap, ShardMembership
from tickwise.adapters.store.postgres.statements import statement
from tickwise.adapters.store.postgres.upkeep import Maintenance
from tickwise.domain.errors import Misconfigured, StoreUnavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover, JobQuery, LetterQuery, RunQuery, SearchCount

VERSION_LEAST: Final = 150_000

log = logging.getLogger(__name__)


class Jobs(Submits, Transfers, Lookups):
    """`JobStore` of the port."""


class Runs(RunCommands, RunRecords):
    """`RunStore` of the port."""


class Timers(TimerCommands, TimerRepair):
    """`TimerStore` of the port."""


class Upkeep(Maintenance, Figures):
    """`UpkeepStore` of the port."""


class RunAnalyses(AnalyticsSearches, StartSearches):
    """The questions about many runs."""


class Searches(Looks, LetterSearches, RunAnalyses):
    """`Searches` of the port."""

    async def count(self, query: JobQuery | RunQuery | LetterQuery) -> SearchCount:
        """See the port."""
        if isinstance(query, JobQuery):
            return await self._count_jobs(query)
        return await (self._count_runs(query) if isinstance(query, RunQuery) else self._count_letters(query))


class PostgresStore:
    """`ports.store.Store` on PostgreSQL.

    Call `open` first. Any number of processes may work on one database; each object is for one event loop.
    """

    def __init__(
        self,
        dsn: str,
        *,
        clock: Clock,
        near_seconds: float = 2.0,
        reads_only: bool = False,
        pool_connections: int = POOL_CONNECTIONS,
    ) -> None:
        """`clock` only paces and measures; what is due and what has expired is judged by the database's clock.

        `near_seconds`: a due time within it becomes a run at once, so that no scheduler has to be in time for it.

        `pool_connections`: at most so many for what has no connection of its own; those of duties come beside them.

        `reads_only`: for searches on a standby, or with a role that may only read. A write raises `Bug`.
        """
        self._shared = shared = Shared(
            dsn, clock=clock, near_seconds=near_seconds, reads_only=reads_only, pool_connections=pool_connections
        )
        self._links = shared.links
        self.jobs = Jobs(shared)
        self.tasks = Tasks(shared)
        self.receipts = Receipts(shared)
        self.rules = Rules(shared)
        self.stops = Stops(shared)
        self.saved_views = SavedViews(shared)
        self.status_pages = StatusPages(shared)
        self.secrets = Secrets(shared)
        self.environments = DeclaredEnvironments(shared)
        self.timers = Timers(shared)
        self.runs = Runs(shared)
        self.attempts = Attempts(shared)
        self.executors = Executors(shared)
        self.held = Held(shared)
        self.epochs = Epochs(shared)
        self.completions = Completions(shared)
        self.queues = Queues(shared)
        self.letters = Letters(shared)
        self.operations = Operations(shared)
        self.error_groups = ErrorGroups(shared)
        self.objectives = Objectives(shared)
        self.channels = NoticeChannels(shared)
        self.notices = Notices(shared)
        self.notification_rules = NotificationRules(shared)
        self.alerts = Alerts(shared)
        self.delays = Delays(shared)
        self.checks = Checks(shared)
        self.incidents = Incidents(shared)
        self.marks = Marks(shared)
        self.upkeep = Upkeep(shared)
        self.searches = Searches(shared)
        self.keys = ApiKeys(shared)
        self.namespaces = Namespaces(shared)
        self.quotas = QuotaUses(shared)
        self.removals = Removals(shared)
        self.users = Users(shared)
        self.roles = Roles(shared)
        self.sessions = Sessions(shared)
        self.browser_sessions = BrowserSessions(shared)
        self.identity_keys = IdentityKeys(shared)
        self.device_sign_ins = DeviceSignIns(shared)
        self.federations = Federations(shared)
        self.identities = Identities(shared)
        self.factors, self.factor_steps = Factors(shared), FactorSteps(shared)
        self.audit = Audit(shared)
        self.feed = Feed(shared)
        self.shard_map, self.shard_membership = PostgresShardMap(shared), ShardMembership(shared)

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """See the port."""
        self._shared.on_handover = tell

    async def open(self) -> None:
        """See the port."""
        await self._links.open()
        try:
            async with self._links.pooled(writes=False) as connection:
                version = await connection.fetchval(statement("server_version"))
                if version < VERSION_LEAST:
                    raise Misconfigured(f"PostgreSQL {version // 10_000} is too old: Tickwise needs 15 or later")
                _check_schema(await current(connection), follows=self._links.reads_only)
                self._shared.cluster_id = await connection.fetchval(statement("cluster_id"))
                found = await settings_findings(connection)
            for finding in [*found, *self._link_findings()]:
                log.warning(finding)
        except BaseException:
            await self._links.close()
            raise

    async def close(self) -> None:
        """See the port."""
        self._shared.batches.close()
        await self._links.close()

    async def now(self) -> float:
        """See the port."""
        async with self._links.line(BEAT).use(writes=False) as connection:
            now: float = await connection.fetchval(statement("now"))
        return now

    async def findings(self) -> list[str]:
        """Findings that an operator should put right some day: none keeps the store from working."""
        async with self._links.pooled(writes=False) as connection:
            found = await settings_findings(connection)
            return [*found, *self._link_findings(), *await upkeep_findings(connection)]

    def _link_findings(self) -> list[str]:
        if _has_password(self._links.dsn):
            return []
        return ["the database URL has no password: the server may admit any client as that role"]

    async def shift(self, seconds: float, *, start_seconds: float = 0.0) -> None:
        """For tests: from now on every statement of this store reads a clock `seconds` ahead of the true one, and takes
        the server to have started `start_seconds` later than it did."""
        self._shared.forget()
        await self._links.shift(seconds, start_seconds=start_seconds)


def _check_schema(found: SchemaVersion | None, *, follows: bool) -> None:
    """`follows`: the database may be a copy that comes later than the one that is upgraded."""
    if follows and (found is None or not (found.fits or found.is_newer)):
        has = "no schema of Tickwise" if found is None else f"the schema {found.version}"
        raise StoreUnavailable(f"the database for searches has {has} and not {WANTED} yet: it comes with the primary's")
    if found is None:
        raise Misconfigured("the database has no schema of Tickwise yet: run `tickwise db upgrade`")
    if found.fits:
        return
    if not found.is_newer:
        raise Misconfigured(
            f"the database's schema is {found.version}, this program needs {WANTED}: run `tickwise db upgrade`"
        )
    raise Misconfigured(
        f"the database's schema {found.version} serves programs from {found.serves} on, this one knows {WANTED}: "
        "install the newer Tickwise"
    )


def _has_password(dsn: str) -> bool:
    """Check whether the address names a password, or a certificate in its place."""
    parts = urlsplit(dsn)
    options = parse_qs(parts.query)
    return bool(parts.password) or bool({"password", "passfile", "sslcert"} & options.keys())
