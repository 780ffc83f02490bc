"""Sign-ins of devices without a browser."""

from __future__ import annotations

from uuid import UUID

from tickwise.adapters.store.memory.records import DeviceSignInRecord
from tickwise.adapters.store.memory.state import Duty
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


class DeviceSignIns(Duty):
    """`DeviceSignInStore` of the port."""

    async def begin(self, request: NewDeviceSignIn) -> BegunDeviceSignIn:
        records, now = self._state.device_sign_ins, self._state.now()
        for device_id, each in [*records.items()]:
            if each.expires_at + KEPT_SECONDS < now:
                del records[device_id]
        if request.device_id in records:
            return BegunDeviceSignIn.BEGUN
        if any(each.request.user_code == request.user_code for each in records.values()):
            return BegunDeviceSignIn.CODE_TAKEN
        if len(records) >= MAX_DEVICE_SIGN_INS:
            return BegunDeviceSignIn.FULL
        records[request.device_id] = DeviceSignInRecord(
            request=request,
            created_at=now,
            expires_at=now + request.seconds,
            interval_seconds=request.interval_seconds,
        )
        return BegunDeviceSignIn.BEGUN

    async def find(self, user_code: str) -> DeviceSignIn | None:
        now = self._state.now()
        for each in self._state.device_sign_ins.values():
            request = each.request
            if request.user_code == user_code and each.approved is None and each.expires_at > now:
                return DeviceSignIn(
                    device_id=request.device_id,
                    user_code=user_code,
                    client=request.client,
                    address=request.address,
                    scope=request.scope,
                    namespace=request.namespace,
                    created_at=each.created_at,
                    seconds_left=each.expires_at - now,
                )
        return None

    async def decide(
        self, device_id: UUID, *, user_id: UUID, generation: int, approved: bool, audit: AuditEntry | None = None
    ) -> bool:
        found = self._state.device_sign_ins.get(device_id)
        if found is None or found.expires_at <= self._state.now():
            return False
        if found.approved is not None:
            return (found.approved, found.user_id) == (approved, user_id)
        found.approved, found.user_id, found.generation = approved, user_id, generation
        self._state.audit.write(audit)
        return True

    async def poll(self, digest: bytes, *, family: UUID) -> Polled:
        every, now = self._state.device_sign_ins.values(), self._state.now()
        found = next((each for each in every if each.request.digest == digest), None)
        if found is None or found.family not in (None, family):
            return Polled(Poll.UNKNOWN)
        if found.approved is False:
            return Polled(Poll.DENIED)
        if found.expires_at <= now and found.family is None:
            return Polled(Poll.EXPIRED)
        if found.approved:
            found.family = family
            request = found.request
            return Polled(Poll.APPROVED, found.user_id, found.generation, request.scope, request.namespace)
        is_early = found.polled_at is not None and now < found.polled_at + found.interval_seconds
        found.polled_at = now
        if is_early:
            found.interval_seconds += SLOW_DOWN_SECONDS
        return Polled(Poll.SLOW_DOWN if is_early else Poll.PENDING)
