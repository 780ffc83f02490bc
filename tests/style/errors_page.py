"""The reference page of the error codes, from the classes and their uses: `python -m tests.style.errors_page`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from tests.style import source
from tests.style.tree import ROOT
from tickwise.api import health, problems
from tickwise.domain import errors
from tickwise.domain.errors import TickwiseError
from tickwise.ports.store import Added

PLACE = "docs/reference/errors.md"

HEAD = """\
# Error codes

<!-- Written from src/tickwise/domain/errors.py, the errors of the API and every use of a narrower code
by `python -m tests.style.errors_page`; a test compares. -->

Every error of the API is an RFC 9457 problem (`application/problem+json`):

    {"type": "urn:tickwise:problem:cron_invalid", "title": "A field is wrong", "status": 422, "code": "cron_invalid",
     "detail": "the problem, and the remedy", "pointer": "/cron_expression", "position": 4, "request_id": "…"}

`code` is stable: programs decide by it, or by the status where the code is new to them. `detail` is for people, and its
words may change. `pointer` (RFC 6901) leads to the field at fault, `position` into the text there, `parameter` names a
query parameter or header, `request_id` finds the log lines. With `--json` the command line shows the same as the member
`error` of its answer; without a status there, the error is its own.

What to do, by status: **400 to 422** change the request, the unchanged request is refused again, except for **409**
with `idempotency_key_in_flight` (wait) and **412** (read again, then decide). **429, 503** send the same again after
`Retry-After`; with the same `job_id` or `Idempotency-Key` it is done once. **500** is a bug: please report it with the
`request_id`.

