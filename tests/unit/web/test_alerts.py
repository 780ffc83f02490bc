"""The pages of alerts, channels, notices and rules, and of the links that act."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.alerts import opened
from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tickwise.control.notices.action_links import SKEW_SECONDS, ActionLink, ActionLinkSigner, LinkAction
from tickwise.domain.notices.rules import AlertState, FailuresOf, NoticeEvent, NoticeLine, NoticeState, Severity
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.sessions import PublicKey
from tickwise.ports.store.notices import AlertQuery, NoticeQuery, NotificationRuleQuery, SettledNotice
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.contracts.store.notices.deliveries import notice
from tickwise.testing.factories import Factory
from tickwise.web.views.notices.rules import FIELDS

HOSTILE = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
HOOK = {"name": "on-call", "kind": "webhook", "url": "https://hooks.example.com/very-secret"}
CHOSEN = {"name": "broken", "on_failure": "yes", "on_recovery": "yes", "channels": "on-call", "labels": "team=a"}


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def asked(rig: Rig, method: str, path: str, body: Any = None) -> Any:
    """The answer of the API to an administrator."""
    answer = await rig.here.client.request(method, API + path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


async def rule_of(rig: Rig, **said: Any) -> Any:
    """A stored rule, with its channel."""
    if not await asked(rig, "GET", "/channels"):
        await asked(rig, "POST", "/channels", HOOK)
    body = {"name": "broken", "on": ["failure", "recovery"], "channels": ["on-call"], **said}
    return await asked(rig, "POST", "/notification-rules", body)


async def alert_of(rig: Rig, **said: Any) -> UUID:
    """An open alert of a rule."""
    rule = await rule_of(rig, name=f"rule {uuid4()}")
    return await opened(rig.here.store, UUID(rule["rule_id"]), alert_id=uuid4(), at=rig.here.clock.now(), **said)


async def state_of(rig: Rig, alert: UUID) -> AlertState:
    """The state of an alert."""
    [found] = await rig.here.store.alerts.find(AlertQuery(namespace="default", alert_id=alert))
    return found.state


async def test_all_alerts_that_match_are_decided_at_once(rig: Rig) -> None:
    """They are counted first; what came after that stays open."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    first, second = await alert_of(rig, subject="a"), await alert_of(rig, subject="b")
    page = Markup((await browser.get("/alerts")).text)
    [ask] = [each["href"] for each in page.named("a") if "do=close" in each.get("href", "")]
    asked = Markup((await browser.get(ask)).text)
    assert "2 alerts" in asked.words
    assert "no filter is set" in asked.words
    [until] = [each["value"] for each in asked.named("input") if each.get("name") == "until"]
    late = await alert_of(rig, subject="c", name="late")
    rig.here.store.state.alerts[late].alert = replace(
        rig.here.store.state.alerts[late].alert, last_at=rig.here.clock.now() + 60.0
    )
    answer = await browser.post(ask, {"until": until, "note": "the disk"})
    assert 303 == answer.status_code
    assert "2 alerts are closed." in Markup((await browser.get(answer.headers["location"])).text).words
    assert [AlertState.CLOSED] * 2 == [await state_of(rig, each) for each in (first, second)]
    assert AlertState.OPEN is await state_of(rig, late)
    assert "No alert matches" in Markup((await browser.get("/alerts/all?do=close&subject=nobody")).text).words
    assert 422 == (await browser.get("/alerts/all?do=eat")).status_code
    assert 422 == (await browser.get("/alerts/all?do=close&state=closed")).status_code


async def test_an_alert_is_acknowledged_and_that_is_undone(rig: Rig) -> None:
    """The page says what was done, and has a button that takes it back."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    assert "Nothing is wrong that a rule is about." in Markup((await browser.get("/alerts")).text).words
    alert = await alert_of(rig)
    page = Markup((await browser.get("/alerts")).text)
    assert "nightly" in page.words
    assert "A run failed: exit code 1" in page.words
    answer = await browser.post(f"/alerts/{alert}/acknowledge")
    assert 303 == answer.status_code
    told = Markup((await browser.get(answer.headers["location"])).text)
    assert "nightly is in your hands" in told.words
    assert "in the hands of ops" in told.words
    [undo] = [each["action"] for each in told.named("form") if each.get("action", "").endswith("/reopen")][:1]
    assert AlertState.ACKNOWLEDGED is await state_of(rig, alert)
    assert 303 == (await browser.post(undo)).status_code
    assert AlertState.OPEN is await state_of(rig, alert)


async def test_an_alert_is_snoozed_and_closed(rig: Rig) -> None:
    """A closed one is listed when it is asked for."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    alert = await alert_of(rig)
    assert 303 == (await browser.post(f"/alerts/{alert}/snooze", {"for": "4h"})).status_code
    assert AlertState.SNOOZED is await state_of(rig, alert)
    assert 422 == (await browser.post(f"/alerts/{alert}/snooze", {"for": "3 weeks"})).status_code
    assert 303 == (await browser.post(f"/alerts/{alert}/close")).status_code
    assert "nightly" not in Markup((await browser.get("/alerts")).text).words
    assert "nightly" in Markup((await browser.get("/alerts?state=closed")).text).words
    assert "The rule that opened it" in Markup((await browser.get(f"/alerts/{alert}")).text).words


