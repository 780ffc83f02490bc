"""Guards of notices: the rules that concern a job, what is told once, quiet hours, acknowledgements, escalations,
signatures, and channels that fail."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

STORE: Final = "src/tickwise/adapters/store/postgres/notices/"
DOMAIN: Final = "src/tickwise/domain/notices/"
CONTROL: Final = "src/tickwise/control/notices/"
POSTGRES: Final = "tests/conformance/test_postgres.py::"
JUDGING: Final = "tests/unit/notices/test_judging.py::"
LINKS: Final = "tests/unit/control/test_action_links.py::"
SENDERS: Final = "tests/unit/adapters/test_http_senders.py::"

NOTICES: Final = (
    Mutant(
        "a rule concerns jobs that have all its labels",
        DOMAIN + "index.py",
        "if wanted <= all_labels:",
        "if True:",
        ("tests/unit/notices/test_index.py::test_a_rule_concerns_jobs_that_have_all_its_labels",),
    ),
    Mutant(
        "a rule with labels does not concern the whole namespace",
        CONTROL + "rules.py",
        "bool(rule.labels or not rule.jobs) and matches(labels, (labels_from(rule.labels),))",
        "bool(rule.labels or not rule.jobs)",
        ("tests/unit/control/test_rule_matching.py::test_the_page_of_a_job_and_schedulers_agree",),
    ),
    Mutant(
        "a failure of an open alert is counted, not told",
        DOMAIN + "judging.py",
        "tells, earliest = is_first or name in TOLD_EACH, self._in.now",
        "tells, earliest = True, self._in.now",
        (JUDGING + "test_more_failures_are_counted_and_not_told_again",),
    ),
    Mutant(
        "an event that was noted by its name is not noted again",
        STORE + "alerts.sql",
        "FROM n JOIN fresh USING (namespace, once)",
        "FROM n LEFT JOIN fresh USING (namespace, once)",
        (POSTGRES + "TestNotedEvents::test_an_event_is_noted_by_its_name_once",),
    ),
    Mutant(
        "quiet hours hold back",
        DOMAIN + "judging.py",
        "            if quiet is not None:\n                return quiet, False\n",
        "",
        (JUDGING + "test_quiet_hours",),
    ),
    Mutant(
        "what is critical waits for no quiet hours",
        DOMAIN + "judging.py",
        "if rule.severity is not Severity.CRITICAL:",
        "if True:",
        (JUDGING + "test_quiet_hours",),
    ),
    Mutant(
        "quiet hours begin on their weekdays alone",
        DOMAIN + "quiet.py",
        "if day.weekday() not in quiet.weekdays:",
        "if False:",
        ("tests/unit/notices/test_quiet.py::test_quiet_hours_end",),
    ),
    Mutant(
        "an alert that is acknowledged is not due",
        DOMAIN + "judging.py",
        "if not draft.closed and not draft.is_acknowledged and not draft.at_rest:",
        "if not draft.closed and not draft.at_rest:",
        (JUDGING + "test_an_acknowledged_alert_that_fails_again_is_looked_at_no_more",),
    ),
    Mutant(
        "an alert in hand stays with the person who has it",
        STORE + "alerts.sql",
        "AND state <> 'closed' AND state <> $8",
        "AND state <> 'closed'",
        (POSTGRES + "TestDecidedAlerts::test_a_decision_about_all_that_match",),
    ),
    Mutant(
        "an alert is escalated once",
        DOMAIN + "judging.py",
        "is_new = escalation is not None and standing.escalated_at is None",
        "is_new = escalation is not None",
        (JUDGING + "test_an_alert_that_nobody_acknowledged_is_escalated_once",),
    ),
    Mutant(
        "the body of a webhook is signed",
        "src/tickwise/adapters/outgoing/webhook_signature.py",
        'text = f"{identifier}.{timestamp}.".encode() + body',
        'text = f"{identifier}.{timestamp}.".encode()',
        (SENDERS + "test_a_webhook_is_signed_as_standard_webhooks_says",),
    ),
    Mutant(
        "a link is of this installation and for this purpose",
        CONTROL + "action_links.py",
        "if claims.aud != AUDIENCE or claims.iss != self._issuer():",
        "if False:",
        (LINKS + "test_a_link_that_this_installation_did_not_make_does_not_work",),
    ),
    Mutant(
        "a link ends after three days",
        CONTROL + "action_links.py",
        "if self._clock.now() >= claims.exp + SKEW_SECONDS:",
        "if False:",
        (LINKS + "test_a_link_says_what_it_does_to_what",),
    ),
    Mutant(
        "a redirect to another origin gets nothing",
        "src/tickwise/adapters/senders/http_delivery.py",
        "if _origin(led) != _origin(url):",
        "if False:",
        (SENDERS + "test_a_redirect_is_followed_to_the_same_origin_alone",),
    ),
    Mutant(
        "a channel whose tries fail rests",
        STORE + "sql/notices_take.sql",
        "(is_test OR channel_id NOT IN (SELECT channel_id FROM tickwise.channels WHERE again_at > tickwise.now()))",
        "true",
        (POSTGRES + "TestSettledNotices::test_a_channel_whose_tries_fail_rests",),
    ),
    Mutant(
        "a channel that takes messages again gets what waits",
        STORE + "notices.py",
        "            if delivered:\n",
        "            if False:\n",
        (POSTGRES + "TestSettledNotices::test_a_channel_that_takes_messages_again_gets_what_waits",),
    ),
    Mutant(
        "a job of two notices that become one is counted once",
        DOMAIN + "merging.py",
        "notice.subjects + other.subjects - both",
        "notice.subjects + other.subjects",
        (POSTGRES + "TestFolds::test_a_job_of_two_notices_that_become_one_is_counted_once",),
    ),
    Mutant(
        "a job that is late each time has one alert",
        DOMAIN + "judging.py",
        "key.event not in PASSES or self._is_own_end(key, draft, event)",
        "key.event not in PASSES",
        ("tests/unit/notices/test_judging.py::test_a_job_that_is_late_each_time_has_one_alert",),
    ),
    Mutant(
        "a run that is not recorded has no span of its fire",
        "src/tickwise/roles/scheduler/fire_spans.py",
        "if trace is None else trace.sampled\n",
        "if trace is None else True\n",
        ("tests/unit/roles/test_fire_spans.py::test_a_run_that_is_not_recorded_has_none",),
    ),
    Mutant(
        "a write that was in vain has no span",
        "src/tickwise/roles/shared/record_spans.py",
        "    began = tracer.now()\n    yield\n",
        "    began = tracer.now()\n    try:\n        yield\n    except Exception:\n"
        "        for run_id, (trace_id, attempt, _, state) in traces.items():\n"
        "            tracer.add_group(\n"
        "                SpanGroup(\n"
        "                    RecordShape(outcomes, state), 1, trace_id, (1, attempt), (began, began), (run_id,)\n"
        "                )\n"
        "            )\n"
        "        raise\n",
        ("tests/unit/roles/test_record_spans.py::test_a_write_that_was_in_vain_has_no_span",),
    ),
)
