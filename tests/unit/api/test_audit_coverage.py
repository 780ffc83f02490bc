"""Each route that changes something leaves an entry in the audit log, with the caller and the place in it.

The list of routes is that of the API: a new one without a line in `CHANGES` fails here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

import pyotp
import pytest

from tests.support.alerts import opened
from tests.support.app import API
from tests.support.people import OTHER_PASSWORD, PASSWORD, signed_in, signing_key
from tests.support.scene import Scene, scene
from tickwise.api.resources import RESOURCES
from tickwise.domain.audit import AuditAction, CallerKind
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.rules import NoticeState
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.ports.audit import AuditQuery, AuditRow
from tickwise.ports.identity.factors import FactorKind, NewFactor
from tickwise.ports.store.notices import SettledNotice
from tickwise.roles.scheduler.error_folding import ErrorFolding

CHANGING: Final = sorted(each.name for each in RESOURCES if each.method != "GET" and not each.previews)

Prepare = Callable[[Scene], Awaitable[dict[str, str]]]


class Change(NamedTuple):
    """A request that changes something, and the action of its entry."""

    action: AuditAction
    body: Any = None
    prepare: Prepare | None = None
    """Makes the things that it is about; the ids for its path, or for `{…}` in its body."""
    script: bool = False
    """The body is a file."""
    as_person: bool = False
    """A person asks who has signed in."""
    query: str = ""
    """The parameters of its address."""


async def _job(here: Scene) -> dict[str, str]:
    return {"job_id": await here.create(cron="0 * * * *", key="nightly")}


async def _paused(here: Scene) -> dict[str, str]:
    found = await _job(here)
    await here.ask("POST", f"/jobs/{found['job_id']}/pause", body={})
    return found


async def _backfill(here: Scene) -> dict[str, str]:
    found = await _job(here)
    body = {"from": "2027-01-15T00:00:00Z", "to": "2027-01-15T03:00:00Z"}
    made = await here.ask("POST", f"/jobs/{found['job_id']}/backfill", 202, body)
    return {**found, "backfill_id": made["backfill_id"]}


async def _run(here: Scene) -> dict[str, str]:
    job_id = await here.create(schedule_type="ON_DEMAND")
    return {"run_id": (await here.ask("POST", f"/jobs/{job_id}/runNow", 202, {}))["run_id"]}


async def _ended(here: Scene, state: RunState = RunState.FAILED, reason: str = "exit_code") -> dict[str, str]:
    await here.create(schedule_type="IMMEDIATE", max_retries=0)
    number = await here.join()
    claims = await here.take(number)
    await here.begin(number, claims)
    await here.finish(number, claims, state, reason=reason)
    await here.pass_time(1)
    return {"run_id": str(claims[0].run_id)}


async def _unknown(here: Scene) -> dict[str, str]:
    return await _ended(here, reason=UNKNOWN_OUTCOME)


async def _calendar(here: Scene) -> dict[str, str]:
    await here.ask("PUT", "/calendars/off", 201, CALENDAR)
    return {"name": "off"}


async def _window(here: Scene) -> dict[str, str]:
    await here.ask("PUT", "/windows/off", 201, WINDOW)
    return {"name": "off"}


async def _operation(here: Scene) -> dict[str, str]:
    return {"operation_id": (await here.ask("POST", "/jobs:pause", 202, ALL))["operation_id"]}


async def _error(here: Scene) -> dict[str, str]:
    await _ended(here)
    await ErrorFolding(here.store.error_groups).step()
    return {"error_id": (await here.ask("GET", "/errors"))[0]["error_id"]}


async def _held(here: Scene) -> dict[str, str]:
    await here.ask("POST", "/queues/slow/hold", 200, {})
    return {"queue": "slow"}


async def _stop(here: Scene) -> dict[str, str]:
    return {"stop_id": (await here.ask("POST", "/stops", 201, STOP))["stop"]["stop_id"]}


async def _objective(here: Scene) -> dict[str, str]:
    return {"objective_id": (await here.ask("POST", "/objectives", 201, OBJECTIVE))["objective_id"]}


async def _view(here: Scene) -> dict[str, str]:
    await here.ask("PUT", "/saved-views", 200, VIEW)
    return {}


async def _channel(here: Scene) -> dict[str, str]:
    return {"channel_id": (await here.ask("POST", "/channels", 201, HOOK))["channel_id"]}


async def _secret(here: Scene) -> dict[str, str]:
    await here.ask("PUT", "/secrets/there", 201, SECRET)
    return {"name": "there"}


async def _status_page(here: Scene) -> dict[str, str]:
    return {"page_id": (await here.ask("POST", "/status-pages", 201, STATUS_PAGE))["page_id"]}


async def _announcement(here: Scene) -> dict[str, str]:
    found = await _status_page(here)
    path = f"/status-pages/{found['page_id']}/announcements"
    return {**found, "announcement_id": (await here.ask("POST", path, 201, INCIDENT))["announcement_id"]}


async def _rule(here: Scene) -> dict[str, str]:
    await _channel(here)
    return {"rule_id": (await here.ask("POST", "/notification-rules", 201, RULE))["rule_id"]}


async def _alert(here: Scene) -> dict[str, str]:
    rule = (await _rule(here))["rule_id"]
    return {"alert_id": str(await opened(here.store, UUID(rule), alert_id=uuid4()))}


async def _resting(here: Scene) -> dict[str, str]:
    found = await _channel(here)
    channels = here.store.state.channels
    for channel_id, each in channels.items():
        channels[channel_id] = replace(each, failures=1, again_at=here.clock.now() + 60.0)
    return found


async def _dead(here: Scene) -> dict[str, str]:
    channel = (await _channel(here))["channel_id"]
    await here.ask("POST", f"/channels/{channel}/test", 202)
    [notice] = (await here.store.notices.due("sender", 10)).notices
    await here.store.notices.settle("sender", [SettledNotice(notice.notice_id, NoticeState.DEAD)])
    return {"notice_id": str(notice.notice_id)}


async def _queue(_here: Scene) -> dict[str, str]:
    return {"queue": "slow"}


async def _named(_here: Scene) -> dict[str, str]:
    return {"name": "off", "key": "weekly", "task_id": "report", "namespace": "default"}


async def _key(here: Scene) -> dict[str, str]:
    return {"key_id": (await here.ask("POST", "/keys", 201, KEY))["key_id"]}


async def _federation(here: Scene) -> dict[str, str]:
    return {"federation_id": (await here.ask("POST", "/federations", 201, FEDERATION))["federation_id"]}


async def _place(here: Scene) -> dict[str, str]:
    await here.ask("POST", "/namespaces", 201, {"name": "team-a"})
    return {"namespace": "team-a"}


async def _job_and_place(here: Scene) -> dict[str, str]:
    return {**await _job(here), **await _place(here)}


async def _closed(here: Scene) -> dict[str, str]:
    found = await _place(here)
    await here.ask("PATCH", "/namespaces/team-a", 200, {"state": "closing"})
    return found


async def _role(here: Scene) -> dict[str, str]:
    await here.ask("PUT", "/namespaces/default/roles/watcher", 201, ROLE)
    return {"namespace": "default", "name": "watcher"}


async def _user(here: Scene) -> dict[str, str]:
    return {"user_id": (await here.ask("POST", "/users", 201, {**USER, "name": "Eve"}))["user_id"]}


async def _linked(here: Scene) -> dict[str, str]:
    ids = await _user(here)
    await here.ask("PUT", f"/users/{ids['user_id']}/identities", 200, IDENTITY)
    return ids


async def _link(here: Scene) -> dict[str, str]:
    made = await here.ask("POST", "/users", 201, {"name": "Eve", "roles": USER["roles"]})
    return {"secret": made["link"]}


async def _session(here: Scene) -> dict[str, str]:
    await here.ask("POST", "/users", 201, {**USER, "name": "Eve"})
    return {"token": (await signed_in(here.world, "Eve"))["refresh_token"]}


async def _begun(here: Scene) -> dict[str, str]:
    """An app of the person who asks, which waits for its first code."""
    (user_id,) = here.world.store.state.people
    row = await here.world.store.users.get(user_id)
    assert row is not None
    begun = await here.world.control.factors._enrolments.begin_codes(row, None, "h")
    return {"factor_id": str(begun.factor_id), "code": pyotp.TOTP(begun.seed).at(here.clock.now())}


async def _passkey(here: Scene) -> dict[str, str]:
    """A passkey of the person who asks."""
    (user_id,) = here.world.store.state.people
    factor_id = uuid4()
    await here.world.store.factors.add(
        NewFactor(
            factor_id=factor_id, user_id=user_id, kind=FactorKind.PASSKEY, name="key", secret=b"", credential_id=b"1"
        )
    )
    return {"factor_id": str(factor_id), "user_id": str(user_id)}


async def _passkey_of_eve(here: Scene) -> dict[str, str]:
    await _user(here)
    return await _passkey(here)


async def _signing_in(here: Scene) -> dict[str, str]:
    await here.ask("POST", "/users", 201, {**USER, "name": "Eve"})
    return {}


ALL: Final = {"filter": {"all": True}}
JOB: Final = {"name": "a", "task": {"kind": "shell", "command": "date"}, "cron": "0 * * * *"}
CALENDAR: Final = {"dates": ["2027-12-25"]}
WINDOW: Final = {"when": {"dates": ["2027-12-25"]}}
OBJECTIVE: dict[str, Any] = {"name": "urgent", "start_within_seconds": 5, "priority": 9}
HOOK: Final = {"name": "on-call", "kind": "webhook", "url": "https://hooks.example.com/x"}
RULE: Final = {"name": "broken", "on": ["failure"], "channels": ["on-call"]}
VIEW: Final = {"list": "runs", "name": "failed", "query": "status=FAILED"}
STATUS_PAGE: Final = {"slug": "acme", "title": "Acme"}
INCIDENT: Final = {"kind": "incident", "title": "Exports are late", "text": "We look at it."}
STOP: Final = {"all": True, "reason": "the database moves"}
SECRET: Final = {"value": "correct horse"}
KEY: Final = {"name": "probe", "permissions": ["jobs:read"]}
FEDERATION: Final = {
    "name": "pipeline", "issuer": "https://issuer.example.com", "audience": "a", "conditions": {"sub": "x"},
    "permissions": ["jobs:read"],
}  # fmt: skip
ROLE: Final = {"permissions": ["jobs:read"]}
IDENTITY: Final = {"issuer": "https://sso.example.com", "subject": "u-1"}
USER: Final = {"name": "Ada", "password": PASSWORD, "roles": [{"role": "viewer", "namespace": "default"}]}
LETTERS: Final = AuditAction.LETTER_SETTLED
REQUESTED: Final = AuditAction.OPERATION_REQUESTED

CHANGES: Final[dict[str, Change]] = {
    "createJob": Change(AuditAction.JOB_CREATED, JOB),
    "createJobs": Change(AuditAction.JOB_CREATED, [JOB, JOB]),
    "upsertJob": Change(AuditAction.JOB_CREATED, JOB, _named),
    "changeJob": Change(AuditAction.JOB_CHANGED, {"name": "b"}, _job),
    "patchJob": Change(AuditAction.JOB_CHANGED, {"name": "b"}, _job),
    "cancelJob": Change(AuditAction.JOB_CANCELLED, None, _job),
    "pauseJob": Change(AuditAction.JOB_PAUSED, {}, _job),
    "resumeJob": Change(AuditAction.JOB_RESUMED, {}, _paused),
    "moveJob": Change(AuditAction.JOB_MOVED, {"namespace": "team-a"}, _job_and_place),
    "runJobNow": Change(AuditAction.RUN_REQUESTED, {}, _job),
    "skipNext": Change(AuditAction.OCCURRENCE_MOVED, {}, _job),
    "snooze": Change(AuditAction.OCCURRENCE_MOVED, {"until": "2027-01-15T09:30:00Z"}, _job),
    "backfill": Change(AuditAction.RUN_REQUESTED, {"from": "2027-01-15T00:00:00Z", "to": "2027-01-15T03:00:00Z"}, _job),
    "cancelBackfill": Change(AuditAction.BACKFILL_CANCELLED, None, _backfill),
    "putCalendar": Change(AuditAction.CALENDAR_PUT, CALENDAR, _named),
    "deleteCalendar": Change(AuditAction.CALENDAR_DELETED, None, _calendar),
    "putWindow": Change(AuditAction.WINDOW_PUT, WINDOW, _named),
    "deleteWindow": Change(AuditAction.WINDOW_DELETED, None, _window),
    "cancelRun": Change(AuditAction.RUN_CANCELLED, None, _run),
    "retryRun": Change(LETTERS, {}, _ended),
    "redriveDeadLetter": Change(LETTERS, {}, _ended),
    "discardDeadLetter": Change(LETTERS, {}, _ended),
    "decideDeadLetter": Change(LETTERS, {"outcome": "succeeded"}, _unknown),
    "cancelRuns": Change(REQUESTED, ALL),
    "retryRuns": Change(REQUESTED, ALL),
    "pauseJobs": Change(REQUESTED, ALL),
    "resumeJobs": Change(REQUESTED, ALL),
    "cancelJobs": Change(REQUESTED, ALL),
    "redriveDeadLetters": Change(REQUESTED, ALL),
    "discardDeadLetters": Change(REQUESTED, ALL),
    "cancelOperation": Change(AuditAction.OPERATION_CANCELLED, None, _operation),
    "resolveError": Change(AuditAction.ERROR_RESOLVED, {}, _error),
    "ignoreError": Change(AuditAction.ERROR_IGNORED, {"failures": 3}, _error),
    "reopenError": Change(AuditAction.ERROR_REOPENED, None, _error),
    "holdQueue": Change(AuditAction.QUEUE_HELD, {}, _queue),
    "drainQueue": Change(AuditAction.QUEUE_HELD, {}, _queue),
    "resumeQueue": Change(AuditAction.QUEUE_RESUMED, None, _held),
    "putSavedView": Change(AuditAction.VIEW_SAVED, VIEW),
    "deleteSavedView": Change(AuditAction.VIEW_REMOVED, None, _view, query="?list=runs&name=failed"),
    "createStop": Change(AuditAction.STOP_MADE, STOP),
    "liftStop": Change(AuditAction.STOP_LIFTED, None, _stop),
    "createObjective": Change(AuditAction.OBJECTIVE_ADDED, OBJECTIVE),
    "removeObjective": Change(AuditAction.OBJECTIVE_REMOVED, None, _objective),
    "createChannel": Change(AuditAction.CHANNEL_ADDED, HOOK),
    "changeChannel": Change(AuditAction.CHANNEL_CHANGED, {"url": "https://hooks.example.com/y"}, _channel),
    "rotateChannelSecret": Change(AuditAction.CHANNEL_SECRET_ROTATED, None, _channel),
    "tryChannelNow": Change(AuditAction.CHANNEL_TRIED_NOW, None, _resting),
    "testChannel": Change(AuditAction.CHANNEL_TESTED, None, _channel),
    "removeChannel": Change(AuditAction.CHANNEL_REMOVED, None, _channel),
    "createNotificationRule": Change(AuditAction.NOTIFICATION_RULE_ADDED, RULE, _channel),
    "changeNotificationRule": Change(AuditAction.NOTIFICATION_RULE_CHANGED, {"in_a_row": 3}, _rule),
    "testNotificationRule": Change(AuditAction.NOTIFICATION_RULE_TESTED, None, _rule),
    "removeNotificationRule": Change(AuditAction.NOTIFICATION_RULE_REMOVED, None, _rule),
    "acknowledgeAlert": Change(AuditAction.ALERT_ACKNOWLEDGED, {}, _alert),
    "acknowledgeAlerts": Change(AuditAction.ALERT_ACKNOWLEDGED, {}, _alert),
    "closeAlerts": Change(AuditAction.ALERT_CLOSED, {}, _alert),
    "snoozeAlert": Change(AuditAction.ALERT_SNOOZED, {"for": "2h"}, _alert),
    "closeAlert": Change(AuditAction.ALERT_CLOSED, {}, _alert),
    "reopenAlert": Change(AuditAction.ALERT_REOPENED, {}, _alert),
    "sendNoticeAgain": Change(AuditAction.NOTICE_SENT_AGAIN, None, _dead),
    "createStatusPage": Change(AuditAction.STATUS_PAGE_ADDED, STATUS_PAGE),
    "changeStatusPage": Change(AuditAction.STATUS_PAGE_CHANGED, {"title": "Acme Inc."}, _status_page),
    "removeStatusPage": Change(AuditAction.STATUS_PAGE_REMOVED, None, _status_page),
    "createAnnouncement": Change(AuditAction.ANNOUNCEMENT_ADDED, INCIDENT, _status_page),
    "updateAnnouncement": Change(
        AuditAction.ANNOUNCEMENT_CHANGED, {"state": "resolved", "text": "It is over."}, _announcement
    ),
    "removeAnnouncement": Change(AuditAction.ANNOUNCEMENT_REMOVED, None, _announcement),
    "storeTask": Change(AuditAction.TASK_STORED, {"name": "t", "task": JOB["task"]}),
    "uploadScript": Change(AuditAction.TASK_STORED, b"print('hello')\n", _named, script=True),
    "putSecret": Change(AuditAction.SECRET_SET, SECRET, _named),
    "deleteSecret": Change(AuditAction.SECRET_REMOVED, None, _secret),
    "rewrapSecrets": Change(AuditAction.SECRETS_REWRAPPED, {"again": True}, _secret),
    "rotateIdentityKey": Change(AuditAction.IDENTITY_KEY_ROTATED, {}),
    "createFederation": Change(AuditAction.FEDERATION_ADDED, FEDERATION),
    "removeFederation": Change(AuditAction.FEDERATION_REMOVED, None, _federation),
    "createKey": Change(AuditAction.KEY_MADE, KEY),
    "rotateKey": Change(AuditAction.KEY_ROTATED, None, _key),
    "revokeKey": Change(AuditAction.KEY_REVOKED, None, _key),
    "createNamespace": Change(AuditAction.NAMESPACE_ADDED, {"name": "team-a"}),
    "changeNamespace": Change(AuditAction.NAMESPACE_CHANGED, {"display_name": "The A team"}, _place),
    "setQuotas": Change(AuditAction.NAMESPACE_CHANGED, {"jobs": 10}, _place),
    "removeNamespace": Change(AuditAction.NAMESPACE_REMOVED, None, _closed),
    "createUser": Change(AuditAction.USER_ADDED, USER),
    "useLink": Change(AuditAction.LINK_USED, {"secret": "{secret}", "password": PASSWORD}, _link),
    "changePassword": Change(
        AuditAction.PASSWORD_CHANGED, {"current": PASSWORD, "password": OTHER_PASSWORD}, as_person=True
    ),
    "putAccessRole": Change(AuditAction.ROLE_PUT, ROLE, _named),
    "removeAccessRole": Change(AuditAction.ROLE_DROPPED, None, _role),
    "changeUser": Change(AuditAction.USER_CHANGED, {"name": "Evelyn"}, _user),
    "resetPassword": Change(AuditAction.LINK_MADE, None, _user),
    "linkIdentity": Change(AuditAction.IDENTITY_LINKED, IDENTITY, _user),
    "unlinkIdentities": Change(AuditAction.IDENTITY_UNLINKED, None, _linked),
    "createToken": Change(
        AuditAction.SIGNED_IN, {"grant_type": "password", "username": "Eve", "password": PASSWORD}, _signing_in
    ),
    "revokeToken": Change(AuditAction.SIGNED_OUT, {"token": "{token}"}, _session),
    "endSessions": Change(AuditAction.SIGNED_OUT, None, as_person=True),
    "createSessionLink": Change(AuditAction.TOKEN_MADE),
    "confirmSecondFactor": Change(AuditAction.FACTOR_ENROLLED, {"code": "{code}"}, _begun, as_person=True),
    "renameSecondFactor": Change(
        AuditAction.FACTOR_RENAMED, {"password": PASSWORD, "name": "blue"}, _passkey, as_person=True
    ),
    "removeSecondFactor": Change(AuditAction.FACTOR_REMOVED, {"password": PASSWORD}, _passkey, as_person=True),
    "createRecoveryCodes": Change(AuditAction.RECOVERY_CODES_MADE, {"password": PASSWORD}, _passkey, as_person=True),
    "resetSecondFactors": Change(AuditAction.FACTORS_RESET, None, _passkey_of_eve),
}

ELSEWHERE: Final = {
    "beginSecondFactor": "what waits for its first code changes nothing: `confirmSecondFactor`",
    "registerUser": "it is off here: `test_a_person_who_registers_is_in_the_log`",
    "startDeviceSignIn": "a stranger asks, and nothing is changed before a person decides: `test_device_sign_in`",
    "providerLogout": "there is no provider here: `test_a_logout_at_the_provider_ends_the_session_here`",
}
ANONYMOUS: Final = frozenset({"createToken", "revokeToken", "useLink"})
"""Routes without a key: the entry names the person, or a stranger."""


def test_each_changing_route_is_tried() -> None:
    """A route that changes something has a line here, and none that is gone has one."""
    assert CHANGING == sorted({*CHANGES, *ELSEWHERE})


@pytest.mark.parametrize("name", sorted(CHANGES))
async def test_each_change_leaves_an_entry(name: str) -> None:
    """One entry, of the action that is meant, with the caller, the address and the request in it; no secret is in it
    or in another one."""
    change = CHANGES[name]
    [endpoint] = [each for each in RESOURCES if each.name == name]
    async with scene() as here:
        await here.world.control.bearers.sign_with(signing_key())
        headers = {"X-Request-Id": "the-request"}
        if change.as_person:
            await here.ask("POST", "/users", 201, USER)
            headers["Authorization"] = f"Bearer {(await signed_in(here.world, 'Ada'))['access_token']}"
        ids = {} if change.prepare is None else await change.prepare(here)
        before = await entries(here)
        body = change.body
        if isinstance(body, dict):
            body = {key: value.format(**ids) if isinstance(value, str) else value for key, value in body.items()}
        content = {"content": body} if change.script else {} if body is None else {"json": body}
        if change.script or endpoint.method == "PATCH":
            headers["Content-Type"] = "text/x-python" if change.script else min(endpoint.media).decode()
        answer = await here.world.client.request(
            endpoint.method,
            API + endpoint.path.removeprefix(API).format(**ids) + change.query,
            headers=headers,
            **content,
        )
        assert answer.status_code < 300, answer.text
        new = [row for row in await entries(here) if row not in before]
        [entry, *elsewhere] = [row for row in new if row.action == change.action]
        assert len(elsewhere) == (name == "moveJob")  # both namespaces have one
        assert entry.source.request_id == "the-request"
        assert entry.source.address == "127.0.0.1"
        if name not in ANONYMOUS:
            assert entry.source.kind is (CallerKind.PERSON if change.as_person else CallerKind.KEY)
            assert entry.source.name == ("Ada" if change.as_person else "admin")
        said = str(await entries(here))
        assert PASSWORD not in said
        assert OTHER_PASSWORD not in said
        for secret in ("key", "secret", "token", "refresh_token", "access_token"):
            told = answer.json().get(secret) if isinstance(answer.json(), dict) else None
            assert not isinstance(told, str) or told not in said


async def entries(here: Scene) -> list[AuditRow]:
    """All entries."""
    return list(await here.store.audit.find(AuditQuery(namespace=None, ascending=True, limit=1_000)))