async def test_open_alerts_come_first_and_stand_on_the_overview(rig: Rig) -> None:
    """One that somebody has in hand is not on it."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    first = await alert_of(rig, subject="job-1", name="alpha")
    await alert_of(rig, subject="job-2", name="beta")
    for name in ("alpha", "beta"):
        assert name in Markup((await browser.get("/")).text).words
    await browser.post(f"/alerts/{first}/acknowledge")
    words = Markup((await browser.get("/")).text).words
    assert "alpha" not in words.partition("Open alerts")[2]
    assert ("One alert is open: beta." in words, "One alert is acknowledged, and not over: alpha." in words) == (
        True,
        True,
    )
    listed = Markup((await browser.get("/alerts")).text).words
    assert listed.index("beta") < listed.index("alpha")


async def test_a_viewer_sees_alerts_and_decides_nothing(rig: Rig) -> None:
    """No form of theirs does."""
    alert = await alert_of(rig)
    viewer = await rig.signed_in("viewer", ("viewer", "default"))
    page = Markup((await viewer.get("/alerts")).text)
    assert "nightly" in page.words
    assert [] == [each for each in page.named("form") if "/alerts/" in each.get("action", "")]
    assert 403 == (await viewer.post(f"/alerts/{alert}/close")).status_code


async def test_a_channel_is_made_and_its_secret_is_shown_once(rig: Rig) -> None:
    """By an administrator; its address is not shown again."""
    admin = await rig.signed_in("root", ("admin", "default"))
    assert "There is no channel yet" in Markup((await admin.get("/channels")).text).words
    answer = await admin.post("/channels", HOOK)
    assert 200 == answer.status_code
    found = re.search(r"whsec_[A-Za-z0-9+/=]+", answer.text)
    assert found is not None
    again = (await admin.get("/channels")).text
    assert "whsec_" not in again
    assert "very-secret" not in again
    assert "https://hooks.example.com/" in again
    developer = await rig.signed_in("dev", ("developer", "default"))
    assert "New channel" not in (await developer.get("/channels")).text
    assert 403 == (await developer.post("/channels", {**HOOK, "name": "x"})).status_code


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"name": ""}, "name"),
        ({"url": "ftp://x"}, "url"),
        ({"kind": "pigeon"}, "kind"),
        ({"kind": "email", "to": "nobody", "from": "a@example.com", "url": "smtp://mail.example.com"}, "to"),
        ({"url": "http://127.0.0.1/", "allow_private": "yes"}, "allow_private"),
    ],
)
async def test_a_fault_of_a_channel_stands_at_its_field(rig: Rig, said: dict[str, str], field: str) -> None:
    """With what was typed."""
    admin = await rig.signed_in("root", ("admin", "default"))
    answer = await admin.post("/channels", {**HOOK, **said})
    assert answer.status_code in (403, 422)
    page = Markup(answer.text)
    assert [each for each in page.named("span") if each.get("id") == f"fault-{field}"], answer.text
    assert [] == await rig.here.store.channels.find("default")


async def test_a_channel_is_tested_and_removed(rig: Rig) -> None:
    """The page tells what became of the test; a removal asks first."""
    admin = await rig.signed_in("root", ("admin", "default"))
    channel = (await asked(rig, "POST", "/channels", HOOK))["channel_id"]
    sent = (await asked(rig, "POST", f"/channels/{channel}/test"))["notice_id"]
    [taken] = (await rig.here.store.notices.due("sender", 10)).notices
    await rig.here.store.notices.settle("sender", [SettledNotice(taken.notice_id, NoticeState.DEAD, error="410 Gone")])
    page = Markup((await admin.get(f"/channels?test={sent}")).text)
    assert "The test of on-call was not delivered: 410 Gone." in page.words
    one = Markup((await admin.get(f"/notices/{sent}")).text)
    assert "It could not be delivered." in one.words
    assert 303 == (await admin.post(f"/notices/{sent}/send-again")).status_code
    [notice] = await rig.here.store.notices.find(NoticeQuery(namespace="default"))
    assert NoticeState.WAITING is notice.state
    assert 422 == (await admin.post(f"/channels/{channel}/remove")).status_code
    assert 303 == (await admin.post(f"/channels/{channel}/remove", {"confirm": "yes"})).status_code
    assert [] == await rig.here.store.channels.find("default")


async def test_a_channel_that_rests_says_so_and_is_tried_now(rig: Rig) -> None:
    """Until when, after how many tries, why, and what waits; the button is there for those who may."""
    admin = await rig.signed_in("root", ("admin", "default"))
    channel = (await asked(rig, "POST", "/channels", HOOK))["channel_id"]
    assert "Try now" not in (await admin.get("/channels")).text
    [stored] = await rig.here.store.channels.find("default")
    make = Factory(rig.here.clock.now(), seed="rests")
    await rig.here.store.notices.add(notice(make, stored, rule_id=make.identifier(), events=1_200))
    [held] = (await rig.here.store.notices.due("sender", 9)).notices
    away = SettledNotice(held.notice_id, NoticeState.WAITING, "<b>503", 90.0, rest_seconds=60.0)
    await rig.here.store.notices.settle("sender", [away])
    page = Markup((await admin.get("/channels")).text)
    assert "after 1 failed try" in page.words
    assert "1 notice waits, with 1 200 events" in page.words
    assert "<b>503" in page.words
    viewer = await rig.signed_in("viewer", ("viewer", "default"))
    assert "Try now" not in (await viewer.get("/channels")).text
    assert 403 == (await viewer.post(f"/channels/{channel}/try-now")).status_code
    assert 303 == (await admin.post(f"/channels/{channel}/try-now")).status_code
    assert "Try now" not in (await admin.get("/channels?done=tried")).text
    assert [held.notice_id] == [each.notice_id for each in (await rig.here.store.notices.due("sender", 9)).notices]


async def test_a_rule_is_looked_at_before_it_is_stored(rig: Rig) -> None:
    """The preview changes nothing; its form stores the rule."""
    await asked(rig, "POST", "/channels", HOOK)
    await asked(rig, "POST", "/jobs", {"name": "nightly", "every": "1h", "labels": {"team": "a"}})
    browser = await rig.signed_in("dev", ("developer", "default"))
    assert "nobody is told when a job fails" in Markup((await browser.get("/notification-rules")).text).words
    page = Markup((await browser.get("/notification-rules/new?" + urlencode(CHOSEN))).text)
    assert "Nothing is stored yet." in page.words
    assert "nightly" in page.words
    find = NotificationRuleQuery(namespace="default")
    assert [] == await rig.here.store.notification_rules.find(find)
    fields = {each["name"]: each["value"] for each in page.named("input") if each.get("type") == "hidden"}
    assert 303 == (await browser.post("/notification-rules", fields)).status_code
    [rule] = await rig.here.store.notification_rules.find(find)
    assert ("broken", {"team": "a"}, "dev") == (rule.name, rule.labels, rule.created_by)
    words = Markup((await browser.get("/notification-rules?done=stored")).text).words
    assert "The rule is stored." in words
    assert "failure, recovery" in words
    assert 303 == (await browser.post(f"/notification-rules/{rule.rule_id}/switch", {"enabled": "no"})).status_code
    [rule] = await rig.here.store.notification_rules.find(find)
    assert not rule.enabled
    assert 422 == (await browser.post(f"/notification-rules/{rule.rule_id}/remove")).status_code
    assert 303 == (await browser.post(f"/notification-rules/{rule.rule_id}/remove", {"confirm": "yes"})).status_code
    assert [] == await rig.here.store.notification_rules.find(find)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"channels": "pager"}, "channels"),
        ({"labels": "team"}, "labels"),
        ({"jobs": "no such job"}, "jobs"),
        ({"after": "10m"}, "after"),
        ({"in_a_row": "many"}, "in_a_row"),
        ({"quiet_from": "22:00"}, "quiet_to"),
        ({"quiet_from": "22:00", "quiet_to": "07:00", "quiet_zone": "Mars"}, "quiet_zone"),
        ({"escalate_after": "30m", "escalate_channels": "boss"}, "escalate_channels"),
        ({"escalate_after": "a while", "escalate_channels": "on-call"}, "escalate_after"),
        ({"repeat": "1s"}, "repeat"),
        ({"severity": "awful"}, "severity"),
        ({"on_success": "yes"}, "labels"),
        ({"on_success": "yes", "labels": ""}, "jobs"),
    ],
)
async def test_a_fault_of_a_rule_stands_at_its_field(rig: Rig, said: dict[str, str], field: str) -> None:
    """By the preview as by the rule itself, with what was typed."""
    await asked(rig, "POST", "/channels", HOOK)
    browser = await rig.signed_in("dev", ("developer", "default"))
    chosen = {**CHOSEN, **said}
    for answer in (
        await browser.get("/notification-rules/new?" + urlencode(chosen)),
        await browser.post("/notification-rules", chosen),
    ):
        assert 422 == answer.status_code, answer.text
        page = Markup(answer.text)
        assert [each for each in page.named("span") if each.get("id") == f"fault-{field}"], answer.text
        assert "broken" in {each.get("value") for each in page.named("input")}
    assert [] == await rig.here.store.notification_rules.find(NotificationRuleQuery(namespace="default"))


async def test_a_rule_is_changed_on_its_page(rig: Rig) -> None:
    """Its fields come filled in, and one that is emptied is taken away. What the form does not have stays: a share of
    failures, the days of quiet hours, whether it is on. Who may only look is offered no change."""
    for name in ("on-call", "boss"):
        await asked(rig, "POST", "/channels", {**HOOK, "name": name})
    job = (await asked(rig, "POST", "/jobs", {"name": "nightly", "every": "1h"}))["job_id"]
    made = await asked(rig, "POST", "/notification-rules", {
        "name": "broken", "on": ["failure"], "channels": ["on-call"], "jobs": ["nightly"], "labels": {"team": "a"},
        "repeat": "4h", "failures_of": {"failures": 3, "runs": 10}, "enabled": False,
        "quiet": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin", "days": ["mon", "tue"]},
        "escalate": {"after": "30m", "channels": ["boss"]},
    })  # fmt: skip
    rule_id = made["rule_id"]
    browser = await rig.signed_in("dev", ("developer", "default"))
    page = Markup((await browser.get(f"/notification-rules?rule={rule_id}")).text)
    filled = {
        each["name"]: "yes" if each.get("type") == "checkbox" else each.get("value") or ""
        for each in page.named("input")
        if each.get("name") in FIELDS and (each.get("type") != "checkbox" or "checked" in each)
    }
    assert {
        "name": "broken", "on_failure": "yes", "channels": "on-call", "jobs": job, "labels": "team=a", "repeat": "4h",
        "quiet_from": "22:00", "quiet_to": "07:00", "quiet_zone": "Europe/Berlin", "escalate_after": "30m",
        "escalate_channels": "boss", "rule": rule_id, "group": "5m", "after": "", "in_a_row": "", "attempts": "",
    } == filled  # fmt: skip
    changed = {**filled, "name": "flaky", "repeat": "", "labels": "", "quiet_from": "23:00", "severity": "critical"}
    answer = await browser.get("/notification-rules/new?" + urlencode({**changed, "severity": "warning"}))
    page = Markup(answer.text)
    assert ("Nothing is changed yet." in page.words, "Change the rule flaky?" in page.words) == (True, True)
    fields = {each["name"]: each["value"] for each in page.named("input") if each.get("type") == "hidden"}
    assert 422 == (await browser.post(f"/notification-rules/{rule_id}/change", changed)).status_code
    assert 303 == (await browser.post(f"/notification-rules/{rule_id}/change", fields)).status_code
    [rule] = await rig.here.store.notification_rules.find(NotificationRuleQuery(namespace="default"))
    assert ("flaky", None, {}, (UUID(job),), False) == (
        rule.name, rule.repeat_seconds, rule.labels, rule.jobs, rule.enabled,
    )  # fmt: skip
    assert rule.quiet is not None
    assert (23 * 60, frozenset({0, 1}), FailuresOf(3, 10)) == (rule.quiet.begin, rule.quiet.weekdays, rule.failures_of)
    viewer = await rig.signed_in("viewer", ("viewer", "default"))
    assert "Edit broken" not in (await viewer.get("/notification-rules")).text
    assert 403 == (await viewer.post(f"/notification-rules/{rule_id}/change", fields)).status_code


async def test_a_rule_about_successes_is_looked_at_and_stored(rig: Rig) -> None:
    """With the jobs that it names; the page of such a job says who is told of what."""
    await asked(rig, "POST", "/channels", HOOK)
    job = (await asked(rig, "POST", "/jobs", {"name": "nightly", "every": "1h"}))["job_id"]
    browser = await rig.signed_in("dev", ("developer", "default"))
    chosen = {"name": "beat", "on_success": "yes", "channels": "on-call", "jobs": "nightly"}
    page = Markup((await browser.get("/notification-rules/new?" + urlencode(chosen))).text)
    fields = {each["name"]: each["value"] for each in page.named("input") if each.get("type") == "hidden"}
    assert 303 == (await browser.post("/notification-rules", fields)).status_code
    [rule] = await rig.here.store.notification_rules.find(NotificationRuleQuery(namespace="default"))
    assert ([NoticeEvent.SUCCESS], [UUID(job)]) == ([*rule.on], [*rule.jobs])
    words = Markup((await browser.get(f"/jobs/{job}")).text).words
    assert "beat" in words


async def test_the_page_of_a_job_says_who_is_told(rig: Rig) -> None:
    """By rules that concern it, and by itself."""
    browser = await rig.signed_in("dev", ("developer", "default"))
    job = (await asked(rig, "POST", "/jobs", {"name": "a", "every": "1h", "labels": {"team": "a"}}))["job_id"]
    assert "Nobody is told when this job fails" in Markup((await browser.get(f"/jobs/{job}")).text).words
    await rule_of(rig, labels={"team": "a"})
    await rule_of(rig, name="a rule about b", labels={"team": "b"})
    await asked(rig, "PATCH", f"/jobs/{job}", {"notify": ["on-call"]})
    words = Markup((await browser.get(f"/jobs/{job}")).text).words
    assert "Who is told The job itself: on-call" in words
    assert "broken" in words
    assert "failure, recovery on-call" in words
    assert "a rule about b" not in words


async def test_no_text_of_a_notice_becomes_markup(rig: Rig) -> None:
    """Names of jobs, notes and rules, on each page."""
    admin = await rig.signed_in("root", ("admin", "default"))
    alert = await alert_of(rig, name=HOSTILE)
    await rule_of(rig, name=HOSTILE)
    await admin.post(f"/alerts/{alert}/acknowledge", {"note": HOSTILE})
    for path in ("/", "/alerts", f"/alerts/{alert}", "/notification-rules", "/channels"):
        text = (await admin.get(path)).text
        assert "<script>alert" not in text, path
        assert "<img" not in text, path


# ------------------------------------------------------------------------------------------ links that act


async def token_of(rig: Rig, action: LinkAction, subject: UUID, *, age: float = 0.0) -> str:
    """The token of a link, signed `age` seconds ago with a key that the installation knows."""
    private = Ed25519PrivateKey.generate()
    key_id = str(uuid4())
    public = private.public_key().public_bytes_raw()
    await rig.here.store.sessions.publish(PublicKey(key_id=key_id, public=public, created_at=0.0, retired_at=None))
    clock = ShiftedClock()
    clock.shift(-age)
    signer = ActionLinkSigner(key_id, private, rig.here.store.upkeep.cluster_id, clock)
    return signer.make(ActionLink(action, "default", subject, uuid4()))


async def test_a_link_asks_before_it_acknowledges(rig: Rig) -> None:
    """Following it changes nothing; its button does, once, and it is on record."""
    alert = await alert_of(rig)
    token = await token_of(rig, LinkAction.ACKNOWLEDGE, alert)
    nobody: Browser = rig.browser()
    page = Markup((await nobody.get(f"/act/{token}")).text)
    assert "Acknowledge this? nightly a run failed: exit code 1" in page.words
    assert AlertState.OPEN is await state_of(rig, alert)
    done = Markup((await nobody.post(f"/act/{token}")).text)
    assert "It is acknowledged" in done.words
    assert AlertState.ACKNOWLEDGED is await state_of(rig, alert)
    assert "nothing was changed" in Markup((await nobody.post(f"/act/{token}")).text).words
    rows = await rig.here.store.audit.find(AuditQuery(namespace="default", limit=50))
    [entry] = [row for row in rows if row.action == "alert.acknowledged"]
    assert ("link of a notice", str(alert)) == (entry.source.name, entry.target)


async def test_a_link_does_not_outlive_the_decision_of_a_person(rig: Rig) -> None:
    """An alert that a person opened again or snoozed is not acknowledged by an older link; by a newer one it is."""
    alert = await alert_of(rig)
    token = await token_of(rig, LinkAction.ACKNOWLEDGE, alert, age=SKEW_SECONDS + 1.0)
    nobody: Browser = rig.browser()
    await nobody.post(f"/act/{token}")
    for state, said in ((AlertState.OPEN, "reopen"), (AlertState.SNOOZED, "snooze")):
        await asked(rig, "POST", f"/alerts/{alert}/{said}", {"for": "10m"} if said == "snooze" else {})
        for answer in (await nobody.get(f"/act/{token}"), await nobody.post(f"/act/{token}")):
            assert 409 == answer.status_code
            words = Markup(answer.text).words
            assert "Nothing was done" in words
            assert "decided about this alert after the link was sent" in words
        assert state is await state_of(rig, alert)
    newer = await token_of(rig, LinkAction.ACKNOWLEDGE, alert)
    assert "It is acknowledged" in Markup((await nobody.post(f"/act/{newer}")).text).words


async def test_a_link_that_is_none_says_so(rig: Rig) -> None:
    """Changed, of another place, or about something that is gone: nothing is done."""
    alert = await alert_of(rig)
    token = await token_of(rig, LinkAction.ACKNOWLEDGE, alert)
    gone = await token_of(rig, LinkAction.ACKNOWLEDGE, uuid4())
    nobody = rig.browser()
    for wrong, status in ((token[:-6] + "AAAAAA", 401), ("nonsense", 401), (gone, 404)):
        for answer in (await nobody.get(f"/act/{wrong}"), await nobody.post(f"/act/{wrong}")):
            assert status == answer.status_code
            assert "Nothing was done" in Markup(answer.text).words
    assert AlertState.OPEN is await state_of(rig, alert)
    assert 403 == (await nobody.post(f"/act/{token}", None, **{"Sec-Fetch-Site": "cross-site"})).status_code
    assert AlertState.OPEN is await state_of(rig, alert)


async def test_the_page_of_an_alert_says_who_was_told_of_it(rig: Rig) -> None:
    """Each notice that names it stands there with its channel, its state and its error; those of others do not."""
    stored = await rule_of(rig)
    rule, alert = UUID(stored["rule_id"]), uuid4()
    await opened(rig.here.store, rule, alert_id=alert, at=rig.here.clock.now())
    [channel] = await rig.here.store.channels.find("default")
    line = NoticeLine(1.0, NoticeEvent.FAILURE, Severity.WARNING, "job-1", "nightly", None, "a run failed", alert)
    make = Factory(rig.here.clock.now())
    mine = notice(make, channel, rule_id=rule, lines=[line], state=NoticeState.DEAD, error="410 Gone")
    other = notice(make, channel, rule_id=rule, lines=[line._replace(alert_id=uuid4())])
    browser = await rig.signed_in("ops", ("operator", "default"))
    assert "No notice names this alert yet" in Markup((await browser.get(f"/alerts/{alert}")).text).words
    for each in (mine, other):
        await rig.here.store.notices.add(each)
    page = Markup((await browser.get(f"/alerts/{alert}")).text)
    links = [each["href"] for each in page.named("a") if each.get("href", "").startswith("/notices/")]
    assert [f"/notices/{mine.notice_id}"] == [each.partition("?")[0] for each in links]
    assert all(each in page.words for each in ("Who was told", "on-call", "dead", "410 Gone"))


async def test_the_overview_names_a_job_once_however_many_alerts_it_has(rig: Rig) -> None:
    """Two rules that see one job are one line, which leads to all alerts of the job."""
    for subject in ("job-1", "job-1", "job-2"):
        await alert_of(rig, subject=subject, name=f"name of {subject}")
    browser = await rig.signed_in("ops", ("operator", "default"))
    page = Markup((await browser.get("/")).text)
    alerts = [each["href"] for each in page.named("a") if each.get("href", "").startswith("/alerts/")]
    assert 2 == len(alerts)
    assert "all 2 alerts of it" in page.words
    assert any("subject=job-1" in each.get("href", "") for each in page.named("a"))
