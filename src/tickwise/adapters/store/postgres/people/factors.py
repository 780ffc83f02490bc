"""Second factors, recovery codes, and the steps that wait for one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import UniqueBroken, translated
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
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
    passkey_known,
)
from tickwise.ports.identity.users import PasswordLimit


class Factors(Part):
    """`FactorStore` of the port."""

    async def add(self, factor: NewFactor, *, step: bytes | None = None, audit: AuditEntry | None = None) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if await connection.fetchval(statement("factors_lock"), factor.user_id) is None:
                raise NotFound(f"there is no user {factor.user_id}")
            if await connection.fetchval(statement("factor_known"), factor.factor_id):
                return
            if step is not None and not await connection.fetchval(statement("enrolment_waits"), factor.user_id, step):
                raise enrolment_over()
            await connection.execute(statement("factors_replace"), factor.user_id)
            count = await connection.fetchrow(statement("factors_count"), factor.user_id)
            if count["factors"] >= FACTORS_MAX:
                raise factors_exhausted(FACTORS_MAX, "second factors")
            if factor.kind is FactorKind.TOTP and count["totp"] >= TOTP_MAX:
                raise factors_exhausted(TOTP_MAX, "apps with codes")
            limit = factor.password_limit
            stored = limit and json.dumps({"namespace": limit.namespace, "permissions": sorted(limit.permissions)})
            try:
                with translated(writes=True):
                    await connection.execute(
                        statement("factor_add"),
                        factor.factor_id, factor.user_id, factor.kind, factor.name, factor.secret, factor.counter,
                        factor.credential_id, factor.place, stored,
                    )  # fmt: skip
            except UniqueBroken as error:
                raise passkey_known() from error
            if factor.kind is FactorKind.PASSKEY:
                await connection.execute(statement("enrolments_end"), factor.user_id)
            await write_audit(connection, audit)

    async def confirm(
        self,
        user_id: UUID,
        factor_id: UUID,
        counter: int,
        *,
        step: bytes | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.fetchval(statement("factors_lock"), user_id)
            repeated: bool = await connection.fetchval(statement("factor_confirmed"), user_id, factor_id, counter)
            if repeated:
                return True
            if step is not None and not await connection.fetchval(statement("enrolment_waits"), user_id, step):
                return False
            if await connection.fetchval(statement("factor_confirm"), user_id, factor_id, counter) is None:
                return False
            await connection.execute(statement("enrolments_end"), user_id)
            await write_audit(connection, audit)
        return True

    async def of(self, user_id: UUID) -> Sequence[Factor]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("factors_found"), user_id, None, UNCONFIRMED_SECONDS)
        return [_factor(row) for row in rows]

    async def by_credential(self, credential_id: bytes) -> Factor | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("factors_found"), None, credential_id, UNCONFIRMED_SECONDS)
        return None if row is None else _factor(row)

    async def rename(self, user_id: UUID, factor_id: UUID, name: str, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            before = await connection.fetchval(statement("factor_rename"), user_id, factor_id, name)
            if before is not None and before != name:
                await write_audit(connection, audit)
        return before is not None

    async def remove(self, user_id: UUID, factor_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.fetchval(statement("factors_lock"), user_id)
            removed = await connection.fetchval(statement("factor_remove"), user_id, factor_id)
            if removed is None:
                return False
            await connection.execute(statement("recovery_forget"), user_id)
            await write_audit(connection, audit)
        return True

    async def reset(self, user_id: UUID, by: str, *, audit: AuditEntry | None = None) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.fetchval(statement("factors_lock"), user_id)
            gone: int = await connection.fetchval(statement("factors_reset"), user_id)
            if gone:
                await connection.execute(statement("factor_reset_note"), user_id, by)
                await write_audit(connection, audit)
        return gone

    async def seeds(self, after: UUID | None, limit: int) -> Sequence[Factor]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("factor_seeds"), after, limit)
        return [_factor(row) for row in rows]

    async def reseal(self, factor_id: UUID, before: bytes, after: bytes) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            return await connection.fetchval(statement("factor_reseal"), factor_id, before, after) is not None

    async def suspect(self, factor_id: UUID, *, audit: AuditEntry | None = None) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if await connection.fetchval(statement("factor_suspect"), factor_id) is not None:
                await write_audit(connection, audit)


class FactorSteps(Part):
    """`FactorStepStore` of the port."""

    async def put_recovery(self, user_id: UUID, digests: Sequence[bytes], *, audit: AuditEntry | None = None) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.fetchval(statement("factors_lock"), user_id)
            await connection.execute(statement("recovery_replace"), user_id, list(digests))
            put = await connection.execute(statement("recovery_put"), user_id, list(digests))
            if not put.endswith(" 0"):
                await write_audit(connection, audit)

    async def recovery(self, user_id: UUID) -> RecoveryCodes:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("recovery_found"), user_id)
        return RecoveryCodes(row["left"], row["made_at"])

    async def reset_note(self, user_id: UUID, *, seen: bool) -> FactorReset | None:
        """See the port."""
        async with self._links.pooled(writes=seen) as connection:
            name = "factor_reset_seen" if seen else "factor_reset_found"
            row = await connection.fetchrow(statement(name), user_id)
        return None if row is None else FactorReset(row["at"], row["by"])

    async def begin(self, step: NewStep) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(
                statement("step_begin"),
                step.digest, step.purpose, step.user_id, step.generation, step.challenge, step.seconds,
            )  # fmt: skip
            await connection.execute(statement("steps_forget"), step.user_id, step.purpose, OPEN_STEPS_MAX)

    async def attempt(self, digest: bytes, purpose: StepPurpose) -> FactorStep | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            return _step(await connection.fetchrow(statement("step_attempt"), digest, purpose, TRIES_MAX))

    async def step(self, digest: bytes, purpose: StepPurpose) -> FactorStep | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return _step(await connection.fetchrow(statement("step_found"), digest, purpose, TRIES_MAX))

    async def settle(self, digest: bytes, shown: Shown, *, audit: AuditEntry | None = None) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                settled = await self._settle(connection, digest, shown, audit)
            except BaseException:
                await transaction.rollback()
                raise
            await (transaction.commit() if settled else transaction.rollback())
        return settled

    async def _settle(self, connection: Any, digest: bytes, shown: Shown, audit: AuditEntry | None) -> bool:
        repeated = await connection.fetchval(statement("step_settle"), digest, shown.use_id)
        if repeated is None or repeated:
            return repeated is not None
        if shown.recovery_digest is not None:
            found = await connection.fetchval(
                statement("recovery_use"), shown.user_id, shown.recovery_digest, shown.use_id
            )
        else:
            found = await connection.fetchval(statement("factor_use"), shown.factor_id, shown.counter)
        if found is None:
            return False
        await write_audit(connection, audit)
        return True


def _factor(row: Mapping[str, Any]) -> Factor:
    fields = dict(row)
    text = fields.pop("password_limit")
    limit = None if text is None else json.loads(text)
    return Factor(
        **{**fields, "kind": FactorKind(fields["kind"])},
        password_limit=limit and PasswordLimit(limit["namespace"], frozenset(limit["permissions"])),
    )


def _step(row: Mapping[str, Any] | None) -> FactorStep | None:
    return None if row is None else FactorStep(**{**dict(row), "purpose": StepPurpose(row["purpose"])})
