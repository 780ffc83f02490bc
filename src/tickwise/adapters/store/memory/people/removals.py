"""The end of a namespace: what it holds goes page by page, and at last the namespace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.observing.status_pages import drop_status_page
from tickwise.adapters.store.memory.people.namespaces import drop, drop_late
from tickwise.adapters.store.memory.records import JobRecord, KeyRecord, RemovalRecord
from tickwise.adapters.store.memory.state import ON_DEMAND, Duty
from tickwise.domain.audit import AuditEntry
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.identity.namespaces import (
    MAX_LEFT,
    REMOVED_SECONDS,
    SETTLE_SECONDS,
    NamespaceLeft,
    NamespaceRow,
    NamespaceState,
    check_removal,
)
from tickwise.ports.store import JobAction


class Removals(Duty):
    """`RemovalStore` of the port."""

    async def begin(self, name: str, *, audit: AuditEntry | None = None) -> NamespaceRow | None:
        found = self._state.namespaces.get(name)
        if found is None or found.state is NamespaceState.REMOVING:
            return found
        check_removal(found)
        now = self._state.now()
        self._state.removals[name] = RemovalRecord(began_at=now, free_at=now)
        self._drop_people(name)
        self._drop_keys(name)
        self._state.namespaces[name] = replace(found, state=NamespaceState.REMOVING, version=found.version + 1)
        self._state.audit.write(audit)
        return self._state.namespaces[name]

    async def take(self, hold_seconds: float) -> str | None:
        now = self._state.now()
        free = [(removal.free_at, name) for name, removal in self._state.removals.items() if removal.free_at <= now]
        if not free:
            return None
        _, name = min(free)
        self._state.removals[name].free_at = now + hold_seconds
        return name

    async def put_back(self, name: str, seconds: float) -> None:
        if (removal := self._state.removals.get(name)) is not None:
            removal.free_at = self._state.now() + seconds

    async def left(self, name: str) -> NamespaceLeft:
        jobs = sum(job.namespace == name for job in self._state.jobs.awake) + self._state.jobs.resting_in(name)
        runs = sum(run.job.namespace == name for run in self._state.runs.values())
        ended = self._state.ended.number_of(name)
        return NamespaceLeft(min(jobs, MAX_LEFT), min(runs, MAX_LEFT), min(ended, MAX_LEFT))

    async def jobs(self, name: str, *, after: UUID | None, limit: int) -> Sequence[UUID]:
        going = [
            job.job_id
            for job in self._state.jobs.awake
            if job.namespace == name and (after is None or job.job_id > after) and self._goes_on(job)
        ]
        return sorted(going)[:limit]

    def _goes_on(self, job: JobRecord) -> bool:
        if job.standing is JobAction.CANCEL:
            return False
        is_due = job.timer is not None or bool(job.runs)
        return is_due or job.standing is JobAction.PAUSE or job.schedule_type == ON_DEMAND

    async def drop_runs(self, name: str, run_ids: Collection[UUID]) -> int:
        if name not in self._state.removals:
            return 0
        mine = [each for each in dict.fromkeys(run_ids) if self._is_of(each, name)]
        self._state.ended.drop(mine, erase=True)
        for run_id in mine:
            self._state.letters.pop(run_id, None)
            self._state.error_letters.pop(run_id, None)
            for failure in [each for each in self._state.failures if each.run_id == run_id]:
                del self._state.failures[failure]
            self._state.completions.pop(run_id, None)
        return len(mine)

    def _is_of(self, run_id: UUID, namespace: str) -> bool:
        ended = self._state.ended.get(run_id)
        return ended is not None and ended.row.namespace == namespace

    async def drop(self, name: str, limit: int) -> int:
        if name not in self._state.removals:
            return 0
        state = self._state
        jobs = [job for job in state.jobs.awake if job.namespace == name and not job.runs][:limit]
        for job in jobs:
            self._drop_job(job)
        resting = state.jobs.resting_of(name, limit - len(jobs))
        for job_id in resting:
            del state.jobs[job_id]
        rules = drop(state.rules, [each for each in state.rules if each[0] == name], limit)
        if rules:
            state.rules_version += 1
            for kind in {kind for _, kind in state.rules_of_kind}:
                state.rules_of_kind.pop((name, kind), None)
        objectives = [key for key, each in state.objectives.items() if each.namespace == name]
        for objective_id in objectives[:limit]:
            del state.ended_before[objective_id]
        return (
            len(jobs)
            + len(resting)
            + rules
            + drop(state.tasks, [each for each in state.tasks if each[0] == name], limit)
            + drop(state.stops, [key for key, each in state.stops.items() if each.namespace == name], limit)
            + drop(state.objectives, objectives, limit)
            + drop(state.saved_views, [each for each in state.saved_views if each[0] == name], limit)
            + self._drop_status_pages(name, limit)
            + drop(state.secrets, [each for each in state.secrets if each.namespace == name], limit)
            + drop(state.queue_holds, [each for each in state.queue_holds if each[0] == name], limit)
            + drop(state.tallies, [each for each in state.tallies if each[0] == name], limit)
            + drop(
                state.error_groups,
                [each for each, group in state.error_groups.items() if group.row.namespace == name],
                limit,
            )
            + self._drop_notices(name, limit)
            + drop_late(state, name, limit)
        )

    async def end(self, name: str) -> bool:
        if name not in self._state.namespaces:
            return True
        state, now = self._state, self._state.now()
        removal = state.removals.get(name)
        if removal is None or now < removal.began_at + SETTLE_SECONDS or any(await self.left(name)):
            return False
        held = len(state.receipts) + len(state.operations) + len(state.tasks) + len(state.tallies)
        held += len(state.notification_rules) + len(state.channels) + len(state.alerts) + len(state.notices)
        held += len(state.objectives) + len(state.notice_events) + len(state.noted_once)
        await self.drop(name, held + len(state.error_groups) + len(state.secrets))
        state.slots.forget(name)
        state.fires_in_minute.pop(name, None)
        state.runs_of_day.pop(name, None)
        for place in [place for place in state.known if place[0] == name]:
            del state.known[place]
            state.lanes.pop(place, None)
        state.known_of.pop(name, None)
        for key in [key for key in state.environments if key[0] == name]:
            del state.environments[key]
        for gone in [each for each, at in state.namespaces_removed.items() if at < now - REMOVED_SECONDS]:
            del state.namespaces_removed[gone]
        state.namespaces_removed[name] = now
        del state.namespaces[name], state.removals[name]
        return True

    def _drop_status_pages(self, name: str, limit: int) -> int:
        """The status pages of a namespace."""
        pages = [key for key, each in self._state.status_pages.items() if each.namespace == name][:limit]
        for page_id in pages:
            drop_status_page(self._state, page_id)
        return len(pages)

    def _drop_notices(self, name: str, limit: int) -> int:
        """The rules, channels, alerts, notices and events of a namespace."""
        state = self._state
        state.notices_watched.pop(name, None)
        state.notices_watched_by_jobs.discard(name)
        state.notices_retries.discard(name)
        state.notices_successes.pop(name, None)
        rules = [key for key, each in state.notification_rules.items() if each.namespace == name]
        channels = [key for key, each in state.channels.items() if each.namespace == name]
        for channel_id in channels[:limit]:
            state.channel_secrets.pop(channel_id, None)
        dropped = drop(state.notification_rules, rules, limit) + drop(state.channels, channels, limit)
        state.notices_version += bool(dropped)
        alerts = [key for key, each in state.alerts.items() if each.alert.namespace == name]
        notices = [key for key, each in state.notices.items() if each.notice.namespace == name]
        events = [key for key, each in state.notice_events.items() if each.namespace == name]
        noted = [key for key in state.noted_once if key[0] == name]
        return (
            dropped
            + drop(state.alerts, alerts, limit)
            + drop(state.notices, notices, limit)
            + drop(state.notice_events, events, limit)
            + drop(state.noted_once, noted, limit)
        )

    def _drop_job(self, job: JobRecord) -> None:
        self._state.drop_timer(job)
        del self._state.jobs[job.job_id]
        self._state.secret_uses.drop(job)
        if job.key is not None:
            del self._state.jobs.keyed[job.namespace, job.key]

    def _drop_people(self, name: str) -> None:
        """The memberships and roles of a namespace, and the sessions that are bound to it."""
        state = self._state
        for person in state.people.values():
            roles = tuple(member for member in person.row.roles if member.namespace != name)
            if roles != person.row.roles:
                person.row = replace(
                    person.row,
                    roles=roles,
                    version=person.row.version + 1,
                    generation=person.row.generation + 1,
                )
                links = [digest for digest, each in state.user_links.items() if each.link.user_id == person.row.user_id]
                for digest in [digest for digest in links if not state.user_links[digest].is_used]:
                    del state.user_links[digest]
        drop(state.custom_roles, [each for each in state.custom_roles if each[0] == name], len(state.custom_roles))
        for session in state.sessions.values():
            session.is_revoked = session.is_revoked or session.session.namespace == name

    def _drop_keys(self, name: str) -> None:
        """The keys of this namespace alone go, the others lose it."""
        keys = self._state.api_keys
        for digest, record in list(keys.items()):
            home = record.key.principal.namespace
            places = record.key.namespaces or frozenset({home})
            if name not in {home, *places}:
                continue
            if not (rest := places - {name}):
                del keys[digest]
            else:
                _move_key(record, name, rest)


def _move_key(record: KeyRecord, name: str, rest: frozenset[str]) -> None:
    principal = record.key.principal
    if principal.namespace == name:
        principal = principal._replace(namespace=DEFAULT_NAMESPACE if INSTALLATION in rest else min(rest))
    record.key = replace(record.key, principal=principal, namespaces=rest)
