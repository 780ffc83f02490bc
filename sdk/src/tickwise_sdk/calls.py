"""The operations of the API, as methods of `Client`.

Written from the description of the API by `python -m tests.style.sdk_modules`; a test compares. A listing gives the
items of all its pages, one request a page; `limit` is the size of a page. A server that buffers requests answers
writes with a `types.PendingView` until they are applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from tickwise_sdk.exchange import given, safe
from tickwise_sdk.frame import Frame

if TYPE_CHECKING:
    from tickwise_sdk import types


class Calls(Frame):
    """A method for each operation; raises as `request` does."""

    def list_alerts(
        self,
        *,
        state: Sequence[Literal["acknowledged", "closed", "open", "snoozed"]] | None = None,
        rule_id: str | None = None,
        subject: str | None = None,
        installation: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[types.AlertView]:
        """Alerts, the newest event first; all that are not closed, if no state is asked for."""
        return self.items(
            "/alerts",
            query={
                "state": state,
                "rule_id": rule_id,
                "subject": subject,
                "installation": installation,
                "limit": limit,
            },
        )

    def get_alert(self, alert_id: str) -> types.AlertView:
        """One alert."""
        answer: types.AlertView = self.request("GET", f"/alerts/{safe(alert_id)}").body
        return answer

    def acknowledge_alert(
        self, alert_id: str, body: types.AlertNoteBody | None = None, *, idempotency_key: str | None = None
    ) -> types.AlertView:
        """Take an alert in hand: no repetition and no escalation; a recovery is still told."""
        answer: types.AlertView = self.request(
            "POST",
            f"/alerts/{safe(alert_id)}/acknowledge",
            body=body,
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def close_alert(
        self, alert_id: str, body: types.AlertNoteBody | None = None, *, idempotency_key: str | None = None
    ) -> types.AlertView:
        """Close an alert: the next event opens another one."""
        answer: types.AlertView = self.request(
            "POST", f"/alerts/{safe(alert_id)}/close", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def reopen_alert(
        self, alert_id: str, body: types.AlertNoteBody | None = None, *, idempotency_key: str | None = None
    ) -> types.AlertView:
        """Open an alert again: what was decided about it is taken back."""
        answer: types.AlertView = self.request(
            "POST", f"/alerts/{safe(alert_id)}/reopen", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def snooze_alert(
        self, alert_id: str, body: types.AlertSnoozeBody | None = None, *, idempotency_key: str | None = None
    ) -> types.AlertView:
        """Tell nothing of an alert until a time; for an hour if none is sent."""
        answer: types.AlertView = self.request(
            "POST", f"/alerts/{safe(alert_id)}/snooze", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def acknowledge_alerts(
        self, body: types.AlertsDecisionBody | None = None, *, idempotency_key: str | None = None
    ) -> types.DecidedAlertsView:
        """Take all alerts that match in hand, or count them: `dry_run`."""
        answer: types.DecidedAlertsView = self.request(
            "POST", "/alerts:acknowledge", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def close_alerts(
        self, body: types.AlertsDecisionBody | None = None, *, idempotency_key: str | None = None
    ) -> types.DecidedAlertsView:
        """Close all alerts that match, or count them: `dry_run`."""
        answer: types.DecidedAlertsView = self.request(
            "POST", "/alerts:close", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def analyse_runs(
        self,
        *,
        group_by: str | None = None,
        from_: str | None = None,
        until: str | None = None,
        sort: Literal["cpu", "failed", "runs", "seconds"] | None = None,
        top: int | None = None,
        status: Sequence[types.RunState] | None = None,
        trigger: Sequence[Literal["backfill", "missed", "retry", "run_now", "schedule", "sequence"]] | None = None,
        reason: str | None = None,
        executor_id: str | None = None,
        job_id: str | None = None,
        job_name: str | None = None,
        label: Sequence[str] | None = None,
        queue: str | None = None,
        format_: Literal["csv", "json"] | None = None,
    ) -> types.AnalyticsView:
        """Ended runs counted and measured by job, label, namespace, executor, reason or hour. Bounded in cost: where
        more runs match than are read one by one, the answer is of a sample or of the newest, and `coverage` says so.
        Callers that may read the runs of each namespace see all of them by `group_by=namespace`. By hour 31 days at
        most, otherwise 400. CSV by `Accept: text/csv` or `format=csv`."""
        answer: types.AnalyticsView = self.request(
            "GET",
            "/analytics",
            query={
                "group_by": group_by,
                "from": from_,
                "until": until,
                "sort": sort,
                "top": top,
                "status": status,
                "trigger": trigger,
                "reason": reason,
                "executor_id": executor_id,
                "job_id": job_id,
                "job_name": job_name,
                "label": label,
                "queue": queue,
                "format": format_,
            },
        ).body
        return answer

    def list_audit(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        actor: str | None = None,
        action: Literal[
            "alert.acknowledged",
            "alert.closed",
            "alert.reopened",
            "alert.snoozed",
            "announcement.added",
            "announcement.changed",
            "announcement.removed",
            "audit.exported",
            "auth.denied",
            "auth.device_approved",
            "auth.device_denied",
            "auth.factor_refused",
            "auth.factor_suspected",
            "auth.recovery_code_used",
            "auth.sign_in_failed",
            "auth.signed_in",
            "auth.signed_out",
            "auth.token_made",
            "auth.token_reused",
            "backfill.cancelled",
            "calendar.deleted",
            "calendar.put",
            "channel.added",
            "channel.changed",
            "channel.removed",
            "channel.secret_rotated",
            "channel.tested",
            "channel.tried_now",
            "error.ignored",
            "error.reopened",
            "error.resolved",
            "federation.added",
            "federation.removed",
            "identity_key.rotated",
            "job.cancelled",
            "job.changed",
            "job.created",
            "job.moved",
            "job.occurrence_moved",
            "job.paused",
            "job.resumed",
            "key.made",
            "key.revoked",
            "key.rotated",
            "key.used_first",
            "letter.settled",
            "namespace.added",
            "namespace.changed",
            "namespace.move_begun",
            "namespace.move_undone",
            "namespace.moved",
            "namespace.removed",
            "notice.sent_again",
            "notification_rule.added",
            "notification_rule.changed",
            "notification_rule.removed",
            "notification_rule.tested",
            "objective.added",
            "objective.removed",
            "operation.cancelled",
            "operation.requested",
            "queue.held",
            "queue.resumed",
            "request.refused",
            "role.dropped",
            "role.put",
            "run.cancelled",
            "run.postponed",
            "run.requested",
            "run.skipped",
            "secret.removed",
            "secret.rewrapped",
            "secret.set",
            "shard.added",
            "shard.changed",
            "shard.removed",
            "status_page.added",
            "status_page.changed",
            "status_page.removed",
            "stop.lifted",
            "stop.made",
            "task.stored",
            "user.added",
            "user.changed",
            "user.factor_enrolled",
            "user.factor_removed",
            "user.factor_renamed",
            "user.factors_reset",
            "user.identity_linked",
            "user.identity_unlinked",
            "user.link_made",
            "user.link_used",
            "user.password_changed",
            "user.recovery_codes_made",
            "user.registered",
            "view.removed",
            "view.saved",
            "window.deleted",
            "window.put",
        ]
        | None = None,
        target: str | None = None,
        namespace: str | None = None,
        limit: int | None = None,
    ) -> Iterator[types.AuditEntryView]:
        """The entries of the audit log, the newest first. Administrators of the installation see those of all
        namespaces, others those of theirs. A search by caller, action or thing looks at 10,000 entries a call: a
        page may have few entries, or none, and a `Link` to where the search goes on."""
        return self.items(
            "/audit",
            query={
                "since": since,
                "until": until,
                "actor": actor,
                "action": action,
                "target": target,
                "namespace": namespace,
                "limit": limit,
            },
        )

    def export_audit(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        actor: str | None = None,
        action: Literal[
            "alert.acknowledged",
            "alert.closed",
            "alert.reopened",
            "alert.snoozed",
            "announcement.added",
            "announcement.changed",
            "announcement.removed",
            "audit.exported",
            "auth.denied",
            "auth.device_approved",
            "auth.device_denied",
            "auth.factor_refused",
            "auth.factor_suspected",
            "auth.recovery_code_used",
            "auth.sign_in_failed",
            "auth.signed_in",
            "auth.signed_out",
            "auth.token_made",
            "auth.token_reused",
            "backfill.cancelled",
            "calendar.deleted",
            "calendar.put",
            "channel.added",
            "channel.changed",
            "channel.removed",
            "channel.secret_rotated",
            "channel.tested",
            "channel.tried_now",
            "error.ignored",
            "error.reopened",
            "error.resolved",
            "federation.added",
            "federation.removed",
            "identity_key.rotated",
            "job.cancelled",
            "job.changed",
            "job.created",
            "job.moved",
            "job.occurrence_moved",
            "job.paused",
            "job.resumed",
            "key.made",
            "key.revoked",
            "key.rotated",
            "key.used_first",
            "letter.settled",
            "namespace.added",
            "namespace.changed",
            "namespace.move_begun",
            "namespace.move_undone",
            "namespace.moved",
            "namespace.removed",
            "notice.sent_again",
            "notification_rule.added",
            "notification_rule.changed",
            "notification_rule.removed",
            "notification_rule.tested",
            "objective.added",
            "objective.removed",
            "operation.cancelled",
            "operation.requested",
            "queue.held",
            "queue.resumed",
            "request.refused",
            "role.dropped",
            "role.put",
            "run.cancelled",
            "run.postponed",
            "run.requested",
            "run.skipped",
            "secret.removed",
            "secret.rewrapped",
            "secret.set",
            "shard.added",
            "shard.changed",
            "shard.removed",
            "status_page.added",
            "status_page.changed",
            "status_page.removed",
            "stop.lifted",
            "stop.made",
            "task.stored",
            "user.added",
            "user.changed",
            "user.factor_enrolled",
            "user.factor_removed",
            "user.factor_renamed",
            "user.factors_reset",
            "user.identity_linked",
            "user.identity_unlinked",
            "user.link_made",
            "user.link_used",
            "user.password_changed",
            "user.recovery_codes_made",
            "user.registered",
            "view.removed",
            "view.saved",
            "window.deleted",
            "window.put",
        ]
        | None = None,
        target: str | None = None,
        namespace: str | None = None,
    ) -> bytes:
        """All entries that match, the oldest first, as lines of JSON. Each line is an entry as in the list. The
        export itself is an entry, too. It ends before the time `Tickwise-Until`: give that as `since` of the next
        export, and together they have each entry once."""
        return self.request_bytes(
            "/audit/export",
            query={
                "since": since,
                "until": until,
                "actor": actor,
                "action": action,
                "target": target,
                "namespace": namespace,
            },
        )

    def start_device_sign_in(self, body: types.DeviceBody) -> types.DeviceView:
        """Begin the sign-in of a terminal, which a person approves in a browser. Show `user_code` and
        `verification_uri`, and ask `POST /auth/token` every `interval` seconds with `grant_type`
        `urn:ietf:params:oauth:grant-type:device_code` and the `device_code`: `authorization_pending` until the
        person has decided."""
        answer: types.DeviceView = self.request("POST", "/auth/device", body=body).body
        return answer

    def list_identity_keys(self) -> list[types.IdentityKeyView]:
        """The keys of identity tokens, for administrators of the installation."""
        answer: list[types.IdentityKeyView] = self.request("GET", "/auth/identity-keys").body
        return answer

    def rotate_identity_key(
        self, body: types.IdentityKeyRotation, *, idempotency_key: str | None = None
    ) -> types.IdentityKeyView:
        """Make another key for identity tokens. It is published now and signs 15 minutes later, when those who check
        tokens have read it."""
        answer: types.IdentityKeyView = self.request(
            "POST", "/auth/identity-keys:rotate", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def create_session_link(self) -> types.SessionLinkView:
        """A link that opens the pages in a browser of the server's machine, once, signed in as the key. For callers
        on the server's machine alone, and used there alone. The session ends with its key."""
        answer: types.SessionLinkView = self.request("POST", "/auth/links").body
        return answer

    def who_am_i(self) -> types.CallerView:
        """The caller of this request, with the permissions in its namespace."""
        answer: types.CallerView = self.request("GET", "/auth/me").body
        return answer

    def list_providers(self) -> types.WaysInView:
        """The ways to sign in as a person: the provider, and passwords."""
        answer: types.WaysInView = self.request("GET", "/auth/providers").body
        return answer

    def provider_logout(self, body: bytes) -> types.LoggedOutView:
        """End the sessions that a logout token of the provider names. OpenID Connect Back-Channel Logout 1.0: the
        provider sends a form with a signed `logout_token`, which counts once. Browser sessions of the named session
        end, and all refresh tokens of the person."""
        answer: types.LoggedOutView = self.request(
            "POST",
            "/auth/providers/logout",
            body=body,
            headers=given({"Content-Type": "application/x-www-form-urlencoded"}),
        ).body
        return answer

    def create_recovery_codes(self, body: types.OwnPasswordBody) -> types.RecoveryCodesView:
        """Make ten recovery codes, shown only once. Earlier ones stop working. It asks for the present password.
        Each code stands in for a second factor once."""
        answer: types.RecoveryCodesView = self.request("POST", "/auth/recovery-codes", body=body).body
        return answer

    def revoke_token(self, body: types.RevokeBody) -> types.RevokedView:
        """End the session of a refresh token. A token that is not known is no error."""
        answer: types.RevokedView = self.request("POST", "/auth/revoke", body=body).body
        return answer

    def list_second_factors(self) -> types.OwnFactorsView:
        """The second factors of the person who asks."""
        answer: types.OwnFactorsView = self.request("GET", "/auth/second-factors").body
        return answer

    def begin_second_factor(self, body: types.CodesBody) -> types.CodesEnrolmentView:
        """Begin to enrol an app with codes (TOTP): the answer has its seed, shown only once. It asks for the present
        password, and works once its first code is confirmed, within 30 minutes. Passkeys are enrolled in the pages."""
        answer: types.CodesEnrolmentView = self.request("POST", "/auth/second-factors", body=body).body
        return answer

    def rename_second_factor(self, factor_id: str, body: types.FactorChangeBody) -> types.OwnFactorsView:
        """Give a second factor another name. It asks for the present password."""
        answer: types.OwnFactorsView = self.request("PATCH", f"/auth/second-factors/{safe(factor_id)}", body=body).body
        return answer

    def confirm_second_factor(self, factor_id: str, body: types.CodeBody) -> types.RecoveryCodesView:
        """Confirm an app by its first code. The first factor ends all sessions of the person. With the first factor
        the answer has ten recovery codes, shown only once: sign in again with the password and a code."""
        answer: types.RecoveryCodesView = self.request(
            "POST", f"/auth/second-factors/{safe(factor_id)}/confirm", body=body
        ).body
        return answer

    def remove_second_factor(self, factor_id: str, body: types.OwnPasswordBody) -> types.OwnFactorsView:
        """Remove a second factor. It asks for the present password. The last one of a person whose role requires one
        stays. With the last one, the recovery codes go too."""
        answer: types.OwnFactorsView = self.request(
            "POST", f"/auth/second-factors/{safe(factor_id)}/remove", body=body
        ).body
        return answer

    def end_sessions(self) -> types.RevokedView:
        """End all sessions of the person who asks."""
        answer: types.RevokedView = self.request("DELETE", "/auth/sessions").body
        return answer

    def create_token(self, body: types.TokenBody) -> types.TokenView:
        """A token that works for ten minutes, for a password, a refresh token, a key, a terminal that a person
        approved, or the token of another issuer. Use it as `Authorization: Bearer`. A refresh token works once;
        shown again, it ends its session, because one of the two clients stole it. A person with a second factor gets
        the problem `second_factor_required` for a right password, with a `challenge` that works for five minutes:
        send it with `grant_type` `second_factor` and a `code`. Keys and refresh tokens are not asked for one. A
        terminal gets 400 with the `code` `authorization_pending` or `slow_down` while it waits, and `access_denied`
        or `expired_token` when it gets none."""
        answer: types.TokenView = self.request("POST", "/auth/token", body=body).body
        return answer

    def list_calendars(self, *, limit: int | None = None) -> Iterator[types.CalendarItem]:
        """The calendars, by name."""
        return self.items("/calendars", query={"limit": limit})

    def put_calendar(self, name: str, body: types.CalendarBody, *, if_match: str | None = None) -> types.CalendarView:
        """Create a calendar, or replace it as a whole. Jobs name it in `calendars`. Times that it closes from now on
        are decided again; existing runs stay. `holidays` and `ics` are resolved now, from the first day of last year
        for ten years on."""
        answer: types.CalendarView = self.request(
            "PUT", f"/calendars/{safe(name)}", body=body, headers=given({"If-Match": if_match})
        ).body
        return answer

    def get_calendar(self, name: str) -> types.CalendarView:
        """A calendar, as it was sent and as it was resolved."""
        answer: types.CalendarView = self.request("GET", f"/calendars/{safe(name)}").body
        return answer

    def delete_calendar(self, name: str, *, if_match: str | None = None) -> types.CalendarView:
        """Delete a calendar that no job uses, and return its last version."""
        answer: types.CalendarView = self.request(
            "DELETE", f"/calendars/{safe(name)}", headers=given({"If-Match": if_match})
        ).body
        return answer

    def get_calendar_covers(
        self, name: str, *, from_: str | None = None, to: str | None = None, limit: int | None = None
    ) -> types.CoversView:
        """The times that a calendar covers."""
        answer: types.CoversView = self.request(
            "GET", f"/calendars/{safe(name)}/covers", query={"from": from_, "to": to, "limit": limit}
        ).body
        return answer

    def preview_calendar(
        self, body: types.CalendarPreviewBody, *, idempotency_key: str | None = None
    ) -> types.CoversView:
        """The times that a calendar would cover, without storing it."""
        answer: types.CoversView = self.request(
            "POST", "/calendars:preview", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def create_channel(self, body: types.ChannelBody) -> types.MadeChannelView:
        """Make a channel: an address that notices are sent to. A `webhook` is sent as JSON and signed as Standard
        Webhooks says; its secret is in this answer alone. An `email` has `to`, and `from` and `url` unless the
        installation has a mail server of its own. `slack` takes the address of an incoming webhook, `apprise` any
        address of that library (Teams, ntfy, PagerDuty, …). An address in a private network needs `allow_private`,
        which administrators of the installation set. The answer is not kept, so an Idempotency-Key has no effect."""
        answer: types.MadeChannelView = self.request("POST", "/channels", body=body).body
        return answer

    def list_channels(self, *, installation: bool | None = None) -> list[types.ChannelView]:
        """All channels by name, with the outcome of their newest deliveries."""
        answer: list[types.ChannelView] = self.request("GET", "/channels", query={"installation": installation}).body
        return answer

    def get_channel(self, channel_id: str) -> types.ChannelView:
        """One channel."""
        answer: types.ChannelView = self.request("GET", f"/channels/{safe(channel_id)}").body
        return answer

    def change_channel(self, channel_id: str, body: types.ChannelChangeBody) -> types.ChannelView:
        """Change fields of a channel; its kind and its secret stay."""
        answer: types.ChannelView = self.request("PATCH", f"/channels/{safe(channel_id)}", body=body).body
        return answer

    def remove_channel(self, channel_id: str) -> types.ChannelView:
        """Remove a channel: it leaves its rules, its waiting notices are dropped; it is returned as it was."""
        answer: types.ChannelView = self.request("DELETE", f"/channels/{safe(channel_id)}").body
        return answer

    def rotate_channel_secret(self, channel_id: str) -> types.MadeChannelView:
        """Give a webhook another signing secret; the present one no longer signs. The answer is not kept, so an
        Idempotency-Key has no effect."""
        answer: types.MadeChannelView = self.request("POST", f"/channels/{safe(channel_id)}/rotate-secret").body
        return answer

    def test_channel(
        self, channel_id: str, *, wait: float | None = None, idempotency_key: str | None = None
    ) -> types.NoticeView:
        """Send a test notice. `GET /notices/{notice_id}` says what became of it."""
        answer: types.NoticeView = self.request(
            "POST",
            f"/channels/{safe(channel_id)}/test",
            query={"wait": wait},
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def try_channel_now(self, channel_id: str, *, idempotency_key: str | None = None) -> types.ChannelView:
        """Try a resting channel now, with the notices that wait for it. A channel whose tries fail rests, longer
        with each failure: meanwhile no notice of it is sent but tests. This ends the rest; if the next try fails
        too, the channel rests longer. Without effect on one that does not rest."""
        answer: types.ChannelView = self.request(
            "POST", f"/channels/{safe(channel_id)}/try-now", headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_dead_letters(
        self,
        *,
        status: Sequence[types.LetterStatus] | None = None,
        job_id: str | None = None,
        task_kind: str | None = None,
        reason: str | None = None,
        error_id: str | None = None,
        ended_after: str | None = None,
        ended_before: str | None = None,
        limit: int | None = None,
    ) -> Iterator[types.LetterView]:
        """Search dead letters: runs that failed for good, newest first. A search looks at a bounded number of failed
        runs for each page: a page may be short or empty, and its `Link` leads on."""
        return self.items(
            "/dead-letters",
            query={
                "status": status,
                "job_id": job_id,
                "task_kind": task_kind,
                "reason": reason,
                "error_id": error_id,
                "ended_after": ended_after,
                "ended_before": ended_before,
                "limit": limit,
            },
        )

    def get_dead_letter(self, run_id: str) -> types.LetterDetailView:
        """One dead letter with all attempts of its run, and its origin or its follow-up."""
        answer: types.LetterDetailView = self.request("GET", f"/dead-letters/{safe(run_id)}").body
        return answer

    def decide_dead_letter(
        self, run_id: str, body: types.DecideBody, *, idempotency_key: str | None = None
    ) -> types.LetterView | types.LetterSettledView:
        """Decide a run whose outcome is unknown (status `held`). The run stays on record as FAILED, with reason
        `unknown_outcome`. A sequence continues by this decision. To run it again instead, redrive it."""
        answer: types.LetterView | types.LetterSettledView = self.request(
            "POST",
            f"/dead-letters/{safe(run_id)}/decide",
            body=body,
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def discard_dead_letter(
        self, run_id: str, body: types.DiscardBody | None = None, *, idempotency_key: str | None = None
    ) -> types.LetterView | types.LetterSettledView:
        """Discard a dead letter; the run stays on record as FAILED."""
        answer: types.LetterView | types.LetterSettledView = self.request(
            "POST",
            f"/dead-letters/{safe(run_id)}/discard",
            body=body,
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def redrive_dead_letter(
        self, run_id: str, body: types.RedriveBody | None = None, *, idempotency_key: str | None = None
    ) -> types.RunDemanded:
        """Run a dead letter again as a new run, with its payload or another; the two are linked."""
        answer: types.RunDemanded = self.request(
            "POST",
            f"/dead-letters/{safe(run_id)}/redrive",
            body=body,
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def discard_dead_letters(
        self, body: types.LettersDiscardBody, *, idempotency_key: str | None = None
    ) -> types.LettersMatched:
        """Discard the dead letters that a filter matches. Answers 202 with an operation, which is carried out in the
        background and survives restarts; one that matches nothing is done at once. With `dry_run` it answers 200
        with the number of targets and the first ten of them (none without the permission to read them), and nothing
        is changed."""
        answer: types.LettersMatched = self.request(
            "POST", "/dead-letters:discard", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def redrive_dead_letters(
        self, body: types.LettersRedriveBody, *, idempotency_key: str | None = None
    ) -> types.LettersMatched:
        """Redrive the dead letters that a filter matches. Answers 202 with an operation, which is carried out in the
        background and survives restarts; one that matches nothing is done at once. With `dry_run` it answers 200
        with the number of targets and the first ten of them (none without the permission to read them), and nothing
        is changed."""
        answer: types.LettersMatched = self.request(
            "POST", "/dead-letters:redrive", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_errors(
        self,
        *,
        status: Sequence[Literal["ignored", "open", "resolved"]] | None = None,
        reason: str | None = None,
        task_kind: str | None = None,
        text: str | None = None,
        job_id: str | None = None,
        seen_after: str | None = None,
        first_seen_after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[types.ErrorView]:
        """Search groups of errors: failures of one cause, the group that failed last first. Attempts that are tried
        again count, and runs that failed for good. A failure is in its group about a second after it. A group that
        fails while you page moves to the front of the list."""
        return self.items(
            "/errors",
            query={
                "status": status,
                "reason": reason,
                "task_kind": task_kind,
                "text": text,
                "job_id": job_id,
                "seen_after": seen_after,
                "first_seen_after": first_seen_after,
                "limit": limit,
            },
        )

    def get_error(self, error_id: str) -> types.ErrorDetailView:
        """One group, with its jobs and its failures by the hour."""
        answer: types.ErrorDetailView = self.request("GET", f"/errors/{safe(error_id)}").body
        return answer

    def ignore_error(
        self, error_id: str, body: types.ErrorIgnoreBody, *, idempotency_key: str | None = None
    ) -> types.ErrorView | types.ErrorDecidedView:
        """Ignore a group until a time, or for a number of failures."""
        answer: types.ErrorView | types.ErrorDecidedView = self.request(
            "POST", f"/errors/{safe(error_id)}/ignore", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def reopen_error(
        self, error_id: str, *, idempotency_key: str | None = None
    ) -> types.ErrorView | types.ErrorDecidedView:
        """Open a group again: what was decided about it is taken back."""
        answer: types.ErrorView | types.ErrorDecidedView = self.request(
            "POST", f"/errors/{safe(error_id)}/reopen", headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def resolve_error(
        self, error_id: str, body: types.ErrorResolveBody | None = None, *, idempotency_key: str | None = None
    ) -> types.ErrorView | types.ErrorDecidedView:
        """Resolve a group; it is open again when it fails again. A failure from before the decision that is counted
        after it does not open the group. To run its dead letters again, redrive dead letters with the filter
        `error_id`."""
        answer: types.ErrorView | types.ErrorDecidedView = self.request(
            "POST", f"/errors/{safe(error_id)}/resolve", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_executors(self) -> list[types.ExecutorView]:
        """Active executors, and those gone within the last hour."""
        answer: list[types.ExecutorView] = self.request("GET", "/executors").body
        return answer

    def create_federation(
        self, body: types.FederationBody, *, idempotency_key: str | None = None
    ) -> types.FederationView:
        """Trust the tokens of another issuer that meet conditions: programs show them in place of a key. A program
        sends its token to `POST /auth/token` with the `grant_type` `urn:ietf:params:oauth:grant-type:jwt-bearer`,
        and gets an access token. It is bounded as a key is: by the one that makes it, and by its owner."""
        answer: types.FederationView = self.request(
            "POST", "/federations", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_federations(
        self, *, limit: int | None = None, namespace: str | None = None
    ) -> Iterator[types.FederationView]:
        """The federations that work in the namespace, the newest first."""
        return self.items("/federations", query={"limit": limit, "namespace": namespace})

    def get_federation(self, federation_id: str) -> types.FederationView:
        """One federation."""
        answer: types.FederationView = self.request("GET", f"/federations/{safe(federation_id)}").body
        return answer

    def remove_federation(self, federation_id: str) -> types.RemovedFederationView:
        """End a federation, with the access tokens that it gave."""
        answer: types.RemovedFederationView = self.request("DELETE", f"/federations/{safe(federation_id)}").body
        return answer

    def create_job(self, body: types.JobBody, *, idempotency_key: str | None = None) -> types.JobCreated:
        """Create a job. The answer comes once it is durable. Where requests are buffered (`ingest`), the answer is
        202 as soon as the broker has it, and the outcome is at `/operations/{operation_id}`."""
        answer: types.JobCreated = self.request(
            "POST", "/jobs", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_jobs(
        self,
        *,
        name: str | None = None,
        key: str | None = None,
        label: Sequence[str] | None = None,
        status: Sequence[Literal["CANCELLED", "COMPLETED", "FAILED", "PAUSED", "SCHEDULED"]] | None = None,
        schedule_type: types.ScheduleType | None = None,
        task_kind: str | None = None,
        owner: str | None = None,
        next_run_after: str | None = None,
        next_run_before: str | None = None,
        job_id: Sequence[str] | None = None,
        id_end: str | None = None,
        next_allowed: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[types.JobView]:
        """List and search jobs, newest first. A search looks at a bounded number of jobs for each page: a page may
        be short, or empty, and its `Link` leads on. Then jobs that recur or run on demand come first, and older one-
        time jobs behind them."""
        return self.items(
            "/jobs",
            query={
                "name": name,
                "key": key,
                "label": label,
                "status": status,
                "schedule_type": schedule_type,
                "task_kind": task_kind,
                "owner": owner,
                "next_run_after": next_run_after,
                "next_run_before": next_run_before,
                "job_id": job_id,
                "id_end": id_end,
                "next_allowed": next_allowed,
                "limit": limit,
            },
        )

    def get_job_by_key(self, key: str) -> types.JobView:
        """One job, by its key."""
        answer: types.JobView = self.request("GET", f"/jobs/by-key/{safe(key)}").body
        return answer

    def upsert_job(
        self, key: str, body: types.JobChangeBody, *, if_match: str | None = None
    ) -> types.JobView | types.JobWrittenView | types.JobCreated:
        """Change the job with this key, or create it."""
        answer: types.JobView | types.JobWrittenView | types.JobCreated = self.request(
            "PUT", f"/jobs/by-key/{safe(key)}", body=body, headers=given({"If-Match": if_match})
        ).body
        return answer

    def get_job(self, job_id: str) -> types.JobView:
        """One job with every field."""
        answer: types.JobView = self.request("GET", f"/jobs/{safe(job_id)}").body
        return answer

    def change_job(
        self,
        job_id: str,
        body: types.JobChangeBody,
        *,
        dry_run: bool | None = None,
        if_version: int | None = None,
        if_match: str | None = None,
    ) -> types.JobView | types.JobWrittenView | types.ChangeView:
        """Change the fields that are sent; a new schedule replaces the old one as a whole and counts from now. No
        change makes a run of the past: occurrences that were due and have no run are recorded as skipped. A paused
        job stays paused. Where requests are buffered (`ingest`), the answer is 202 as soon as the broker has it, and
        the outcome is at `/operations/{operation_id}`. With a precondition, `if_version` or `dry_run` it is not
        buffered."""
        answer: types.JobView | types.JobWrittenView | types.ChangeView = self.request(
            "PUT",
            f"/jobs/{safe(job_id)}",
            body=body,
            query={"dry_run": dry_run, "if_version": if_version},
            headers=given({"If-Match": if_match}),
        ).body
        return answer

    def patch_job(
        self,
        job_id: str,
        body: types.JobChangeBody,
        *,
        dry_run: bool | None = None,
        if_version: int | None = None,
        if_match: str | None = None,
    ) -> types.JobView | types.JobWrittenView | types.ChangeView:
        """Change the fields that are sent, as PUT does. As `application/merge-patch+json` (RFC 7396) an object
        changes the members that it has, and null takes one away; as `application/json` it replaces the whole object.
        Where requests are buffered (`ingest`), the answer is 202 as soon as the broker has it, and the outcome is at
        `/operations/{operation_id}`. With a precondition, `if_version` or `dry_run`, or as a merge patch, it is not
        buffered."""
        answer: types.JobView | types.JobWrittenView | types.ChangeView = self.request(
            "PATCH",
            f"/jobs/{safe(job_id)}",
            body=body,
            query={"dry_run": dry_run, "if_version": if_version},
            headers=given({"If-Match": if_match}),
        ).body
        return answer

    def cancel_job(self, job_id: str, *, if_match: str | None = None) -> types.JobView | types.JobWrittenView:
        """Cancel a job and ask its running attempt to stop. Where requests are buffered (`ingest`), the answer is
        202 as soon as the broker has it, and the outcome is at `/operations/{operation_id}`. With a precondition it
        is not buffered."""
        answer: types.JobView | types.JobWrittenView = self.request(
            "DELETE", f"/jobs/{safe(job_id)}", headers=given({"If-Match": if_match})
        ).body
        return answer

    def backfill(
        self, job_id: str, body: types.BackfillBody, *, idempotency_key: str | None = None
    ) -> types.BackfillView:
        """Run the occurrences of a range of the past, the earliest first, by the schedule as it is now. Each run
        keeps its nominal time and has the trigger `backfill`. Calendars apply; the past of the job itself (whether
        it was there, paused, or ran) does not."""
        answer: types.BackfillView = self.request(
            "POST", f"/jobs/{safe(job_id)}/backfill", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def cancel_backfill(
        self, job_id: str, backfill_id: str, *, idempotency_key: str | None = None
    ) -> types.BackfillCancelled:
        """End the runs of a backfill that have not ended."""
        answer: types.BackfillCancelled = self.request(
            "POST",
            f"/jobs/{safe(job_id)}/backfills/{safe(backfill_id)}/cancel",
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def explain_job(self, job_id: str, *, at: str | None = None) -> types.ExplanationView:
        """Explain why a job did, or did not, run at a time, or does not run now."""
        answer: types.ExplanationView = self.request("GET", f"/jobs/{safe(job_id)}/explain", query={"at": at}).body
        return answer

    def move_job(
        self, job_id: str, body: types.JobMoveBody, *, idempotency_key: str | None = None
    ) -> types.JobView | types.JobWrittenView:
        """Move a job to another namespace, with its id, key, schedule and standing. Needs `jobs:write` in both. The
        job must have no unfinished run (409, `job_busy`). The stored task or script, the calendars and the
        successors that it names must be there, too (409, `references_missing`, names those that are not). Ended
        runs, with logs and dead letters, stay in the namespace in which they ran; from there nothing is run again.
        Sent again, it returns the job as it is."""
        answer: types.JobView | types.JobWrittenView = self.request(
            "POST", f"/jobs/{safe(job_id)}/move", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_occurrences(
        self, job_id: str, *, from_: str | None = None, to: str | None = None, limit: int | None = None
    ) -> Iterator[types.TimeLineEntry]:
        """The time line of a job: past occurrences with their outcomes, held ones, and those to come. The earliest
        first. Calendars, windows, pauses and jitter are applied to those to come, by the rules of now. Runs
        requested beside the schedule are not in it."""
        return self.items(f"/jobs/{safe(job_id)}/occurrences", query={"from": from_, "to": to, "limit": limit})

    def pause_job(
        self,
        job_id: str,
        body: types.PauseBody | None = None,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> types.JobView | types.JobWrittenView:
        """Stop the schedule of a recurring job, for good or until a time."""
        answer: types.JobView | types.JobWrittenView = self.request(
            "POST",
            f"/jobs/{safe(job_id)}/pause",
            body=body,
            headers=given({"Idempotency-Key": idempotency_key, "If-Match": if_match}),
        ).body
        return answer

    def preview_job(
        self, job_id: str, *, from_: str | None = None, count: int | None = None, viewer_timezone: str | None = None
    ) -> types.PreviewView:
        """The next fires of a job, in its zone and the viewer's; calendars are applied."""
        answer: types.PreviewView = self.request(
            "GET",
            f"/jobs/{safe(job_id)}/preview",
            query={"from": from_, "count": count, "viewer_timezone": viewer_timezone},
        ).body
        return answer

    def resume_job(
        self,
        job_id: str,
        body: types.ResumeBody | None = None,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> types.JobView | types.JobWrittenView:
        """Resume the schedule from now. Occurrences of the pause stay on record, and run only if asked for."""
        answer: types.JobView | types.JobWrittenView = self.request(
            "POST",
            f"/jobs/{safe(job_id)}/resume",
            body=body,
            headers=given({"Idempotency-Key": idempotency_key, "If-Match": if_match}),
        ).body
        return answer

    def run_job_now(
        self, job_id: str, body: types.RunNowBody | None = None, *, idempotency_key: str | None = None
    ) -> types.RunDemanded:
        """Ask for one run beside the schedule."""
        answer: types.RunDemanded = self.request(
            "POST", f"/jobs/{safe(job_id)}/runNow", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_job_runs(
        self,
        job_id: str,
        *,
        status: Sequence[types.RunState] | None = None,
        trigger: Sequence[Literal["backfill", "missed", "retry", "run_now", "schedule", "sequence"]] | None = None,
        origin: str | None = None,
        reason: str | None = None,
        executor_id: str | None = None,
        due_after: str | None = None,
        due_before: str | None = None,
        limit: int | None = None,
    ) -> Iterator[types.RunView]:
        """The runs of a job, newest first."""
        return self.items(
            f"/jobs/{safe(job_id)}/runs",
            query={
                "status": status,
                "trigger": trigger,
                "origin": origin,
                "reason": reason,
                "executor_id": executor_id,
                "due_after": due_after,
                "due_before": due_before,
                "limit": limit,
            },
        )

    def skip_next(
        self, job_id: str, body: types.SkipNextBody | None = None, *, idempotency_key: str | None = None
    ) -> types.OccurrenceView:
        """Skip the next occurrence; the schedule stays (202: an executor holds it and was asked to give it up). Sent
        again, it skips the next one; name the intended one with `occurrence`. Occurrences that calendars, windows or
        stops skip anyway are passed over, and go on record with it."""
        answer: types.OccurrenceView = self.request(
            "POST", f"/jobs/{safe(job_id)}/skipNext", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def snooze(
        self, job_id: str, body: types.SnoozeBody, *, idempotency_key: str | None = None
    ) -> types.OccurrenceView:
        """Let the next occurrence run at another time; it keeps its nominal time, and the schedule stays."""
        answer: types.OccurrenceView = self.request(
            "POST", f"/jobs/{safe(job_id)}/snooze", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def get_job_status(self, job_id: str) -> types.StatusView:
        """The latest run of a job."""
        answer: types.StatusView = self.request("GET", f"/jobs/{safe(job_id)}/status").body
        return answer

    def create_jobs(
        self,
        body: list[types.JobBody] | types.JobsBody,
        *,
        atomic: bool | None = None,
        idempotency_key: str | None = None,
    ) -> types.BatchView:
        """Create up to 10,000 jobs in one transaction. Where requests are buffered (`ingest`), the answer is 202 as
        soon as the broker has it, and the outcome is at `/operations/{operation_id}`. One that is `atomic` is not
        buffered."""
        answer: types.BatchView = self.request(
            "POST",
            "/jobs:batch",
            body=body,
            query={"atomic": atomic},
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def cancel_jobs(self, body: types.JobsCancelBody, *, idempotency_key: str | None = None) -> types.JobsMatched:
        """Cancel the jobs that a filter matches, for good. Answers 202 with an operation, which is carried out in
        the background and survives restarts; one that matches nothing is done at once. With `dry_run` it answers 200
        with the number of targets and the first ten of them (none without the permission to read them), and nothing
        is changed."""
        answer: types.JobsMatched = self.request(
            "POST", "/jobs:cancel", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def pause_jobs(self, body: types.JobsPauseBody, *, idempotency_key: str | None = None) -> types.JobsMatched:
        """Pause the jobs that a filter matches. Answers 202 with an operation, which is carried out in the
        background and survives restarts; one that matches nothing is done at once. With `dry_run` it answers 200
        with the number of targets and the first ten of them (none without the permission to read them), and nothing
        is changed."""
        answer: types.JobsMatched = self.request(
            "POST", "/jobs:pause", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def preview_schedule(self, body: types.PreviewBody, *, idempotency_key: str | None = None) -> types.PreviewView:
        """The next fires of a schedule that is not saved."""
        answer: types.PreviewView = self.request(
            "POST", "/jobs:preview", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def resume_jobs(self, body: types.JobsResumeBody, *, idempotency_key: str | None = None) -> types.JobsMatched:
        """Resume the paused jobs that a filter matches. Answers 202 with an operation, which is carried out in the
        background and survives restarts; one that matches nothing is done at once. With `dry_run` it answers 200
        with the number of targets and the first ten of them (none without the permission to read them), and nothing
        is changed."""
        answer: types.JobsMatched = self.request(
            "POST", "/jobs:resume", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def create_key(self, body: types.KeyBody) -> types.MadeKeyView:
        """Make a key, at most as strong as the one that makes it. Its secret is shown only once. A new key has at
        most the permissions, namespaces, labels and expiry of the key that makes it. A key that a person makes, and
        each that it makes in turn, works with the permissions of that person: it does at most what they may do now,
        and nothing once they are deactivated. A `role` stands for its permissions as they are now. The answer is not
        kept, so an Idempotency-Key has no effect: a repeat makes one more key."""
        answer: types.MadeKeyView = self.request("POST", "/keys", body=body).body
        return answer

    def list_keys(self, *, limit: int | None = None, namespace: str | None = None) -> Iterator[types.KeyView]:
        """The keys that work in the namespace, the newest first, also those that are revoked or have expired. Of a
        key whose home is another namespace, its name, permissions and times are told, and no other namespace, owner
        or maker. Keys that work in all namespaces are listed in their home. A caller with `keys:admin` in the
        installation sees the keys of all namespaces, whole."""
        return self.items("/keys", query={"limit": limit, "namespace": namespace})

    def revoke_key(self, key_id: str) -> types.KeyView:
        """Revoke a key permanently, and return it. Each process of the API refuses it at once where signals come
        through, and within 4 seconds where they do not. Revoking it again changes nothing. A key that works in
        several namespaces is revoked in that of the request, and works in the others. A caller with `keys:admin` in
        the installation revokes keys of each namespace, everywhere."""
        answer: types.KeyView = self.request("DELETE", f"/keys/{safe(key_id)}").body
        return answer

    def rotate_key(self, key_id: str, body: types.KeyRotateBody | None = None) -> types.MadeKeyView:
        """Give a key another secret; the present one works until the overlap ends. The key keeps its id, name,
        permissions, namespaces, owner and expiry. A key may rotate itself, by its present secret. Another one needs
        `keys:admin`, at least its permissions, and a credential that works for as long as the key: no person, and no
        key of a person, is told the secret of a key that does not depend on that person. In an overlap, only a
        rotation with `overlap_seconds` 0 is taken: it ends all earlier secrets. Of several rotations at once, one
        succeeds; the others are 409. The answer is not kept, so an Idempotency-Key has no effect."""
        answer: types.MadeKeyView = self.request("POST", f"/keys/{safe(key_id)}/rotate", body=body).body
        return answer

    def search_logs(
        self,
        *,
        find: str,
        job_id: str | None = None,
        job_name: str | None = None,
        status: Sequence[types.RunState] | None = None,
        due_after: str | None = None,
        due_before: str | None = None,
        limit: int | None = None,
        bytes_most: int | None = None,
        seconds: float | None = None,
        before: str | None = None,
    ) -> types.LogSearchView:
        """Lines with a text in the outputs of runs, newest run first. A scan of the newest attempt of each run that
        matches, without an index: name a job, a state or a time. An answer ends at its bounds of lines, bytes,
        seconds or 1,000 runs, and leads on by `next_before`; it may have no hit and lead on. Of one log the first 16
        MiB are searched."""
        answer: types.LogSearchView = self.request(
            "GET",
            "/logs",
            query={
                "find": find,
                "job_id": job_id,
                "job_name": job_name,
                "status": status,
                "due_after": due_after,
                "due_before": due_before,
                "limit": limit,
                "bytes_most": bytes_most,
                "seconds": seconds,
                "before": before,
            },
        ).body
        return answer

    def create_namespace(self, body: types.NamespaceBody, *, idempotency_key: str | None = None) -> types.NamespaceView:
        """Add a namespace: a tenant, with jobs, keys and members of its own. For administrators of the installation.
        The same body again is answered with the namespace that is there."""
        answer: types.NamespaceView = self.request(
            "POST", "/namespaces", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_namespaces(self, *, limit: int | None = None) -> Iterator[types.NamespaceView]:
        """Namespaces by name: all for an administrator of the installation, else that of the request."""
        return self.items("/namespaces", query={"limit": limit})

    def get_namespace(self, namespace: str) -> types.NamespaceView:
        """One namespace."""
        answer: types.NamespaceView = self.request("GET", f"/namespaces/{safe(namespace)}").body
        return answer

    def change_namespace(self, namespace: str, body: types.NamespaceChangeBody) -> types.NamespaceView:
        """Change the display name or the state of a namespace. The state is for administrators of the installation.
        After the answer that it is `closing`, a namespace takes nothing new: jobs, runs on demand, tasks, calendars,
        windows, keys and members are refused with 409, `namespace_closing`. Schedules and sequences that are there
        go on, and it can be opened again."""
        answer: types.NamespaceView = self.request("PATCH", f"/namespaces/{safe(namespace)}", body=body).body
        return answer

    def remove_namespace(self, namespace: str) -> types.NamespaceView:
        """Remove a namespace that is closing, with all that it holds. This cannot be undone. Keys, members and roles
        of the namespace lose access at once. Schedulers then cancel its jobs, wait for the runs to stop, and delete
        everything: jobs, history, logs, letters, tasks, calendars, windows, holds, operations. `GET` shows the state
        `removing` and what is left, and answers 404 at the end; from then on the name is free."""
        answer: types.NamespaceView = self.request("DELETE", f"/namespaces/{safe(namespace)}").body
        return answer

    def get_quotas(self, namespace: str) -> types.QuotasView:
        """The quotas of a namespace."""
        answer: types.QuotasView = self.request("GET", f"/namespaces/{safe(namespace)}/quotas").body
        return answer

    def set_quotas(self, namespace: str, body: types.QuotasBody) -> types.QuotasView:
        """Replace the quotas of a namespace. For administrators of the installation. What is left out has no quota.
        They are in force within four seconds; what is there already stays."""
        answer: types.QuotasView = self.request("PUT", f"/namespaces/{safe(namespace)}/quotas", body=body).body
        return answer

    def list_access_roles(self, namespace: str) -> list[types.AccessRoleView]:
        """The roles that can be given in the namespace: the built-in ones, then its own by name."""
        answer: list[types.AccessRoleView] = self.request("GET", f"/namespaces/{safe(namespace)}/roles").body
        return answer

    def put_access_role(self, namespace: str, name: str, body: types.RolePermissionsBody) -> types.AccessRoleView:
        """Make a custom role of the namespace, or replace its permissions. `*` in place of the namespace is the
        whole installation. Nobody makes or changes a role that holds more than their own permissions. A change ends
        the tokens of the people who have the role, within 4 seconds."""
        answer: types.AccessRoleView = self.request(
            "PUT", f"/namespaces/{safe(namespace)}/roles/{safe(name)}", body=body
        ).body
        return answer

    def remove_access_role(self, namespace: str, name: str) -> types.AccessRoleView:
        """Remove a custom role that no person has, and return it."""
        answer: types.AccessRoleView = self.request("DELETE", f"/namespaces/{safe(namespace)}/roles/{safe(name)}").body
        return answer

    def get_usage(self, namespace: str) -> types.UsageView:
        """What a namespace uses of its quotas, counted now."""
        answer: types.UsageView = self.request("GET", f"/namespaces/{safe(namespace)}/usage").body
        return answer

    def list_notices(
        self,
        *,
        state: Sequence[Literal["dead", "delivered", "dropped", "waiting"]] | None = None,
        channel_id: str | None = None,
        rule_id: str | None = None,
        installation: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[types.NoticeView]:
        """Notices, the newest first: those that wait, were delivered, could not be delivered, were dropped."""
        return self.items(
            "/notices",
            query={
                "state": state,
                "channel_id": channel_id,
                "rule_id": rule_id,
                "installation": installation,
                "limit": limit,
            },
        )

    def get_notice(self, notice_id: str) -> types.NoticeView:
        """One notice."""
        answer: types.NoticeView = self.request("GET", f"/notices/{safe(notice_id)}").body
        return answer

    def send_notice_again(self, notice_id: str, *, idempotency_key: str | None = None) -> types.NoticeView:
        """Try a notice again that could not be delivered."""
        answer: types.NoticeView = self.request(
            "POST", f"/notices/{safe(notice_id)}/send-again", headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def create_notification_rule(
        self, body: types.NotificationRuleBody, *, idempotency_key: str | None = None
    ) -> types.NotificationRuleView:
        """Make a rule: which events of which jobs are told to which channels. `on` names the events. Without `jobs`
        and `labels` it concerns all jobs of the namespace. Its channels must be there. After the first notice of a
        burst, later ones are gathered (`group`); `quiet` hours hold all but critical ones back, `repeat` tells an
        open alert again, `escalate` tells further channels of one that nobody acknowledges. A rule that can never
        fire is refused."""
        answer: types.NotificationRuleView = self.request(
            "POST", "/notification-rules", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_notification_rules(
        self, *, installation: bool | None = None, limit: int | None = None
    ) -> Iterator[types.NotificationRuleView]:
        """Rules by name."""
        return self.items("/notification-rules", query={"installation": installation, "limit": limit})

    def get_notification_rule(self, rule_id: str) -> types.NotificationRuleView:
        """One rule."""
        answer: types.NotificationRuleView = self.request("GET", f"/notification-rules/{safe(rule_id)}").body
        return answer

    def change_notification_rule(
        self, rule_id: str, body: types.NotificationRuleChangeBody
    ) -> types.NotificationRuleView:
        """Change fields of a rule; those that are not sent stay, null takes one away."""
        answer: types.NotificationRuleView = self.request(
            "PATCH", f"/notification-rules/{safe(rule_id)}", body=body
        ).body
        return answer

    def remove_notification_rule(self, rule_id: str) -> types.NotificationRuleView:
        """Remove a rule: its alerts are closed, its waiting notices dropped; it is returned as it was."""
        answer: types.NotificationRuleView = self.request("DELETE", f"/notification-rules/{safe(rule_id)}").body
        return answer

    def test_notification_rule(
        self,
        rule_id: str,
        *,
        escalation: bool | None = None,
        wait: float | None = None,
        idempotency_key: str | None = None,
    ) -> list[types.NoticeView]:
        """Send a test notice to each channel of a rule, or of its escalation."""
        answer: list[types.NoticeView] = self.request(
            "POST",
            f"/notification-rules/{safe(rule_id)}/test",
            query={"escalation": escalation, "wait": wait},
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def preview_notification_rule(
        self, body: types.NotificationRuleBody, *, idempotency_key: str | None = None
    ) -> types.RulePreviewView:
        """Find the jobs that a rule would concern, and what of the last 24 hours it would have told."""
        answer: types.RulePreviewView = self.request(
            "POST", "/notification-rules:preview", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_objectives(self, *, limit: int | None = None) -> Iterator[types.ObjectiveView]:
        """Objectives for starts: error budgets, and how fast they burn. A job has one by `objective_start_seconds`
        and `objective_ratio`; others are made for a priority or labels. It is `burning` while two windows do: an
        hour and 5 minutes at 14.4 times the even rate, or 6 hours and 30 minutes at 6 times, with two late runs at
        least. Callers with labels are shown those of jobs alone."""
        return self.items("/objectives", query={"limit": limit})

    def create_objective(self, body: types.ObjectiveBody, *, idempotency_key: str | None = None) -> types.ObjectiveView:
        """Make an objective for all runs of the namespace, of a priority, or of jobs with labels. It counts the runs
        that end from then on, and those that wait too long. It cannot be changed: remove it, and make another one. A
        namespace has 20 at most."""
        answer: types.ObjectiveView = self.request(
            "POST", "/objectives", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def get_objective(self, objective_id: str) -> types.ObjectiveView:
        """One objective by priority or labels."""
        answer: types.ObjectiveView = self.request("GET", f"/objectives/{safe(objective_id)}").body
        return answer

    def remove_objective(self, objective_id: str) -> types.ObjectiveView:
        """Remove an objective by priority or labels, with its counts; it is returned as it was."""
        answer: types.ObjectiveView = self.request("DELETE", f"/objectives/{safe(objective_id)}").body
        return answer

    def list_operations(self, *, limit: int | None = None) -> Iterator[types.OperationView]:
        """List operations over many things at once, newest first. Those that the key may look at: operations of jobs
        with `jobs:read` or `jobs:write`, of runs and of dead letters with `runs:read` or `runs:write`."""
        return self.items("/operations", query={"limit": limit})

    def get_operation(self, operation_id: str) -> types.OperationView:
        """One operation and its progress. Needs `jobs:read` or `jobs:write` for an operation of jobs, `runs:read` or
        `runs:write` for one of runs or dead letters."""
        answer: types.OperationView = self.request("GET", f"/operations/{safe(operation_id)}").body
        return answer

    def cancel_operation(self, operation_id: str, *, idempotency_key: str | None = None) -> types.OperationView:
        """Stop an operation; finished items stay done. Needs the scope with which it was asked for: `jobs:write` for
        an operation of jobs, `runs:write` for one of runs or dead letters."""
        answer: types.OperationView = self.request(
            "POST", f"/operations/{safe(operation_id)}/cancel", headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_queues(self) -> list[types.QueueView]:
        """Queues by name: their waiting and running runs, and their holds."""
        answer: list[types.QueueView] = self.request("GET", "/queues").body
        return answer

    def get_queue(self, queue: str) -> types.QueueView:
        """One queue."""
        answer: types.QueueView = self.request("GET", f"/queues/{safe(queue)}").body
        return answer

    def drain_queue(
        self, queue: str, body: types.QueueDrainBody | None = None, *, idempotency_key: str | None = None
    ) -> types.QueueView:
        """Hold a queue from now on; the answer says how many of its runs still go on. It is drained when
        `dispatched` and `running` are 0: ask again until they are."""
        answer: types.QueueView = self.request(
            "POST", f"/queues/{safe(queue)}/drain", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def hold_queue(
        self, queue: str, body: types.QueueHoldBody | None = None, *, idempotency_key: str | None = None
    ) -> types.QueueView:
        """Hold a queue, from now or a time on, until a time or until it is resumed. No more of its runs begin.
        Running ones go on, and waiting ones keep their places. A hold replaces the one before."""
        answer: types.QueueView = self.request(
            "POST", f"/queues/{safe(queue)}/hold", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def resume_queue(self, queue: str, *, idempotency_key: str | None = None) -> types.QueueView:
        """Resume a queue; this changes nothing if it is not on hold."""
        answer: types.QueueView = self.request(
            "POST", f"/queues/{safe(queue)}/resume", headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_roles(self) -> list[types.RoleView]:
        """Processes that are alive, by role, as they said themselves within the last ten seconds. For people: a role
        that cannot reach the signals (Redis, or the database) is missing here, and may work all the same. Schedulers
        report when they last looked for due timers."""
        answer: list[types.RoleView] = self.request("GET", "/roles").body
        return answer

    def list_runs(
        self,
        *,
        status: Sequence[types.RunState] | None = None,
        trigger: Sequence[Literal["backfill", "missed", "retry", "run_now", "schedule", "sequence"]] | None = None,
        origin: str | None = None,
        reason: str | None = None,
        executor_id: str | None = None,
        due_after: str | None = None,
        due_before: str | None = None,
        limit: int | None = None,
        job_id: str | None = None,
        job_name: str | None = None,
        label: Sequence[str] | None = None,
        queue: str | None = None,
        id_end: str | None = None,
        latest_of: Sequence[str] | None = None,
    ) -> Iterator[types.RunView]:
        """Search runs, newest first. A search looks at a bounded number of runs for each page: a page may be short
        or empty, and its `Link` leads on. With a part of a name, the runs of jobs that recur or run on demand come
        first."""
        return self.items(
            "/runs",
            query={
                "status": status,
                "trigger": trigger,
                "origin": origin,
                "reason": reason,
                "executor_id": executor_id,
                "due_after": due_after,
                "due_before": due_before,
                "limit": limit,
                "job_id": job_id,
                "job_name": job_name,
                "label": label,
                "queue": queue,
                "id_end": id_end,
                "latest_of": latest_of,
            },
        )

    def count_runs(self, *, since: str | None = None, until: str | None = None) -> list[types.RunCountView]:
        """Counts of the runs that ended in each hour, by final state: 92 days at most, by default the last day.
        Counted as they come on record: exact, and as fast with any number of runs. Hours are those of UTC; hours and
        states without a run are left out. Kept for 400 days, longer than the runs."""
        answer: list[types.RunCountView] = self.request(
            "GET", "/runs/counts", query={"since": since, "until": until}
        ).body
        return answer

    def get_run(self, run_id: str) -> types.RunDetailView:
        """One run with its attempts and stage times."""
        answer: types.RunDetailView = self.request("GET", f"/runs/{safe(run_id)}").body
        return answer

    def list_artefacts(self, run_id: str, *, attempt: int | None = None) -> list[types.ArtefactView]:
        """The files that an attempt left in its work folder. Kept when the attempt ends: plain files, up to 100 of
        an attempt, each up to 16 MB, 64 MB together. The end of the log names those that were not kept."""
        answer: list[types.ArtefactView] = self.request(
            "GET", f"/runs/{safe(run_id)}/artefacts", query={"attempt": attempt}
        ).body
        return answer

    def get_artefact(self, run_id: str, artefact: str, *, attempt: int | None = None) -> bytes:
        """The content of a file that an attempt left, by its name. The name is the path in the work folder, its
        slashes as `%2F`. With `blobs_downloads = redirect` the answer is a 307 to an address of the object store
        that is signed for some minutes: send no key there. A client resumes a download that was cut by `Range`, with
        the ETag in `If-Range`."""
        return self.request_bytes(f"/runs/{safe(run_id)}/artefacts/{safe(artefact)}", query={"attempt": attempt})

    def cancel_run(self, run_id: str, *, idempotency_key: str | None = None) -> types.RunStateView:
        """End a run that waits; ask the executor of one that is held to stop it (202)."""
        answer: types.RunStateView = self.request(
            "POST", f"/runs/{safe(run_id)}/cancel", headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def explain_run(self, run_id: str) -> types.ExplanationView:
        """Explain why a run was late, was skipped, waits, or ran as it did."""
        answer: types.ExplanationView = self.request("GET", f"/runs/{safe(run_id)}/explain").body
        return answer

    def get_run_log(
        self, run_id: str, *, attempt: int | None = None, offset: int | None = None, limit: int | None = None
    ) -> types.LogView:
        """The output of an attempt from an offset on; the headers Tickwise-… give the next offset."""
        answer: types.LogView = self.request(
            "GET", f"/runs/{safe(run_id)}/logs", query={"attempt": attempt, "offset": offset, "limit": limit}
        ).body
        return answer

    def download_run_log(self, run_id: str, *, attempt: int | None = None) -> bytes:
        """The whole output of an attempt as a file, as far as it is written. A client resumes a download that was
        cut by `Range`, with the ETag in `If-Range`. While an output grows, its tag changes."""
        return self.request_bytes(f"/runs/{safe(run_id)}/logs/file", query={"attempt": attempt})

    def retry_run(
        self, run_id: str, body: types.RunRetryBody | None = None, *, idempotency_key: str | None = None
    ) -> types.RunDemanded:
        """Repeat a run that has ended, as a new run, with its payload or another. For a failed run this redrives its
        dead letter, which happens once: 409 `letter_settled` names the run that was made, or the decision."""
        answer: types.RunDemanded = self.request(
            "POST", f"/runs/{safe(run_id)}/retry", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def cancel_runs(self, body: types.RunsCancelBody, *, idempotency_key: str | None = None) -> types.RunsMatched:
        """Cancel the runs that a filter matches, of those that have not ended. Answers 202 with an operation, which
        is carried out in the background and survives restarts; one that matches nothing is done at once. With
        `dry_run` it answers 200 with the number of targets and the first ten of them (none without the permission to
        read them), and nothing is changed."""
        answer: types.RunsMatched = self.request(
            "POST", "/runs:cancel", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def retry_runs(self, body: types.RunsRetryBody, *, idempotency_key: str | None = None) -> types.RunsMatched:
        """Retry the runs that a filter matches: failed ones, unless it names other states. Answers 202 with an
        operation, which is carried out in the background and survives restarts; one that matches nothing is done at
        once. With `dry_run` it answers 200 with the number of targets and the first ten of them (none without the
        permission to read them), and nothing is changed."""
        answer: types.RunsMatched = self.request(
            "POST", "/runs:retry", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_saved_views(self) -> list[types.SavedViewView]:
        """The saved views of the caller, and those for everybody of the namespace."""
        answer: list[types.SavedViewView] = self.request("GET", "/saved-views").body
        return answer

    def put_saved_view(self, body: types.SavedViewBody) -> types.SavedViewView:
        """Save the filters of a list under a name, in place of the view of that name. A view for everybody needs
        `jobs:write` or `jobs:operate` for all jobs of the namespace."""
        answer: types.SavedViewView = self.request("PUT", "/saved-views", body=body).body
        return answer

    def delete_saved_view(
        self, *, list_: Literal["jobs", "runs"], name: str, shared: bool | None = None
    ) -> types.SavedViewGone:
        """Remove a saved view."""
        answer: types.SavedViewGone = self.request(
            "DELETE", "/saved-views", query={"list": list_, "name": name, "shared": shared}
        ).body
        return answer

    def list_secrets(self, *, limit: int | None = None) -> Iterator[types.ListedSecretView]:
        """The secrets of the namespace by name, without their values."""
        return self.items("/secrets", query={"limit": limit})

    def put_secret(self, name: str, body: types.SecretBody, *, if_match: str | None = None) -> types.SecretSetView:
        """Set or replace a secret. The value is encrypted before it is stored, and no answer contains it. Tasks that
        start from now on get the new value. The values of earlier versions are erased; their records stay."""
        answer: types.SecretSetView = self.request(
            "PUT", f"/secrets/{safe(name)}", body=body, headers=given({"If-Match": if_match})
        ).body
        return answer

    def get_secret(self, name: str) -> types.SecretDetailView:
        """One secret with the records of its versions, without a value."""
        answer: types.SecretDetailView = self.request("GET", f"/secrets/{safe(name)}").body
        return answer

    def delete_secret(
        self, name: str, *, force: bool | None = None, if_match: str | None = None
    ) -> types.SecretDetailView:
        """Remove a secret with all of its versions. Tasks that name it fail at their next start, so one that jobs or
        stored tasks name is removed with `force` alone (409, code `secret_in_use`)."""
        answer: types.SecretDetailView = self.request(
            "DELETE", f"/secrets/{safe(name)}", query={"force": force}, headers=given({"If-Match": if_match})
        ).body
        return answer

    def get_secret_uses(self, name: str) -> types.SecretUsesView:
        """The jobs and stored tasks that name a secret. Names of those that the caller may see; the others are
        counted."""
        answer: types.SecretUsesView = self.request("GET", f"/secrets/{safe(name)}/uses").body
        return answer

    def get_secret_keys(self) -> types.SecretKeysView:
        """The keys of the installation, the number of secrets under each, and secrets whose key is lost. Of all
        namespaces: for administrators of the installation."""
        answer: types.SecretKeysView = self.request("GET", "/secrets:keys").body
        return answer

    def rewrap_secrets(
        self, body: types.RewrapBody | None = None, *, idempotency_key: str | None = None
    ) -> types.RewrapView:
        """One step of a rotation: wrap the data keys of the next secrets by the newest key. Of all namespaces: for
        administrators of the installation. Repeat it until `next` is null. Begin an interrupted rotation again
        without `after`: it skips the secrets that are done."""
        answer: types.RewrapView = self.request(
            "POST", "/secrets:rewrap", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def create_status_page(
        self, body: types.StatusPageBody, *, idempotency_key: str | None = None
    ) -> types.StatusPageView:
        """Make a status page for people without an account. The page is at `/status/SLUG` of the pages, for people
        without an account, as soon as `enabled` is true. It shows the names and texts of this body, the states that
        schedulers find of the jobs, and the announcements: no id, no name of a job, no label, no error."""
        answer: types.StatusPageView = self.request(
            "POST", "/status-pages", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_status_pages(self) -> list[types.StatusPageView]:
        """All status pages, with the states of the last look."""
        answer: list[types.StatusPageView] = self.request("GET", "/status-pages").body
        return answer

    def get_status_page(self, page_id: str) -> types.StatusPageView:
        """One status page."""
        answer: types.StatusPageView = self.request("GET", f"/status-pages/{safe(page_id)}").body
        return answer

    def change_status_page(self, page_id: str, body: types.StatusPageChangeBody) -> types.StatusPageView:
        """Change fields of a status page. A component keeps its history while it keeps its name."""
        answer: types.StatusPageView = self.request("PATCH", f"/status-pages/{safe(page_id)}", body=body).body
        return answer

    def remove_status_page(self, page_id: str) -> types.StatusPageView:
        """Remove a status page with its history and announcements; it is returned as it was."""
        answer: types.StatusPageView = self.request("DELETE", f"/status-pages/{safe(page_id)}").body
        return answer

    def list_announcements(self, page_id: str) -> list[types.AnnouncementView]:
        """The announcements of a status page, the newest first."""
        answer: list[types.AnnouncementView] = self.request("GET", f"/status-pages/{safe(page_id)}/announcements").body
        return answer

    def create_announcement(
        self, page_id: str, body: types.AnnouncementBody, *, idempotency_key: str | None = None
    ) -> types.AnnouncementView:
        """Announce an incident or a maintenance; it is public at once if its page is."""
        answer: types.AnnouncementView = self.request(
            "POST",
            f"/status-pages/{safe(page_id)}/announcements",
            body=body,
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def remove_announcement(self, page_id: str, announcement_id: str) -> types.AnnouncementView:
        """Remove an announcement; it is returned as it was."""
        answer: types.AnnouncementView = self.request(
            "DELETE", f"/status-pages/{safe(page_id)}/announcements/{safe(announcement_id)}"
        ).body
        return answer

    def update_announcement(
        self,
        page_id: str,
        announcement_id: str,
        body: types.AnnouncementUpdateBody,
        *,
        idempotency_key: str | None = None,
    ) -> types.AnnouncementView:
        """Add a text to an announcement, and give it a state."""
        answer: types.AnnouncementView = self.request(
            "POST",
            f"/status-pages/{safe(page_id)}/announcements/{safe(announcement_id)}/updates",
            body=body,
            headers=given({"Idempotency-Key": idempotency_key}),
        ).body
        return answer

    def list_stops(self, *, standing: bool | None = None, limit: int | None = None) -> Iterator[types.StopView]:
        """List stops, newest first: those in force or in the future; `standing=false`: all of the last 90 days."""
        return self.items("/stops", query={"standing": standing, "limit": limit})

    def create_stop(self, body: types.StopBody, *, idempotency_key: str | None = None) -> types.StopMade:
        """Stop a namespace, jobs with certain labels, a queue or a job for a time. The scope is one of `labels`,
        `queue`, `job_id`, or `all` for the whole namespace. While the stop is in force no run of it is claimed; runs
        that an executor holds and has not begun are given back, running ones go on. It ends by itself, after an hour
        unless `until` says otherwise."""
        answer: types.StopMade = self.request(
            "POST", "/stops", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def get_stop(self, stop_id: str) -> types.StopView:
        """One stop."""
        answer: types.StopView = self.request("GET", f"/stops/{safe(stop_id)}").body
        return answer

    def lift_stop(self, stop_id: str, *, idempotency_key: str | None = None) -> types.StopView:
        """End a stop now; one that is over stays as it is."""
        answer: types.StopView = self.request(
            "POST", f"/stops/{safe(stop_id)}/lift", headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def preview_stop(self, body: types.StopBody, *, idempotency_key: str | None = None) -> types.StopImpactView:
        """Find what a stop would hold back: jobs with their fires, waiting and running runs."""
        answer: types.StopImpactView = self.request(
            "POST", "/stops:preview", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def store_task(self, body: types.TaskBody, *, idempotency_key: str | None = None) -> types.TaskView:
        """Store a script or a task as a new version; unless its content is that of the newest version."""
        answer: types.TaskView = self.request(
            "POST", "/tasks", body=body, headers=given({"Idempotency-Key": idempotency_key})
        ).body
        return answer

    def list_tasks(self, *, limit: int | None = None) -> Iterator[types.TaskView]:
        """The newest version of each stored task, by id."""
        return self.items("/tasks", query={"limit": limit})

    def get_task(self, task_id: str, *, version: int | None = None) -> types.TaskView:
        """A stored task."""
        answer: types.TaskView = self.request("GET", f"/tasks/{safe(task_id)}", query={"version": version}).body
        return answer

    def upload_script(
        self, task_id: str, body: bytes, *, name: str | None = None, if_match: str | None = None
    ) -> types.TaskView:
        """Upload a Python script, as it lies in a file, as a new version of a task. `curl -T script.py -H 'Content-
        Type: text/x-python' …`. The content and name of the newest version again is that version."""
        answer: types.TaskView = self.request(
            "PUT",
            f"/tasks/{safe(task_id)}",
            body=body,
            query={"name": name},
            headers=given({"If-Match": if_match, "Content-Type": "text/plain"}),
        ).body
        return answer

    def list_task_versions(self, task_id: str, *, limit: int | None = None) -> Iterator[types.TaskView]:
        """The versions of a stored task, newest first."""
        return self.items(f"/tasks/{safe(task_id)}/versions", query={"limit": limit})

    def get_task_source(self, task_id: str, version: str) -> bytes:
        """The text of the Python script that a version of a task runs."""
        return self.request_bytes(f"/tasks/{safe(task_id)}/versions/{safe(version)}/source")

    def create_user(self, body: types.UserBody) -> types.AddedUserView:
        """Add a person. Without a password the answer has a link with which the person chooses one. Nobody gives a
        role that holds more than their own permissions. The answer is not kept, so an Idempotency-Key has no effect;
        a name or an e-mail belongs to one person."""
        answer: types.AddedUserView = self.request("POST", "/users", body=body).body
        return answer

    def list_users(self, *, limit: int | None = None) -> Iterator[types.UserView]:
        """People, the newest first: members of the namespace; all for an administrator of the installation."""
        return self.items("/users", query={"limit": limit})

    def use_link(self, body: types.LinkUseBody) -> types.UserView:
        """Choose a password with the secret of an invitation or a reset. A link works once."""
        answer: types.UserView = self.request("POST", "/users/links", body=body).body
        return answer

    def change_password(self, body: types.PasswordBody) -> types.UserView:
        """Choose another password for oneself. All sessions end, and open links stop working."""
        answer: types.UserView = self.request("POST", "/users/password", body=body).body
        return answer

    def register_user(self, body: types.RegisterBody) -> types.UserView:
        """Register oneself, where the setting `registration` is `open`. The person gets the role of the setting
        `registration_role` in the namespace `default`."""
        answer: types.UserView = self.request("POST", "/users/register", body=body).body
        return answer

    def get_user(self, user_id: str) -> types.UserView:
        """One person."""
        answer: types.UserView = self.request("GET", f"/users/{safe(user_id)}").body
        return answer

    def change_user(self, user_id: str, body: types.UserChangeBody) -> types.UserView:
        """Change name, e-mail, roles or `active` of a person. `roles` replaces those in the namespaces that the
        caller administers. A change of roles or of `active` ends the sessions of the person; it ends their open
        links too, as does one of the e-mail. The last administrator of the installation stays."""
        answer: types.UserView = self.request("PATCH", f"/users/{safe(user_id)}", body=body).body
        return answer

    def list_identities(self, user_id: str) -> list[types.IdentityView]:
        """The identities at providers by which a person signs in."""
        answer: list[types.IdentityView] = self.request("GET", f"/users/{safe(user_id)}/identities").body
        return answer

    def link_identity(self, user_id: str, body: types.IdentityBody) -> list[types.IdentityView]:
        """Link a person to an identity at the provider, which may then do all that the person may do. For
        administrators of the installation who may do all that the person may. The same again changes nothing."""
        answer: list[types.IdentityView] = self.request("PUT", f"/users/{safe(user_id)}/identities", body=body).body
        return answer

    def unlink_identities(self, user_id: str) -> list[types.IdentityView]:
        """Remove all identities of a person, and return them. Browser sessions that they began end."""
        answer: list[types.IdentityView] = self.request("DELETE", f"/users/{safe(user_id)}/identities").body
        return answer

    def reset_password(self, user_id: str) -> types.LinkView:
        """Make a link with which a person chooses another password. Earlier links stop working."""
        answer: types.LinkView = self.request("POST", f"/users/{safe(user_id)}/reset").body
        return answer

    def list_user_second_factors(self, user_id: str) -> list[types.FactorView]:
        """The second factors of a person."""
        answer: list[types.FactorView] = self.request("GET", f"/users/{safe(user_id)}/second-factors").body
        return answer

    def reset_second_factors(self, user_id: str) -> types.FactorsRemovedView:
        """Remove all second factors and recovery codes of a person, who has lost them. All sessions end. The person
        is told at the next sign-in to the pages. A role that requires a second factor has the person enrol one then."""
        answer: types.FactorsRemovedView = self.request("DELETE", f"/users/{safe(user_id)}/second-factors").body
        return answer

    def list_windows(self, *, limit: int | None = None) -> Iterator[types.WindowItem]:
        """The maintenance windows, by name."""
        return self.items("/windows", query={"limit": limit})

    def put_window(self, name: str, body: types.WindowBody, *, if_match: str | None = None) -> types.WindowView:
        """Create a maintenance window, or replace it as a whole. No run by schedule of a job that has all of
        `labels` starts in it: with `action` skip it is skipped, with defer it runs when the window ends. Active runs
        go on, and requested runs run."""
        answer: types.WindowView = self.request(
            "PUT", f"/windows/{safe(name)}", body=body, headers=given({"If-Match": if_match})
        ).body
        return answer

    def get_window(self, name: str) -> types.WindowView:
        """A maintenance window, as it was sent and as it was resolved."""
        answer: types.WindowView = self.request("GET", f"/windows/{safe(name)}").body
        return answer

    def delete_window(self, name: str, *, if_match: str | None = None) -> types.WindowView:
        """Delete a maintenance window, and return its last version."""
        answer: types.WindowView = self.request(
            "DELETE", f"/windows/{safe(name)}", headers=given({"If-Match": if_match})
        ).body
        return answer

    def get_window_covers(
        self, name: str, *, from_: str | None = None, to: str | None = None, limit: int | None = None
    ) -> types.CoversView:
        """The times at which a maintenance window is open."""
        answer: types.CoversView = self.request(
            "GET", f"/windows/{safe(name)}/covers", query={"from": from_, "to": to, "limit": limit}
        ).body
        return answer
