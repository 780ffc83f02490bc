"""Notes keys and certificates that end soon, for notification rules about `expiring`.

    schedulers        each hour: keys that end within 30 days ──────► event in the namespaces of the key
    processes with TLS, each hour: the certificate in force ────────► event of the installation
    it was revoked, or replaced ────────────────────────────────────► recovery, which closes the alert

Invariant: an event has the name of its thing, its end and its threshold; so it is noted once, however many processes
look, and at each threshold again. Only rules that are there are told: without one nothing is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.callers import INSTALLATION
from tickwise.domain.notices.messages import length_text, time_text
from tickwise.domain.notices.rules import NoticeEvent
from tickwise.ports.store import AlertStore, EndingKey, NotedEvent, NotificationRuleQuery, NotificationRuleStore, Store

THRESHOLD_DAYS: Final = (1, 7, 30)
LOOK_SECONDS: Final = 3_600.0
PAGE: Final = 500
DAY_SECONDS: Final = 86_400.0


class ExpiringThing(NamedTuple):
    """A key or a certificate that has an end."""

    subject: str
    """`key/ID` or `certificate/NAME`."""
    name: str
    what: str
    """`the API key` or `the certificate`."""
    ends_at: float
    advice: str
    """The end of its sentence: what to do."""


def threshold(seconds_left: float) -> int | None:
    """The least of `THRESHOLD_DAYS` that a thing is within; None: it has longer, or has ended."""
    if seconds_left <= 0:
        return None
    return next((days for days in THRESHOLD_DAYS if seconds_left <= days * DAY_SECONDS), None)


def expiry_event(namespace: str, thing: ExpiringThing, now: float) -> NotedEvent | None:
    """The event of a thing that ends within a threshold."""
    left = thing.ends_at - now
    days = threshold(left)
    if days is None:
        return None
    said = f"{thing.what} ends in {length_text(left)}, at {time_text(thing.ends_at)}: {thing.advice}"
    once = f"{thing.subject}/{thing.ends_at:.0f}/{days}"
    return NotedEvent(namespace, NoticeEvent.EXPIRING, once, thing.subject, thing.name, said)


async def namespaces_asking(rules: NotificationRuleStore, namespace: str | None = None) -> frozenset[str]:
    """The namespaces, or this one, with an enabled rule about `expiring`."""
    found = await rules.find(NotificationRuleQuery(namespace=namespace))
    return frozenset(rule.namespace for rule in found if rule.enabled and NoticeEvent.EXPIRING in rule.on)


class KeyExpiryWatch:
    """The looks of one scheduler at keys that end."""

    def __init__(self, store: Store) -> None:
        self._delays = store.delays
        self._rules = store.notification_rules
        self._alerts = store.alerts
        self._store = store

    async def step(self) -> float:
        """Look at all keys that end within the longest threshold, a page at a time; how long until the next look."""
        asking = await namespaces_asking(self._rules)
        if not asking:
            return LOOK_SECONDS
        after: tuple[float, UUID] | None = None
        while True:
            rows = await self._delays.keys_ending(max(THRESHOLD_DAYS) * DAY_SECONDS, after=after, limit=PAGE)
            await self._note(rows, asking, await self._store.now())
            if len(rows) < PAGE:
                return LOOK_SECONDS
            after = (rows[-1].ends_at, rows[-1].key_id)

    async def _note(self, rows: Sequence[EndingKey], asking: frozenset[str], now: float) -> None:
        noted = list[NotedEvent]()
        for row in rows:
            for namespace in row.namespaces & asking:
                thing = _of_key(row)
                if not row.is_revoked:
                    event = expiry_event(namespace, thing, now)
                    noted += [] if event is None else [event]
                else:
                    noted += await over(self._alerts, namespace, thing, "the API key was revoked")
        await self._alerts.note(noted)


class CertificateExpiry:
    """The looks of one process at the certificate that it serves with."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def look(self, name: str, ends_at: float) -> None:
        """Note that it ends soon, or that it was replaced by one that does not."""
        if not await namespaces_asking(self._store.notification_rules, INSTALLATION):
            return
        advice = "put another one into its place, which is served without a restart"
        thing = ExpiringThing(f"certificate/{name}", name, "the certificate", ends_at, advice)
        event = expiry_event(INSTALLATION, thing, await self._store.now())
        if event is not None:
            await self._store.alerts.note([event])
            return
        said = f"the certificate was replaced; this one ends at {time_text(ends_at)}"
        await self._store.alerts.note(await over(self._store.alerts, INSTALLATION, thing, said))


async def over(alerts: AlertStore, namespace: str, thing: ExpiringThing, said: str) -> list[NotedEvent]:
    """The recovery of a thing of which an alert stands."""
    if not await alerts.standing(namespace, [thing.subject]):
        return []
    once = f"{thing.subject}/{thing.ends_at:.0f}/over"
    return [NotedEvent(namespace, NoticeEvent.RECOVERY, once, thing.subject, thing.name, said)]


def _of_key(row: EndingKey) -> ExpiringThing:
    advice = "make another key, and give it to the programs that use this one"
    return ExpiringThing(f"key/{row.key_id}", row.name, "the API key", row.ends_at, advice)
