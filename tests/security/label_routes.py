"""What each route of the API is about, and a good request for it: the ground of the matrix of permissions.

Invariant: a route that is not classified here fails `test_label_selectors`, so nobody adds one without saying what a
caller may reach by it whose permissions hold for jobs with certain labels alone.
"""

from __future__ import annotations

from typing import Any, Final

NEW_JOB: Final = "a job that is to be"
JOBS: Final = "all jobs that match"
JOB: Final = "one job"
RUN: Final = "one run"
OPERATION: Final = "one operation"
VIEWS: Final = "saved views"
"""Filters under a name: they show no job, and what a list shows by them is what the caller may see."""
NO_JOB: Final = "things without labels"
WHOLE_JOB: Final = "one job, and more than it"
"""Not for callers with labels: they have none in the other namespace."""
CALLER: Final = "the caller"
OPEN: Final = "anybody"

BY_LABELS: Final = frozenset({NEW_JOB, JOBS, JOB, RUN, OPERATION, VIEWS})
"""Callers with labels reach these routes, as far as the labels go."""

ABOUT: Final[dict[str, str]] = {
    **dict.fromkeys(("createJob", "createJobs", "previewSchedule"), NEW_JOB),
    **dict.fromkeys(
        (
            "listJobs", "listRuns", "listDeadLetters", "cancelRuns", "retryRuns", "pauseJobs", "resumeJobs",
            "cancelJobs", "redriveDeadLetters", "discardDeadLetters", "streamEvents", "analyseRuns", "listObjectives",
            "searchLogs",
        ),
        JOBS,
    ),
    **dict.fromkeys(
        (
            "getJobByKey", "upsertJob", "getJob", "changeJob", "patchJob", "cancelJob", "getJobStatus", "listJobRuns",
            "runJobNow", "pauseJob", "resumeJob", "previewJob", "skipNext", "snooze", "backfill", "cancelBackfill",
            "listOccurrences", "explainJob",
        ),
        JOB,
    ),
    **dict.fromkeys(
        (
            "getRun", "cancelRun", "retryRun", "getRunLog", "getDeadLetter", "redriveDeadLetter", "discardDeadLetter",
            "decideDeadLetter", "explainRun", "streamRunLog", "downloadRunLog", "listArtefacts",
            "getArtefact",
        ),
        RUN,
    ),
    **dict.fromkeys(("listSavedViews", "putSavedView", "deleteSavedView"), VIEWS),
    **dict.fromkeys(("getOperation", "cancelOperation"), OPERATION),
    **dict.fromkeys(
        (
            "listCalendars", "previewCalendar", "putCalendar", "getCalendar", "deleteCalendar", "getCalendarCovers",
            "listWindows", "putWindow", "getWindow", "deleteWindow", "getWindowCovers", "countRuns", "listExecutors",
            "listErrors", "getError", "resolveError", "ignoreError", "reopenError", "listOperations", "listQueues",
            "getQueue", "holdQueue", "drainQueue", "resumeQueue", "listRoles",
            "createObjective", "getObjective", "removeObjective",
            "listStops", "createStop", "previewStop", "getStop", "liftStop",
            "createChannel", "listChannels", "getChannel", "changeChannel", "removeChannel", "rotateChannelSecret",
            "testChannel", "tryChannelNow", "listNotices", "getNotice", "sendNoticeAgain", "createNotificationRule",
            "listNotificationRules", "previewNotificationRule", "getNotificationRule", "changeNotificationRule",
            "removeNotificationRule", "testNotificationRule", "listAlerts", "getAlert", "acknowledgeAlert",
            "acknowledgeAlerts", "closeAlerts",
            "snoozeAlert", "closeAlert", "reopenAlert",
            "createStatusPage", "listStatusPages", "getStatusPage", "changeStatusPage", "removeStatusPage",
            "listAnnouncements", "createAnnouncement", "updateAnnouncement", "removeAnnouncement",
            "listSecrets", "putSecret", "getSecret", "getSecretUses", "deleteSecret", "getSecretKeys", "rewrapSecrets",
            "storeTask", "listTasks", "getTask", "uploadScript", "listTaskVersions", "getTaskSource", "createKey",
            "createFederation", "listFederations", "getFederation", "removeFederation",
            "listKeys", "revokeKey", "createNamespace", "listNamespaces", "getNamespace", "changeNamespace",
            "removeNamespace", "createUser", "listAccessRoles", "putAccessRole", "removeAccessRole", "listUsers",
            "getUser", "changeUser", "resetPassword", "listIdentities", "linkIdentity", "unlinkIdentities",
            "listUserSecondFactors", "resetSecondFactors",
            "getQuotas", "setQuotas", "getUsage", "listAudit", "exportAudit",
            "describe", "metrics", "healthDetails", "listIdentityKeys", "rotateIdentityKey",
        ),
        NO_JOB,
    ),
    "moveJob": WHOLE_JOB,
    **dict.fromkeys(
        (
            "changePassword", "createSessionLink", "endSessions", "whoAmI", "rotateKey",
            "listSecondFactors", "beginSecondFactor", "confirmSecondFactor", "renameSecondFactor", "removeSecondFactor",
            "createRecoveryCodes",
        ),
        CALLER,
    ),
    **dict.fromkeys(
        (
            "registerUser", "useLink", "createToken", "revokeToken", "startDeviceSignIn", "keySet",
            "identityDiscovery", "identityKeySet", "live", "ready", "health", "listProviders", "providerLogout",
        ), OPEN
    ),
}  # fmt: skip
"""By the name of the operation."""

NOW: Final = 1_800_000_000.0
"""2027-01-15: the time of the requests."""
JOB_BODY: Final = {"name": "made", "cron": "0 3 * * *", "task": {"kind": "shell", "command": "true"}}
_RANGE: Final = {"from": "2027-01-01T00:00:00Z", "to": "2027-01-03T00:00:00Z"}

BODIES: Final[dict[str, Any]] = {
    "createJob": JOB_BODY,
    "createJobs": [JOB_BODY],
    "previewSchedule": {"cron": "0 3 * * *"},
    "upsertJob": {"name": "upserted"},
    "changeJob": {"name": "changed"},
    "patchJob": {"name": "patched"},
    "pauseJob": {},
    "resumeJob": {},
    "skipNext": {},
    "snooze": {"until": "2027-01-20T00:00:00Z"},
    "backfill": _RANGE,
    "runJobNow": {},
    "retryRun": {},
    "redriveDeadLetter": {},
    "discardDeadLetter": {},
    "decideDeadLetter": {"outcome": "succeeded"},
    "putSavedView": {"list": "runs", "name": "failed", "query": "status=FAILED"},
    **{name: {"filter": {"all": True}, "dry_run": True} for name, about in ABOUT.items() if about == JOBS},
}
"""Bodies of requests that succeed, where a route takes one."""

QUERIES: Final = {"deleteSavedView": "?list=runs&name=failed", "searchLogs": "?find=needle"}
"""The parameters of requests that succeed, where a route cannot do without."""
