"""Second factors, recovery codes, and the steps that wait for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.records import FactorRecords, RecoveryRecord, StepRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import NotFound
from tickwise.ports.identity.factors import (
    FACTORS_MAX,
    OPEN_STEPS_MAX,
    TOTP_MAX,
    TRIES_MAX,
    UNCONFIRMED_SECONDS,
    Factor,
    FactorKind,
    FactorReset,
    FactorStep,
    NewFactor,
    NewStep,
    RecoveryCodes,
    Shown,
    StepPurpose,
    enrolment_over,
    factors_exhausted,
    grows,
    passkey_known,
)


class _FactorDuty(Duty):
    """The ground of both parts."""

    @property
    def _kept(self) -> FactorRecords:
        return self._state.second_factors

    def _waiting(self, digest: bytes, purpose: StepPurpose) -> StepRecord | None:
        found = self._kept.steps.get(digest)
        if found is None or found.step.purpose is not purpose or found.use_id is not None:
            return None
        return found if found.expires_at > self._state.now() else None


class Factors(_FactorDuty):
    """`FactorStore` of the port."""

    async def add(self, factor: NewFactor, *, step: bytes | None = None, audit: AuditEntry | None = None) -> None:
        factors = self._kept.factors
        if factor.user_id not in self._state.people:
            raise NotFound(f"there is no user {factor.user_id}")
        if factor.factor_id in factors:
            return
        if step is not None and self._enrolment(factor.user_id, step) is None:
            raise enrolment_over()
        for each in self._of(factor.user_id):
            if not each.confirmed:
                del factors[each.factor_id]
        mine = self._of(factor.user_id)
        if len(mine) >= FACTORS_MAX:
            raise factors_exhausted(FACTORS_MAX, "second factors")
        if factor.kind is FactorKind.TOTP and sum(each.kind is FactorKind.TOTP for each in mine) >= TOTP_MAX:
            raise factors_exhausted(TOTP_MAX, "apps with codes")
        if factor.credential_id is not None and await self.by_credential(factor.credential_id) is not None:
            raise passkey_known()
        factors[factor.factor_id] = Factor(
            factor_id=factor.factor_id,
            user_id=factor.user_id,
            kind=factor.kind,
            name=factor.name,
            secret=factor.secret,
            counter=factor.counter,
            credential_id=factor.credential_id,
            place=factor.place,
            created_at=self._state.now(),
            used_at=None,
            confirmed=factor.kind is FactorKind.PASSKEY,
            suspected_at=None,
            password_limit=factor.password_limit,
        )
        if factor.kind is FactorKind.PASSKEY:
            self._end_enrolments(factor.user_id)
        self._state.audit.write(audit)

    async def confirm(
        self,
        user_id: UUID,
        factor_id: UUID,
        counter: int,
        *,
        step: bytes | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        found = self._one(user_id, factor_id)
        if found is None or found.confirmed:
            return found is not None and found.counter == counter
        if step is not None and self._enrolment(user_id, step) is None:
            return False
        self._end_enrolments(user_id)
        now = self._state.now()
        self._kept.factors[factor_id] = replace(found, confirmed=True, counter=counter, used_at=now)
        self._state.audit.write(audit)
        return True

    async def of(self, user_id: UUID) -> Sequence[Factor]:
        since = self._state.now() - UNCONFIRMED_SECONDS
        found = [each for each in self._of(user_id) if each.confirmed or each.created_at > since]
        return sorted(found, key=lambda each: (each.created_at, each.factor_id))

    async def by_credential(self, credential_id: bytes) -> Factor | None:
        found = (each for each in self._kept.factors.values() if each.credential_id == credential_id)
        return next(found, None)

    async def rename(self, user_id: UUID, factor_id: UUID, name: str, *, audit: AuditEntry | None = None) -> bool:
        found = self._one(user_id, factor_id)
        if found is None:
            return False
        if found.name != name:
            self._kept.factors[factor_id] = replace(found, name=name)
            self._state.audit.write(audit)
        return True

    async def remove(self, user_id: UUID, factor_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        if self._one(user_id, factor_id) is None:
            return False
        del self._kept.factors[factor_id]
        if not any(each.confirmed for each in self._of(user_id)):
            self._kept.recovery.pop(user_id, None)
        self._state.audit.write(audit)
        return True

    async def reset(self, user_id: UUID, by: str, *, audit: AuditEntry | None = None) -> int:
        kept = self._kept
        gone = self._of(user_id)
        for each in gone:
            del kept.factors[each.factor_id]
        kept.recovery.pop(user_id, None)
        for digest in [digest for digest, each in kept.steps.items() if each.step.user_id == user_id]:
            del kept.steps[digest]
        if gone:
            kept.resets[user_id] = FactorReset(self._state.now(), by)
            self._state.audit.write(audit)
        return len(gone)

    async def seeds(self, after: UUID | None, limit: int) -> Sequence[Factor]:
        found = [
            each
            for factor_id, each in self._kept.factors.items()
            if each.kind is FactorKind.TOTP and (after is None or factor_id > after)
        ]
        return sorted(found, key=lambda each: each.factor_id)[:limit]

    async def reseal(self, factor_id: UUID, before: bytes, after: bytes) -> bool:
        found = self._kept.factors.get(factor_id)
        if found is None or found.secret != before:
            return False
        self._kept.factors[factor_id] = replace(found, secret=after)
        return True

    async def suspect(self, factor_id: UUID, *, audit: AuditEntry | None = None) -> None:
        found = self._kept.factors.get(factor_id)
        if found is not None and found.suspected_at is None:
            self._kept.factors[factor_id] = replace(found, suspected_at=self._state.now())
            self._state.audit.write(audit)

    def _of(self, user_id: UUID) -> list[Factor]:
        return [each for each in self._kept.factors.values() if each.user_id == user_id]

    def _one(self, user_id: UUID, factor_id: UUID) -> Factor | None:
        found = self._kept.factors.get(factor_id)
        return None if found is None or found.user_id != user_id else found

    def _enrolment(self, user_id: UUID, digest: bytes) -> StepRecord | None:
        found = self._waiting(digest, StepPurpose.ENROLMENT)
        return None if found is None or found.step.user_id != user_id else found

    def _end_enrolments(self, user_id: UUID) -> None:
        steps = self._kept.steps
        for digest, each in [*steps.items()]:
            if (each.step.user_id, each.step.purpose) == (user_id, StepPurpose.ENROLMENT):
                del steps[digest]


class FactorSteps(_FactorDuty):
    """`FactorStepStore` of the port."""

    async def put_recovery(self, user_id: UUID, digests: Sequence[bytes], *, audit: AuditEntry | None = None) -> None:
        if set(self._kept.recovery.get(user_id, {})) == set(digests):
            return
        now = self._state.now()
        self._kept.recovery[user_id] = {digest: RecoveryRecord(now) for digest in digests}
        self._state.audit.write(audit)

    async def recovery(self, user_id: UUID) -> RecoveryCodes:
        codes = self._kept.recovery.get(user_id, {}).values()
        left = sum(each.use_id is None for each in codes)
        return RecoveryCodes(left, max((each.made_at for each in codes), default=None))

    async def reset_note(self, user_id: UUID, *, seen: bool) -> FactorReset | None:
        resets = self._kept.resets
        return resets.pop(user_id, None) if seen else resets.get(user_id)

    async def begin(self, step: NewStep) -> None:
        steps, now = self._kept.steps, self._state.now()
        steps.setdefault(step.digest, StepRecord(step, now + step.seconds))
        for digest in [digest for digest, each in steps.items() if each.expires_at < now]:
            del steps[digest]
        if step.user_id is None:
            return
        mine = [
            (-each.expires_at, digest)
            for digest, each in steps.items()
            if (each.step.user_id, each.step.purpose) == (step.user_id, step.purpose)
        ]
        for _, digest in sorted(mine)[OPEN_STEPS_MAX:]:
            del steps[digest]

    async def attempt(self, digest: bytes, purpose: StepPurpose) -> FactorStep | None:
        found = self._waiting(digest, purpose)
        if found is None or found.tries >= TRIES_MAX:
            return None
        found.tries += 1
        return _step(found)

    async def step(self, digest: bytes, purpose: StepPurpose) -> FactorStep | None:
        found = self._waiting(digest, purpose)
        return None if found is None else _step(found)

    async def settle(self, digest: bytes, shown: Shown, *, audit: AuditEntry | None = None) -> bool:
        step = self._kept.steps.get(digest)
        if step is None or step.expires_at <= self._state.now() or step.use_id not in (None, shown.use_id):
            return False
        if step.use_id is not None:
            return True
        if not self._use(shown):
            return False
        step.use_id = shown.use_id
        self._state.audit.write(audit)
        return True

    def _use(self, shown: Shown) -> bool:
        if shown.recovery_digest is not None and shown.user_id is not None:
            code = self._kept.recovery.get(shown.user_id, {}).get(shown.recovery_digest)
            if code is None or code.use_id not in (None, shown.use_id):
                return False
            code.use_id = shown.use_id
            return True
        factor = None if shown.factor_id is None else self._kept.factors.get(shown.factor_id)
        if factor is None or not factor.works or not grows(factor.counter, shown.counter):
            return False
        self._kept.factors[factor.factor_id] = replace(factor, counter=shown.counter, used_at=self._state.now())
        return True


def _step(record: StepRecord) -> FactorStep:
    step = record.step
    return FactorStep(step.purpose, step.user_id, step.generation, step.challenge, record.tries)
