"""Secrets: sealed bytes, their versions, and the keys that wrap them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tickwise.adapters.store.memory.records import JobRecord, SecretRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.sealing import SealedParts, key_id_of
from tickwise.ports.store.definitions import JobAction
from tickwise.ports.store.secrets import (
    VERSIONS_KEPT,
    NewSecret,
    Rewrapped,
    SealedKey,
    SealedSecret,
    SecretPlace,
    SecretQuery,
    SecretRow,
    SecretUse,
    SecretUses,
    SecretVersion,
    check_secret_room,
    secret_changed,
)


class Secrets(Duty):
    """`SecretStore` of the port."""

    async def put(self, secret: NewSecret, *, audit: AuditEntry | None = None) -> SecretRow:
        state, place = self._state, SecretPlace(secret.namespace, secret.name)
        state.check_open(secret.namespace, or_closing=secret.version == 1)
        stored = state.secrets.get(place)
        if stored is not None and stored.row.version == secret.version and stored.sealed.key == secret.sealed.key:
            return stored.row
        if (0 if stored is None else stored.row.version) != secret.version - 1:
            raise secret_changed(place)
        if stored is None:
            check_secret_room(sum(each.namespace == secret.namespace for each in state.secrets))
        now = state.now()
        row = SecretRow(
            namespace=place.namespace,
            name=place.name,
            version=secret.version,
            key_id=key_id_of(secret.sealed.key),
            created_at=now if stored is None else stored.row.created_at,
            created_by=secret.by if stored is None else stored.row.created_by,
            changed_at=now,
            changed_by=secret.by,
        )
        earlier = () if stored is None else stored.versions
        versions = (SecretVersion(secret.version, now, secret.by), *earlier)[:VERSIONS_KEPT]
        state.secrets[place] = SecretRecord(row, secret.sealed, versions)
        state.audit.write(audit)
        return row

    async def find(self, query: SecretQuery) -> Sequence[SecretRow]:
        return [replace(record.row, jobs=self._count(record.row, query.jobs_most)) for record in self._hits(query)]

    async def versions(self, place: SecretPlace) -> Sequence[SecretVersion]:
        stored = self._state.secrets.get(place)
        return () if stored is None else stored.versions

    async def remove(self, place: SecretPlace, version: int | None, *, audit: AuditEntry | None = None) -> bool:
        stored = self._state.secrets.get(place)
        if stored is None:
            return False
        if version not in (None, stored.row.version):
            raise secret_changed(place)
        del self._state.secrets[place]
        self._state.audit.write(audit)
        return True

    async def uses(self, place: SecretPlace, limit: int) -> SecretUses:
        found = sorted(filter(_may_start, self._state.secret_uses.of(*place)), key=lambda job: job.job_id)
        jobs = [SecretUse(job.job_id, job.name, job.key, job.labels) for job in found[:limit]]
        newest = (versions[-1] for (owner, _), versions in self._state.tasks.items() if owner == place.namespace)
        tasks = sorted((each for each in newest if "secret" in each.task), key=lambda task: task.task_id)
        return SecretUses(jobs, tasks[:limit], more=max(len(found), len(tasks)) > limit)

    async def sealed(self, places: Sequence[SecretPlace]) -> Sequence[SealedSecret]:
        found = ((place, self._state.secrets.get(place)) for place in sorted(set(places)))
        return [SealedSecret(place, each.row.version, each.sealed) for place, each in found if each is not None]

    async def keys_used(self) -> Mapping[bytes, int]:
        return Counter(each.row.key_id for each in self._state.secrets.values())

    async def sealed_keys(self, query: SecretQuery) -> Sequence[SealedKey]:
        hits = self._hits(query)
        return [SealedKey(SecretPlace(each.row.namespace, each.row.name), each.sealed.key) for each in hits]

    async def rewrap(self, keys: Sequence[Rewrapped], *, audit: AuditEntry | None = None) -> int:
        replaced = 0
        for each in keys:
            stored = self._state.secrets.get(each.place)
            if stored is not None and stored.sealed.key == each.old:
                row = replace(stored.row, key_id=key_id_of(each.new))
                sealed = SealedParts(each.new, stored.sealed.value)
                self._state.secrets[each.place] = stored._replace(row=row, sealed=sealed)
                replaced += 1
        if replaced:
            self._state.audit.write(audit)
        return replaced

    async def trace_of(self, secret: NewSecret) -> str:
        await self.put(secret)
        return repr(self._state.secrets.pop(SecretPlace(secret.namespace, secret.name)))

    def _count(self, row: SecretRow, most: int) -> int:
        uses = self._state.secret_uses.of(row.namespace, row.name) if most else ()
        return min(most, sum(_stays(job) and _may_start(job) for job in uses))

    def _hits(self, query: SecretQuery) -> list[SecretRecord]:
        found = [
            record
            for place, record in sorted(self._state.secrets.items())
            if query.namespace in (None, place.namespace)
            and query.name in (None, place.name)
            and (query.after is None or place > query.after)
            and record.row.key_id not in query.not_under
        ]
        return found[: query.limit]


def _may_start(job: JobRecord) -> bool:
    """Check whether the job counts as one that uses what it names."""
    if job.standing is JobAction.CANCEL or not job.lasting:
        return False
    return _stays(job) or job.timer is not None or bool(job.runs)


def _stays(job: JobRecord) -> bool:
    """Check whether the job is no one-time job."""
    return job.recurring or job.schedule_type == ScheduleType.ON_DEMAND
