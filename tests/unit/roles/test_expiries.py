"""Keys and certificates that end soon: told at each threshold, once, and that it is over."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

import pytest

from tests.unit.roles.rig import drive
from tests.unit.roles.test_alerting import Night
from tickwise.domain.model import Principal
from tickwise.domain.notices.judging import PAUSES
from tickwise.domain.notices.rules import INSTALLATION, AlertState, NoticeEvent
from tickwise.ports.identity import NewKey
from tickwise.roles.shared import expiries
from tickwise.roles.shared.expiries import DAY_SECONDS, LOOK_SECONDS, CertificateExpiry, KeyExpiryWatch, threshold

EXPIRING = frozenset({NoticeEvent.EXPIRING, NoticeEvent.RECOVERY})


@pytest.mark.parametrize(
    ("days", "expected"),
    [(31.0, None), (30.0, 30), (7.1, 30), (7.0, 7), (1.01, 7), (0.5, 1), (0.0, None), (-1.0, None)],
)
def test_a_threshold_is_the_least_that_it_is_within(days: float, expected: int | None) -> None:
    """In days."""
    assert expected == threshold(days * DAY_SECONDS)


async def key(night: Night, name: str, days: float | None, **fields: Any) -> UUID:
    """A key that ends in so many days."""
    ends_at = None if days is None else night.rig.clock.now() + days * DAY_SECONDS
    key_id = night.make.identifier()
    made = NewKey(
        key_id=key_id,
        digest=hashlib.sha256(name.encode()).digest(),
        principal=Principal(name, "default", frozenset({"jobs:read"}), expires_at=ends_at),
        **fields,
    )
    assert await night.store.keys.add(made)
    return key_id


async def told(night: Night) -> list[tuple[NoticeEvent, str, str]]:
    """What is sent now."""
    await night.judge()
    return [(line.event, line.subject_name, line.sentence) for each in night.send() for line in each.lines]


async def test_a_key_is_told_of_at_each_threshold_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two schedulers look each hour; a key without an end, and one that ends later, is told of by nobody."""
    monkeypatch.setattr(expiries, "PAGE", 1)
    night = Night()
    await night.rule(on=EXPIRING)
    await key(night, "ends", 32.0)
    await key(night, "lasts", None)
    await key(night, "later", 400.0)
    watches = [KeyExpiryWatch(night.store) for _ in range(2)]
    found = []
    for hour in range(34 * 24):
        for watch in watches:
            assert LOOK_SECONDS == await watch.step()
        if said := await told(night):
            found.append((hour / 24, said))
        await night.rig.clock.advance(LOOK_SECONDS)
    assert [(2.0, 1), (25.0, 1), (31.0, 1)] == [(day, len(said)) for day, said in found]
    assert [(NoticeEvent.EXPIRING, "ends")] * 3 == [said[0][:2] for _, said in found]
    assert found[1][1][0][2].startswith("the API key ends in 7 d, at 2027-02-16 08:00:00 UTC: make another key")
    [alert] = await night.alerts()
    assert (AlertState.OPEN, 3) == (alert.state, alert.events)


async def test_without_a_rule_about_it_nothing_is_noted() -> None:
    """A rule that comes later is told what is true then."""
    night = Night()
    await night.rule()
    await key(night, "ends", 5.0)
    watch = KeyExpiryWatch(night.store)
    await watch.step()
    assert {} == night.store.state.noted_once
    await night.rule("keys", on=EXPIRING)
    await watch.step()
    assert [(NoticeEvent.EXPIRING, "ends")] == [each[:2] for each in await told(night)]


async def test_a_key_that_is_revoked_closes_its_alert() -> None:
    """And that is told. One for all namespaces is an affair of the installation, too."""
    night = Night()
    await night.rule(on=EXPIRING)
    await night.rule("all", namespace=INSTALLATION, on=EXPIRING)
    key_id = await key(night, "everywhere", 5.0, namespaces=frozenset({INSTALLATION}))
    watch = KeyExpiryWatch(night.store)
    await watch.step()
    assert 2 == len(await told(night))
    await night.store.keys.revoke(None, key_id)
    await night.rig.clock.advance(PAUSES[0][1])
    await watch.step()
    assert [(NoticeEvent.RECOVERY, "everywhere", "the API key was revoked")] * 2 == await told(night)
    for namespace in ("default", INSTALLATION):
        assert [AlertState.CLOSED] == [each.state for each in await night.alerts(namespace=namespace)]
    await watch.step()
    assert [] == await told(night)


async def test_a_certificate_is_told_of_and_that_it_was_replaced() -> None:
    """Once by all processes that serve with it."""
    night = Night()
    await night.rule("certificates", namespace=INSTALLATION, on=EXPIRING)
    now = night.rig.clock.now()
    for _ in range(2):
        await CertificateExpiry(night.store).look("tickwise.example.com", now + 5 * DAY_SECONDS)
    [(event, name, sentence)] = await told(night)
    assert (NoticeEvent.EXPIRING, "tickwise.example.com") == (event, name)
    assert sentence.startswith("the certificate ends in 5 d, at 2027-01-20 08:00:00 UTC: put another one")
    await night.rig.clock.advance(PAUSES[0][1])
    for _ in range(2):
        await CertificateExpiry(night.store).look("tickwise.example.com", now + 90 * DAY_SECONDS)
    assert [NoticeEvent.RECOVERY] == [event for event, *_ in await told(night)]
    assert [AlertState.CLOSED] == [each.state for each in await night.alerts(namespace=INSTALLATION)]


async def test_a_scheduler_looks_in_its_round() -> None:
    """Beside its other duties."""
    night = Night()
    await night.rule(on=EXPIRING)
    await key(night, "ends", 5.0)
    await drive(night.rig.clock, night.rig.scheduler().tick())
    assert [(NoticeEvent.EXPIRING, "ends")] == [each[:2] for each in await told(night)]