| code | status | meaning |
| --- | --- | --- |
"""

# What a code says that is narrower than its class.
MEANINGS = {
    "access_denied": "The person denied the request of this terminal. Start the sign-in again if that was a mistake.",
    "announcements_exhausted": "The status page has 100 announcements; remove some that are over.",
    "authorization_pending": "Nobody has approved the request of this terminal yet. Ask again after the interval.",
    "backfill_too_large": "The range holds more occurrences than one request runs; `detail` says how many.",
    "secret_in_use": "Jobs or stored tasks name the secret; take it out of them, or remove it with `force`.",
    "calendar_in_use": "Jobs use the calendar; take it out of their `calendars` first.",
    "channel_changed": "Somebody else changed the channel first: read it again, then decide.",
    "channel_name_taken": "Another channel of the namespace has this name.",
    "channel_scheme_refused": "An address of Apprise that would act on the scheduler's own machine; `detail` says why.",
    "channels_exhausted": "The namespace has 500 channels; delete some that no rule uses.",
    "objectives_exhausted": "The namespace has 20 objectives by priority or labels; remove one first.",
    "calendar_library_missing": "The server lacks the library for such calendars; `detail` says which to install.",
    "calendar_too_much": "It takes too long to find out when the calendar or window ends: many recurring lines follow "
    "on each other. Write weekly hours, or merge lines that meet.",
    "calendar_unknown": "There is no calendar of this name in the namespace; create it first.",
    "changed_since": "Of an operation: the job was changed after the operation was requested, so it was left alone. "
    "Start another operation for it.",
    "expired_token": "Nobody approved the request of this terminal within ten minutes. Start the sign-in again.",
    "field_repeated": "A member of an object is written twice; `pointer` names it. Readers of JSON disagree about "
    "which one counts, so neither is taken.",
    "field_unknown": "There is no such field, or this version does not support it yet; the nearest valid name is in "
    "`detail`.",
    "idempotency_key_in_flight": "A request with this Idempotency-Key is still under way. Wait, then send it again.",
    "isolation_below_minimum": "The namespace demands a sandbox of `python` and `shell` tasks (`min_isolation`), and "
    "this job is a plain process. Change it to `isolation: sandbox`.",
    "job_cancelled": "The job is cancelled for good; create a new one.",
    "job_id_taken": "The `job_id` stands for another body, or for a job of another namespace. Choose another.",
    "job_not_recurring": "Only a job that recurs can be paused and resumed, and has occurrences to skip, snooze "
    "or backfill.",
    "job_paused": "The job is paused; resume it first.",
    "job_busy": "The job has a run that has not ended, or whose end has yet to start others. Wait for it, or cancel "
    "the run, then move the job.",
    "key_taken": "Another job of the namespace has this `key`. Change that one, by its key.",
    "key_not_rotated_here": "The secret of this key is kept by a setting or a file of `up`: the detail says how to "
    "replace it.",
    "key_over": "The key was revoked or has expired, so it gets no other secret. Make a new key.",
    "key_rotated": "Another request rotated the key at the same time. Use its answer, or look again and repeat.",
    "key_rotating": "The earlier secret of the key still works. Wait for the end of the overlap, or send "
    "`overlap_seconds` 0.",
    "one_namespace": "The namespaces are in several databases, and their percentiles cannot be combined: ask for one "
    "namespace at a time.",
    "other_database": "The other namespace is in another database, or in another shard of a keyspace of Cassandra. "
    "Move one of the two namespaces first; in a keyspace, where they stay, create the job again there, then cancel it "
    "here.",
    "keys_exhausted": "The namespace has 1,000 valid keys. Revoke those that are no longer used.",
    "lanes_exhausted": "The namespace has used up its combinations of queue, priority and required labels (1,000, or "
    "its quota `lanes`), or all have (10,000) and it has its 16. Use one of those, or the default queue without "
    "labels; unused ones are freed in time.",
    "letter_not_held": "The outcome of the run is known, so there is nothing to decide.",
    "letter_settled": "This dead letter was redriven, discarded or decided before; `detail` has the decision.",
    "no_occurrence": "The schedule of the job names no further time.",
    "occurrence_begun": "The occurrence is in the hands of an executor, or has begun; it can be cancelled.",
    "occurrence_closed": "A calendar or a maintenance window closes the occurrence, so it would not run anyway.",
    "occurrence_not_next": "Another occurrence is the next by now; `detail` says which.",
    "alert_decided": "Somebody decided about the alert after the link was sent. Do it on the page of the alert.",
    "alert_stands": "Another alert of the same rule, event and subject is not closed. It counts the new events.",
    "name_taken": "Another notification rule of the namespace has this name. Choose another.",
    "version_changed": "The notification rule was changed since that version. Read it again, then decide.",
    "slow_down": "This terminal asked too early. From now on it waits 5 s longer between two requests.",
    "stops_exhausted": "The namespace has 100 stops that are in force or planned. Lift one, or give one stop a wider "
    "scope.",
    "slug_taken": "Another status page of the installation has this address; choose another slug.",
    "status_pages_exhausted": "The namespace has 20 status pages; remove one.",
    "secrets_exhausted": "The namespace has 1,000 secrets; remove some that no task names.",
    "views_exhausted": "There are 50 saved views already, of the caller or for all of the namespace. Remove one.",
    "rules_exhausted": "The namespace has as many calendars (1,000, or its quota) or maintenance windows (200, or its "
    "quota) as it may, or all "
    "together have 10,000; or it has 20,000 notification rules, or 100 that concern all of it. Delete one first, or "
    "put several into one.",
    "run_ended": "The run has ended already.",
    "run_not_failed": "Only a run that is FAILED has a dead letter; `detail` says what it is.",
    "run_not_ended": "Only a run that has ended can be repeated; cancel it first.",
    "script_invalid": "The script does not compile; `detail` says where.",
    "environment_invalid": "The environment that the script declares cannot be read: its header (PEP 723), "
    "`requirements` or `lock`; `detail` gives the line.",
    "script_too_large": "The script is longer than a job may hold (`source_limit_bytes`). Store it as a task, and "
    "name that.",
    "secret_masked": "`***` stands for a stored secret that is not shown, and there is none to keep here: "
    "nothing is stored yet, or the address is another one. Send the secret itself.",
    "secret_provider_unknown": "A reference names a provider of secrets (`secret:PROVIDER:NAME`) that is not set up; "
    "`detail` names those that are.",
    "sequence_cycle": "The job would start itself through the jobs that `then` and `on_failure` name; `detail` shows "
    "the cycle.",
    "sequence_too_long": "More than 100 jobs would follow one after the other, or more than 1,000 in all.",
    "channel_unknown": "A job or a notification rule names a channel that is not in the namespace.",
    "event_unknown": "A notification rule names an event that does not exist; `detail` suggests one.",
    "job_unknown": "A notification rule names a job that is not in the namespace.",
    "channel_closed": "The secrets of a channel are sealed under a key that is not set, or were changed. Set that key "
    "again behind the others, or remove the channel and make it again.",
    "no_secret": "Only webhooks are signed: a channel of another kind has no signing secret.",
    "notice_not_dead": "Only a notice that could not be delivered, and whose channel still exists, can be sent again.",
    "successor_unknown": "`then` or `on_failure` names a job that does not exist or is cancelled.",
    "task_missing": "The job has no task, and no active executor offers a function of its name. Send a `task`.",
    "task_unknown": "There is no stored task with this id and version.",
    "timezone_unknown": "No IANA time zone has this name; near ones are in `detail`.",
    "identity_issuer_missing": "Identity tokens need the public address of this installation as their issuer: set "
    "`identity_issuer` or `public_url` ([access without keys](../how-to/cloud-access-without-keys.md)).",
    "identity_taken": "The identity at the provider belongs to another user. Unlink it there first.",
    "last_administrator": "The installation would have no administrator left. Make another one first.",
    "namespace_closing": "The namespace is closing, or was removed, and takes nothing new. Open it again, or use "
    "another one.",
    "namespace_exists": "There is a namespace of this name with other settings. Change it, or take another name.",
    "namespace_needed": "The namespace `default` cannot be removed.",
    "namespace_not_closing": "The namespace is not closing. Close it, then remove it.",
    "password_weak": "The password is too short, too long, common, or follows from the name. `detail` says which.",
    "password_wrong": "The present password is wrong.",
    "second_factor_code": "The first code of an app is wrong.",
    "second_factor_needed": "A role requires a second factor, and this is the last one.",
    "factors_exhausted": "The person has the most second factors that are allowed. Remove one first.",
    "passkey_known": "The passkey is registered already.",
    "passkey_refused": "The browser's answer is not the passkey that was asked for.",
    "enrolment_over": "The sign-in that was to enrol a second factor has ended.",
    "quota_bytes": "Definitions and stored tasks of the namespace would have more bytes than its quota `bytes`.",
    "quota_jobs": "The namespace has as many active jobs as its quota `jobs` allows. Cancel some first.",
    "quota_runs": "The namespace has used up its quota `runs_per_day`; it starts again with the next day of UTC.",
    "role_in_use": "People have this role. Give them another one first.",
    "namespace_removing": "The namespace is being removed, which cannot be undone. Its name is free once that is over.",
    "references_missing": "The job names a task, a calendar or a successor that the other namespace does not have.",
    "role_unknown": "There is no role of this name in the namespace.",
    "user_exists": "Another person has this name or e-mail, or a name that looks the same.",
}
# What the command line says without having asked a server.
LOCAL = {
    "bug": "An unexpected error in the command line itself. Please report it.",
    "unreachable": "No server answers at the address.",
    "usage": "The command line cannot be understood.",
}
# Codes that are computed where they are raised: the call, and what it can come to.
COMPUTED = {
    ("control/jobs/submission.py", "Conflict"): (Added.ID_TAKEN.value, Added.KEY_TAKEN.value),
    ("ports/store/quotas.py", "Conflict"): (
        Added.NO_QUOTA_JOBS.value,
        Added.NO_QUOTA_RUNS.value,
        Added.NO_QUOTA_BYTES.value,
    ),
}
INTERNAL = (
    "An unexpected error. Its log lines have the `request_id`, or the `operation_id` of an accepted request. "
    "Please report it."
)


def classes() -> list[type[TickwiseError]]:
    """Every class of the tree, the root first."""
    found = [TickwiseError]
    for kind in found:
        found += sorted(kind.__subclasses__(), key=lambda below: below.__name__)
    assert {health.LateWork, problems.BatchRefused, errors.Busy} <= set(found)
    return [kind for kind in found if kind.__module__.startswith("tickwise.")]


def status_of(kind: type[TickwiseError]) -> int:
    """The status under which the API answers it; 500 for what is never shown as it is."""
    return next((status for known, status, _ in problems._STATUS if issubclass(kind, known)), 500)


def narrowed() -> Iterator[tuple[str, type[TickwiseError], str]]:
    """Each narrower code with its class and where it is used."""
    kinds = {kind.__name__: kind for kind in classes()}
    for use in source.narrowed_codes(frozenset(kinds)):
        file = use.place.removeprefix("src/tickwise/").split(":")[0]
        codes = COMPUTED.get((file, use.error), ()) if use.code is None else (use.code,)
        assert codes, f"{use.place}: the code is no literal; say in COMPUTED what it can be"
        for code in codes:
            yield code, kinds[use.error], use.place


def table() -> dict[str, tuple[str, str]]:
    """Status and meaning of each code."""
    found = {"internal": ("500", INTERNAL)}
    for kind in classes():
        status = status_of(kind)
        # A class without a code of its own bears that of the class above; what is a 500 reads `internal` outside.
        if "code" in vars(kind) and status != 500 and kind.code not in ("refused", "error"):
            found[kind.code] = (str(status), _says(kind))
    for code, kind, _ in narrowed():
        found[code] = (str(status_of(kind)), MEANINGS.get(code, ""))
    for code in source.codes_of_command_line() | {errors.Misconfigured.code}:
        found.setdefault(code, ("–", LOCAL.get(code) or _says(errors.Misconfigured)))
    return found


def _says(kind: type[TickwiseError]) -> str:
    """The first paragraph of its docstring; what follows is for those who write code here."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())


def page() -> str:
    rows = (f"| `{code}` | {status} | {meaning} |\n" for code, (status, meaning) in sorted(table().items()))
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (ROOT / PLACE).write_text(page(), encoding="utf-8")
