"""Examples of bodies, answers and problems for the description, by the name of their schema.

A test checks each against its schema, and sends each body to a server, which must accept it.
"""

from __future__ import annotations

from typing import Any, Final

_JOB: Final = "019a2b3c-4d5e-8f60-9123-456789abcdef"
_RUN: Final = "019a2b3c-4d5e-8f60-9123-456789abcd00"

BODIES: Final[dict[str, Any]] = {
    "JobBody": {
        "name": "nightly report",
        "cron": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "task": {"kind": "shell", "command": "./report.sh"},
        "max_retries": 5,
        "labels": {"team": "billing"},
    },
    "JobChangeBody": {"cron": "0 3 * * *", "timezone": "Europe/Berlin"},
    "JobsBody": {
        "jobs": [
            {"name": "hello", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "echo hello"}},
            {"name": "once", "at": "2100-01-01T00:00:00Z", "task": {"kind": "function", "name": "invoice"}},
        ]
    },
    "JobMoveBody": {"namespace": "team-b"},
    "PauseBody": {"reason": "the database moves", "until": "2030-01-01T00:00:00Z"},
    "ResumeBody": {"missed": "run_latest"},
    "RunNowBody": {"payload": {"day": "2026-11-01"}},
    "SkipNextBody": {"reason": "a public holiday"},
    "SnoozeBody": {"until": "2026-11-23T09:00:00Z"},
    "BackfillBody": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "limit": 10},
    "PreviewBody": {"cron": "0 9 * * mon-fri", "timezone": "America/New_York", "count": 5},
    "CalendarBody": {"timezone": "Europe/Berlin", "dates": ["2026-12-25", {"from": "2026-12-31", "to": "2027-01-01"}]},
    "CalendarPreviewBody": {"calendar": {"weekly": [{"days": ["sat", "sun"]}]}, "limit": 5},
    "WindowBody": {
        "when": {"periods": [{"from": "2026-12-24T18:00:00Z", "to": "2026-12-24T22:00:00Z"}]},
        "labels": {"team": "billing"},
        "action": "defer",
        "reason": "the database moves",
    },
    "RunRetryBody": {"payload": {"day": "2026-11-01"}},
    "RunsCancelBody": {"filter": {"status": ["QUEUED"]}, "dry_run": True},
    "RunsRetryBody": {"filter": {"reason": "timeout"}, "dry_run": True},
    "JobsPauseBody": {"filter": {"labels": {"team": "billing"}}, "reason": "the database moves"},
    "JobsResumeBody": {"filter": {"labels": {"team": "billing"}}, "missed": "skip"},
    "JobsCancelBody": {"filter": {"name": "hello"}, "dry_run": True},
    "LettersRedriveBody": {"filter": {"reason": "timeout"}, "dry_run": True},
    "LettersDiscardBody": {"filter": {"reason": "timeout"}, "note": "known outage"},
    "RedriveBody": {"note": "the address was wrong"},
    "DiscardBody": {"note": "known outage"},
    "DecideBody": {"outcome": "succeeded", "note": "the invoice was sent"},
    "ErrorResolveBody": {"note": "the bank is back"},
    "ErrorIgnoreBody": {"failures": 100, "note": "known until the next release"},
    "SavedViewBody": {"list": "runs", "name": "failed of acme", "query": "status=FAILED&label=customer%3Dacme"},
    "SecretBody": {"value": "correct horse battery staple"},
    "RewrapBody": {"again": False},
    "StopBody": {"labels": {"customer": "acme"}, "reason": "their database moves", "meanwhile": "hold"},
    "ObjectiveBody": {"name": "urgent runs", "start_within_seconds": 5, "ratio": 0.995, "priority": 9},
    "ChannelBody": {"name": "on-call", "kind": "webhook", "url": "https://hooks.example.com/tickwise"},
    "StatusPageBody": {
        "slug": "acme",
        "title": "Acme: nightly work",
        "enabled": True,
        "components": [{"name": "Exports", "labels": {"customer": "acme"}}],
        "show_uptime": True,
    },
    "StatusPageChangeBody": {"title": "Acme"},
    "AnnouncementBody": {"kind": "incident", "title": "Exports are late", "text": "We are looking for the cause."},
    "AnnouncementUpdateBody": {"state": "resolved", "text": "All exports are there."},
    "ChannelChangeBody": {"url": "https://hooks.example.com/other"},
    "NotificationRuleBody": {
        "name": "billing failed",
        "on": ["failure", "recovery", "did_not_run"],
        "channels": ["on-call"],
        "labels": {"team": "billing"},
        "in_a_row": 2,
        "quiet": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"},
    },
    "NotificationRuleChangeBody": {"in_a_row": 3},
    "AlertsDecisionBody": {"state": ["open"], "event": "failure", "note": "the bank is down; they know"},
    "AlertNoteBody": {"note": "the bank is down; they know"},
    "AlertSnoozeBody": {"for": "2h", "note": "the bank is down; they know"},
    "QueueHoldBody": {"reason": "the printer is away", "until": "2100-01-01T00:00:00Z"},
    "QueueDrainBody": {"reason": "the host is replaced"},
    "KeyBody": {"name": "reports", "permissions": ["jobs:write", "runs:read"], "expires_at": "2030-01-01T00:00:00Z"},
    "FederationBody": {
        "name": "acme/app",
        "issuer": "https://token.actions.githubusercontent.com",
        "audience": "https://tickwise.example.com",
        "conditions": {"repository": "acme/app", "ref": "refs/heads/main"},
        "permissions": ["jobs:create"],
    },
    "DeviceBody": {"client": "tickwise of ada on laptop"},
    "KeyRotateBody": {"overlap_seconds": 3_600},
    "NamespaceBody": {"name": "team-a", "display_name": "Team A"},
    "QuotasBody": {"jobs": 1_000, "runs_per_day": 100_000, "requests_per_second": 50},
    "NamespaceChangeBody": {"display_name": "Team A"},
    "UserBody": {"name": "Ada", "email": "ada@example.org", "roles": [{"namespace": "default", "role": "developer"}]},
    "UserChangeBody": {"roles": [{"namespace": "default", "role": "operator"}]},
    "RegisterBody": {"name": "Ada", "password": "four quiet herons wade"},
    "LinkUseBody": {"secret": "twl_the-secret-of-the-link", "password": "four quiet herons wade"},
    "RolePermissionsBody": {"permissions": ["jobs:read", "runs:read", "runs:write"]},
    "PasswordBody": {"current": "four quiet herons wade", "password": "nine purple kettles hum"},
    "IdentityBody": {"subject": "9f1d3c52-7a4e-4f6b-8d52-0c5b9f1e2a77"},
    "LogoutTokenBody": {"logout_token": "eyJhbGciOiJSUzI1NiIsInR5cCI6ImxvZ291dCtqd3QifQ.e30.c2ln"},
    "TokenBody": {"grant_type": "password", "username": "ada@example.org", "password": "four quiet herons wade"},
    "CodesBody": {"password": "four quiet herons wade", "name": "phone"},
    "CodeBody": {"code": "123456"},
    "FactorChangeBody": {"password": "four quiet herons wade", "name": "new phone"},
    "OwnPasswordBody": {"password": "four quiet herons wade"},
    "RevokeBody": {"token": "twr_the-refresh-token"},
    "IdentityKeyRotation": {"algorithm": "RS256", "at_once": False},
    "TaskBody": {"taskId": "report", "script": "print('hello')\n"},
}
"""Example requests."""

