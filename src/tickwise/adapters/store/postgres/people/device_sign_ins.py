"""Sign-ins of devices without a browser."""

from __future__ import annotations

from uuid import UUID

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.device_sign_ins import (
    KEPT_SECONDS,
    MAX_DEVICE_SIGN_INS,
    SLOW_DOWN_SECONDS,
    BegunDeviceSignIn,
    DeviceSignIn,
    NewDeviceSignIn,
    Poll,
    Polled,
)


class DeviceSignIns(Part):
    """`DeviceSignInStore` of the port."""

    async def begin(self, request: NewDeviceSignIn) -> BegunDeviceSignIn:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("device_sign_ins_forget"), KEPT_SECONDS)
            begun = await connection.fetchval(
                statement("device_sign_in_begin"),
                request.device_id, request.digest, request.user_code, request.client, request.address,
                None if request.scope is None else sorted(request.scope), request.namespace, request.seconds,
                request.interval_seconds, MAX_DEVICE_SIGN_INS,
            )  # fmt: skip
            if begun:
                return BegunDeviceSignIn.BEGUN
            found = await connection.fetchrow(statement("device_sign_in_stands"), request.device_id, request.user_code)
        if found["is_same"]:
            return BegunDeviceSignIn.BEGUN
        return BegunDeviceSignIn.CODE_TAKEN if found["is_taken"] else BegunDeviceSignIn.FULL

    async def find(self, user_code: str) -> DeviceSignIn | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("device_sign_in_find"), user_code)
        if row is None:
            return None
        scope = row["scope"]
        return DeviceSignIn(**{**dict(row), "scope": None if scope is None else frozenset(scope)})

    async def decide(
        self, device_id: UUID, *, user_id: UUID, generation: int, approved: bool, audit: AuditEntry | None = None
    ) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            decided = await connection.fetchval(
                statement("device_sign_in_decide"), device_id, user_id, generation, approved
            )
            if decided:
                await write_audit(connection, audit)
                return True
            same: bool = await connection.fetchval(statement("device_sign_in_is_decided"), device_id, user_id, approved)
        return same

    async def poll(self, digest: bytes, *, family: UUID) -> Polled:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            row = await connection.fetchrow(statement("device_sign_in_to_poll"), digest)
            if row is None or row["family"] not in (None, family):
                return Polled(Poll.UNKNOWN)
            if row["approved"] is False:
                return Polled(Poll.DENIED)
            if row["is_over"] and row["family"] is None:
                return Polled(Poll.EXPIRED)
            if row["approved"]:
                await connection.execute(statement("device_sign_in_use"), digest, family)
                scope = row["scope"]
                return Polled(
                    Poll.APPROVED, row["user_id"], row["generation"], None if scope is None else frozenset(scope),
                    row["namespace"],
                )  # fmt: skip
            is_early = bool(row["is_early"])
            await connection.execute(statement("device_sign_in_polled"), digest, SLOW_DOWN_SECONDS if is_early else 0.0)
        return Polled(Poll.SLOW_DOWN if is_early else Poll.PENDING)