ANSWERS: Final[dict[str, Any]] = {
    "JobCreated": {"job_id": _JOB},
    "PendingView": {"job_id": _JOB, "operation_id": _JOB, "status": "pending"},
    "RunDemanded": {"run_id": _RUN},
    "RunStateView": {"run_id": _RUN, "status": "CANCELLED"},
    "OperationAccepted": {"operation_id": _RUN, "matched": 17},
    "BatchView": {
        "created": 1,
        "refused": 1,
        "results": [
            {"status": 201, "job_id": _JOB},
            {
                "status": 422,
                "problem": {
                    "type": "urn:tickwise:problem:invalid",
                    "title": "A field is wrong",
                    "status": 422,
                    "code": "invalid",
                    "detail": "a job needs a name",
                    "pointer": "/name",
                },
            },
        ],
    },
    "Problem": {
        "type": "urn:tickwise:problem:cron_invalid",
        "title": "A field is wrong",
        "status": 422,
        "code": "cron_invalid",
        "detail": "hour 24 does not exist; hours go from 0 to 23",
        "pointer": "/cron",
        "position": 2,
        "request_id": "9f86d081884c7d6500000001",
    },
    "Health": {"status": "ready"},
    "HealthSummary": {"status": "degraded", "parts": {"store": "ok", "executors": "degraded", "timers": "ok"}},
    "PartDetails": {"status": "ok", "detail": "The store answered within 3 ms."},
    "HealthDetails": {
        "status": "degraded",
        "parts": {
            "store": {"status": "ok", "detail": "The store answered within 3 ms."},
            "executors": {"status": "degraded", "detail": "No executor is active. What becomes due will wait."},
        },
    },
}
"""Example answers."""

EXAMPLES: Final[dict[str, Any]] = BODIES | ANSWERS
