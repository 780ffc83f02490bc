"""The guards of the product, each with a way to take it out and the few tests that must fail without it.

A mutant is a piece of text in one file, and what stands there instead. Pieces are as short as they can be and still
be the guard alone, so that what is written around them may change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.mutants.capacities import CAPACITIES
from tests.mutants.environments import ENVIRONMENTS
from tests.mutants.http_calls import HTTP_CALLS
from tests.mutants.identity import IDENTITY
from tests.mutants.mutant import Mutant
from tests.mutants.networks import NETWORKS
from tests.mutants.notices import NOTICES
from tests.mutants.second_factors import SECOND_FACTORS
from tests.mutants.secrets import SECRETS
from tests.mutants.shard_logs import SHARD_LOGS
from tests.mutants.sign_in import SIGN_IN
from tests.mutants.signals import SIGNALS

ROOT: Final = Path(__file__).resolve().parents[2]
STORE: Final = "src/tickwise/adapters/store/postgres/"
SCHEMA: Final = "src/tickwise/adapters/store/postgres/migrations/sql/"
RULES: Final = "src/tickwise/domain/rules/"
LAST_SLOT: Final = "tests/integration/test_postgres_limits.py::test_of_two_that_want_the_last_slot_at_once_one_gets_it"
POSTGRES: Final = "tests/conformance/test_postgres.py::"
MEMORY: Final = "tests/conformance/test_memory.py::"
EXECUTOR: Final = "tests/unit/roles/test_executor.py::"
HINTS: Final = "tests/unit/roles/test_hints.py::"
FAILOVER: Final = "tests/integration/test_postgres_failover.py::"
RECONCILIATION: Final = "tests/unit/roles/test_reconciliation.py::"
RESULTS: Final = "tests/unit/roles/test_results.py::"
SELECTORS: Final = "tests/security/test_label_selectors.py::"
LINE_TABLE: Final = "TestLineTable::test_each_start_in_a_line_meets_the_verdict"
WAITING_TABLE: Final = "TestWaitingTable::test_each_line_goes_on_with_the_run_of_the_verdict"
LOSS_TABLE: Final = "TestLossTable::test_each_lost_attempt_meets_the_verdict"
RETURN_TABLE: Final = "TestReturnTable::test_each_run_that_comes_back_meets_the_verdict"
SLOT_TABLE: Final = "TestSlotTable::test_each_slot_that_is_free_goes_to_the_runs_of_the_verdict"
SWEEP_TABLE: Final = "TestSlotTable::test_each_sweep_wakes_the_runs_of_the_verdict"
RATE_TABLE: Final = "TestRateTable::test_each_start_under_a_rate_meets_the_verdict"

_PAGE: Final = """    AND ($6::uuid IS NULL OR {})
    AND ($8::uuid IS NULL OR run_id > $8)
    AND ($9::smallint[] IS NULL OR trigger = ANY($9))
    AND ($10::uuid IS NULL OR origin = $10)
    AND ($11::text IS NULL OR reason = $11)
    AND ($12::uuid IS NULL OR run_id >= $12)
"""
"""Of the two parts of a listing of runs, the one that nearly all runs come from."""

MUTANTS: Final = (
    Mutant(
        "a new epoch lifts the fencing tokens",
        SCHEMA + "0003_continuity.sql",
        "PERFORM setval('tickwise.fence', fresh << 40);",
        "",
        (POSTGRES + "TestEpochs::test_tokens_of_a_new_epoch_are_above_all_before",),
    ),
    Mutant(
        "another timeline begins an epoch",
        SCHEMA + "0003_continuity.sql",
        "WHEN was.timeline <> here.timeline THEN 'promoted'",
        "",
        (FAILOVER + "test_a_heartbeat_notices_it_too",),
    ),
    Mutant(
        "of many processes one begins the epoch",
        SCHEMA + "0003_continuity.sql",
        "LOCK TABLE tickwise.epochs IN SHARE ROW EXCLUSIVE MODE;",
        "PERFORM pg_sleep(0.3);",
        (FAILOVER + "test_many_processes_that_notice_it_at_once_begin_one_epoch",),
    ),
    Mutant(
        "a claim under a smaller token than before is not believed",
        "src/tickwise/adapters/store/postgres/dispatch/attempts.py",
        "if token <= links.token:",
        "if token < 0:",
        (FAILOVER + "test_a_store_that_knows_less_than_a_process_has_seen_begins_an_epoch",),
    ),
    Mutant(
        "a digest is of what one executor holds",
        STORE + "dispatch/epochs.sql",
        "AND holder = $1 AND token <= $2",
        "AND $1::bigint > 0 AND token <= $2",
        (POSTGRES + "TestHeld::test_digest_and_list_say_what_is_held",),
    ),
    Mutant(
        "a run whose start is being recorded is no difference",
        "src/tickwise/roles/executor/reconciliation.py",
        "and held.stage is not RunStage.STARTING",
        "",
        (RECONCILIATION + "test_a_start_that_is_being_recorded_is_left_to_the_stores_answer",),
    ),
    Mutant(
        "a claim that was never answered is no loss",
        "src/tickwise/roles/executor/reconciliation.py",
        "if pair not in told and self._answered.never_came(pair[1])",
        "if False",
        (RECONCILIATION + "test_a_claim_that_takes_effect_after_it_was_given_up_is_no_loss",),
    ),
    Mutant(
        "a give-back that the store forgot is a loss",
        "src/tickwise/roles/executor/reconciliation.py",
        "pair not in told and self._answered",
        "self._answered",
        (RECONCILIATION + "test_a_give_back_that_the_store_lost_is_a_loss",),
    ),
    Mutant(
        "a cancel of what is not held asks for the list",
        "src/tickwise/roles/executor/cancel_requests.py",
        "self._reconciliation.doubt()",
        "pass",
        (RECONCILIATION + "test_the_cancel_of_a_run_that_nobody_holds_is_carried_out",),
    ),
    Mutant(
        "a result names the token of its attempt",
        STORE + "dispatch/sql/finish.sql",
        "AND (run_id, token) IN (SELECT run_id, token FROM f OFFSET 0)",
        "",
        (POSTGRES + "TestLeases::test_a_stale_attempt_is_refused_though_the_same_executor_claimed_again",),
    ),
    Mutant(
        "a result names the executor that holds the run",
        STORE + "dispatch/sql/finish.sql",
        "WHERE run_id = ANY($2) AND holder = $1 AND",
        "WHERE run_id = ANY($2) AND $1::bigint > 0 AND",
        (POSTGRES + "TestFinishes::test_a_finish_by_another_executor_is_refused",),
    ),
    Mutant(
        "a start names the token of its attempt",
        STORE + "dispatch/attempts.sql",
        "AND r.token = b.token AND r.holder = $1 AND r.state = {RunState.DISPATCHED} AND r.overlap <= 0",
        "AND r.holder = $1 AND r.state = {RunState.DISPATCHED} AND r.overlap <= 0",
        (POSTGRES + "TestFinishes::test_a_start_that_does_not_match_is_refused",),
    ),
    Mutant(
        "the store in memory fences too",
        "src/tickwise/adapters/store/memory/dispatch.py",
        "(run.executor, run.token) == (executor, token) else None",
        "run.executor == executor else None",
        (MEMORY + "TestLeases::test_a_stale_attempt_is_refused_though_the_same_executor_claimed_again",),
    ),
    Mutant(
        "a fire has a computed name",
        "src/tickwise/domain/model.py",
        'named = job_id.int.to_bytes(16, "big") +',
        'named = __import__("os").urandom(8) + job_id.int.to_bytes(16, "big") +',
        ("tests/unit/domain/test_model.py::test_a_run_has_the_same_name_every_time",),
    ),
    Mutant(
        "a fire that ended is not made again",
        STORE + "dispatch/sql/fires_commit.sql",
        "(SELECT true FROM tickwise.history h WHERE h.run_id = n.run_id OFFSET 0) IS NULL",
        "true",
        (POSTGRES + "TestTimers::test_a_run_that_has_ended_already_is_not_made_again",),
    ),
    Mutant(
        "a fire that is there is not made again",
        STORE + "dispatch/sql/fires_commit.sql",
        "AND (o.has IS NULL OR (SELECT true FROM tickwise.runs r WHERE r.run_id = n.run_id OFFSET 0) IS NULL)",
        "",
        (POSTGRES + "TestTimers::test_a_run_that_exists_already_is_not_made_twice",),
    ),
    Mutant(
        "a decision counts only for the timer that it was made for",
        STORE + "dispatch/sql/fires_commit.sql",
        "AND t.job_id = f.job_id AND t.due = f.taken AND f.due IS NOT NULL",
        "AND t.job_id = f.job_id AND f.due IS NOT NULL",
        (POSTGRES + "TestTimers::test_a_fire_for_another_time_than_the_timers_is_left_alone",),
    ),
    Mutant(
        "a requested run that ended is not made again",
        STORE + "queue/new_runs.sql",
        "WHERE (SELECT true FROM tickwise.history h WHERE h.run_id = n.run_id OFFSET 0) IS NULL",
        "",
        (POSTGRES + "TestRequestedRuns::test_a_run_that_was_requested_before_is_there_once",),
    ),
    Mutant(
        "an executor goes by the store's clock",
        "src/tickwise/roles/executor/store_clock.py",
        "self._monotonic = clock.monotonic",
        "self._monotonic = clock.monotonic\n        self.saw, self.now = lambda *_a, **_k: None, clock.now",
        ("tests/unit/roles/test_store_clock.py::test_the_stores_word_counts_and_not_this_machines_clock",),
    ),
    Mutant(
        "nothing begins before it is due",
        "src/tickwise/roles/executor/run_starter.py",
        "while heap and heap[0][0] <= now and",
        "while heap and",
        (EXECUTOR + "test_a_claimed_run_is_held_until_it_is_due",),
    ),
    Mutant(
        "leases run out",
        STORE + "dispatch/executors.sql",
        "AND lease < (SELECT tickwise.now())",
        "AND lease < '-infinity'",
        (POSTGRES + "TestLeases::test_what_a_dead_executor_merely_held_goes_back_free",),
    ),
    Mutant(
        "a lease that still runs is respected",
        STORE + "dispatch/executors.sql",
        "AND lease < (SELECT tickwise.now())",
        "",
        (POSTGRES + "TestLeases::test_a_lease_that_still_runs_is_left_alone",),
    ),
    Mutant(
        "after the store was away leases get one period of grace",
        STORE + "dispatch/executors.sql",
        "AND (SELECT tickwise.started()) + lease_seconds * interval '1 second' < (SELECT tickwise.now())",
        "",
        (POSTGRES + "TestLeases::test_after_the_store_was_away_leases_get_one_period_of_grace",),
    ),
    Mutant(
        "only who has a lease may claim",
        STORE + "dispatch/sql/claim.sql",
        "gone IS NULL AND lease > (SELECT at FROM clock) FOR SHARE",
        "gone IS NULL FOR SHARE",
        (POSTGRES + "TestClaims::test_an_executor_whose_lease_ran_out_gets_nothing",),
    ),
    Mutant(
        "only who has a lease may claim by name",
        STORE + "dispatch/sql/claim_named.sql",
        "gone IS NULL AND lease > (SELECT at FROM clock) FOR SHARE",
        "gone IS NULL FOR SHARE",
        (POSTGRES + "TestNamedClaims::test_only_an_executor_whose_lease_stands_claims_by_name",),
    ),
    Mutant(
        "a name opens no lane that is not served",
        STORE + "dispatch/sql/claim_named.sql",
        "AND (lane IN (SELECT lane FROM served)) IS TRUE",
        "",
        (POSTGRES + "TestNamedClaims::test_a_name_opens_no_queue_that_the_executor_does_not_serve",),
    ),
    Mutant(
        "a name makes no run ready",
        STORE + "dispatch/sql/claim_named.sql",
        "AND (ready <= (SELECT at FROM clock) + $5::float8 * interval '1 second') IS TRUE",
        "AND $5::float8 IS NOT NULL",
        (POSTGRES + "TestNamedClaims::test_a_name_does_not_make_a_run_ready",),
    ),
    Mutant(
        "what is on hold is not told again",
        STORE + "jobs/run_commands.sql",
        "WHERE l.lane NOT IN (SELECT lane FROM tickwise.lanes_held)",
        "",
        (POSTGRES + "TestWaitingNames::test_what_cannot_be_claimed_is_not_told",),
    ),
    Mutant(
        "a mark of results never goes back",
        STORE + "records/records.sql",
        "WHERE results_applied.number < excluded.number",
        "",
        (POSTGRES + "TestMarks::test_a_mark_of_results_never_goes_back",),
    ),
    Mutant(
        "a newer schema says whom it serves",
        "src/tickwise/adapters/store/postgres/schema.py",
        "self.is_newer and self.serves <= WANTED",
        "self.is_newer",
        ("tests/integration/test_postgres_schema.py::test_a_schema_that_does_not_fit_is_refused_with_what_to_do",),
    ),
    Mutant(
        "what is for searches writes nothing",
        "src/tickwise/adapters/store/postgres/connection/link.py",
        "if writes and self.reads_only:",
        "if False:",
        ("tests/integration/test_postgres_replica.py::test_a_store_for_searches_writes_nowhere",),
    ),
    Mutant(
        "listings are keyset pages",
        STORE + "records/records.sql",
        "WHERE namespace = $1 AND run_id < $2",
        "WHERE namespace = $1 AND run_id > $2",
        (POSTGRES + "TestListings::test_pages_of_runs_are_stable_while_runs_are_added_and_end",),
    ),
    Mutant(
        "a page is bounded in bytes",
        STORE + "records/paging.sql",
        "OR page_bytes <= {most}::bigint",
        "OR true",
        (POSTGRES + "TestPages::test_a_page_is_cut_before_it_holds_more_than_its_bound",),
    ),
    Mutant(
        "a page that was cut is not the last one",
        "src/tickwise/ports/paging.py",
        "self.cut or len(self) >= limit",
        "len(self) >= limit",
        ("tests/unit/api/test_large_pages.py::test_pages_of_large_jobs",),
    ),
    Mutant(
        "a page that is merged of two searches ends where the first of them was cut",
        "src/tickwise/control/visible_runs.py",
        "known_to is None or row.run_id >= known_to",
        "True",
        ("tests/unit/control/test_visible_runs.py::test_each_run_comes_once_and_no_planned_skip",),
    ),
    Mutant(
        "a search by due time finds what is due long after its nominal time",
        STORE + "records/sql/runs_list.sql",
        "AND run_id < $12 AND late",
        "AND run_id < $12 AND false",
        (POSTGRES + "TestListings::test_what_is_due_long_after_its_nominal_time_is_found_by_its_due_time",),
    ),
    Mutant(
        "what is counted by due time is what is listed",
        STORE + "records/sql/runs_count.sql",
        "AND run_id < $12 AND late",
        "AND run_id < $12 AND false",
        (POSTGRES + "TestListings::test_what_is_due_long_after_its_nominal_time_is_found_by_its_due_time",),
    ),
    Mutant(
        "a run that is due only now keeps the time that it is named by",
        STORE + "queue/new_runs.sql",
        "nullif(coalesce(to_timestamp(n.nominal), to_timestamp(n.due)), n.at)",
        "nullif(to_timestamp(n.nominal), n.at)",
        (POSTGRES + "TestListings::test_what_was_asked_for_long_before_it_was_made_is_found_by_its_due_time",),
    ),
    Mutant(
        "a pass of healing goes on after what it cannot heal",
        "src/tickwise/roles/scheduler/invariant_repair.py",
        "after = page.last",
        "after = None",
        ("tests/unit/roles/test_healing.py::test_what_cannot_be_healed_starves_nothing_behind_it",),
    ),
    Mutant(
        "the whole tree of a task is killed",
        "src/tickwise/adapters/runner/process/tree.py",
        "    look = look_at(tree)\n    signal_each(look.members, signal.SIGKILL)\n    return look",
        "    return Look(set(), is_certain=True)",
        ("tests/integration/test_runner_process.py::test_nothing_of_a_task_survives_its_end",),
    ),
    Mutant(
        "the program refuses illegal moves",
        "src/tickwise/domain/lifecycle.py",
        'raise Bug(f"a run that is {state} cannot be {event.name}") from None',
        "return state",
        ("tests/unit/domain/test_lifecycle.py::test_every_pair_of_state_and_event_is_in_the_table_or_refused",),
    ),
    Mutant(
        "the database refuses illegal moves",
        SCHEMA + "0001_moves.sql",
        "WHEN (NOT (CASE old.state",
        "WHEN (old.state < 0 AND NOT (CASE old.state",
        ("tests/integration/test_postgres_moves.py::test_the_database_allows_the_moves_of_the_table_and_no_others",),
    ),
    Mutant(
        "what has happened cannot be changed",
        SCHEMA + "0001_moves.sql",
        "BEFORE UPDATE ON tickwise.history FOR EACH ROW EXECUTE",
        "BEFORE UPDATE ON tickwise.history FOR EACH ROW WHEN (old.state < 0) EXECUTE",
        ("tests/integration/test_postgres_moves.py::test_what_has_happened_cannot_be_changed",),
    ),
    Mutant(
        "one request under an Idempotency-Key has one effect",
        STORE + "records/receipts.sql",
        "WHERE r.expires <= tickwise.now()",
        "",
        (POSTGRES + "TestReceipts::test_a_used_key_answers_again_and_stores_nothing",),
    ),
    Mutant(
        "a claim in doubt is read again",
        "src/tickwise/roles/executor/claim_loop.py",
        "if self._in_doubt or self._recall_at",
        "if self._recall_at",
        (EXECUTOR + "test_a_claim_whose_answer_was_lost_is_given_back",),
    ),
    Mutant(
        "a claim in doubt is read again for a while, because it may be carried out late",
        "src/tickwise/roles/executor/claim_loop.py",
        "if self._in_doubt:",
        "if False:",
        (EXECUTOR + "test_a_claim_that_is_carried_out_long_after_it_was_given_up_is_given_back",),
    ),
    Mutant(
        "a named claim in doubt is read again",
        "src/tickwise/roles/executor/claim_loop.py",
        "        self._in_doubt = True\n        try:",
        "        try:",
        (HINTS + "test_what_a_named_claim_took_whose_answer_was_lost_is_given_back",),
    ),
    Mutant(
        "hints that wait are bounded",
        "src/tickwise/roles/executor/claim_hints.py",
        "if room <= 0:",
        "if False:",
        (HINTS + "test_a_quick_runner_that_is_full_leaves_the_rest_with_the_broker",),
    ),
    Mutant(
        "executors look although hints come",
        "src/tickwise/roles/executor/claim_loop.py",
        "return capacity.hungry or now - capacity.looked_at >= self._settings.poll_seconds",
        "return False",
        (HINTS + "test_a_lost_hint_costs_no_more_than_the_time_between_two_looks",),
    ),
    Mutant(
        "what a recorder could not apply is not said done",
        "src/tickwise/roles/recorder/role.py",
        "        except Unavailable:\n            raise",
        "        except Unavailable:\n            return",
        (RESULTS + "test_recorders_wait_for_a_store_that_is_away_and_lose_nothing",),
    ),
    Mutant(
        "a later result does not stand for one that was lost",
        "src/tickwise/roles/recorder/role.py",
        "message.number if message.number == known + 1 else known",
        "message.number",
        (RESULTS + "test_a_result_that_the_broker_lost_is_told_directly_though_later_ones_were_applied",),
    ),
    Mutant(
        "what was published counts as known",
        "src/tickwise/roles/executor/outbox.py",
        "yield from self._publisher.tokens()",
        "pass",
        (RESULTS + "test_what_is_on_its_way_counts_as_known_when_a_claim_is_in_doubt",),
    ),
    Mutant(
        "who leaves tells the store what it published",
        "src/tickwise/roles/executor/outbox.py",
        "await self._publisher.write_all(self._lease.number)",
        "break",
        (RESULTS + "test_an_executor_that_leaves_tells_the_store_what_no_recorder_has_applied",),
    ),
    Mutant(
        "an expired executor forgets what it published",
        "src/tickwise/roles/executor/outbox.py",
        "self._publisher.forget()",
        "pass",
        (RESULTS + "test_an_expired_executor_forgets_what_it_published_and_counts_anew",),
    ),
    Mutant(
        "a commit in doubt is repeated",
        "src/tickwise/roles/shared/group_commit.py",
        "        except InDoubt as failure:\n            doubt = failure",
        "        except InDoubt:\n            raise",
        ("tests/unit/roles/test_control_gather.py::test_a_commit_in_doubt_is_repeated_with_the_same_ids",),
    ),
    Mutant(
        "a write whose link broke is in doubt",
        "src/tickwise/adapters/store/postgres/connection/link.py",
        "    except _LOST as error:\n        if writes:",
        "    except _LOST as error:\n        if False:",
        (
            "tests/integration/test_postgres_links.py"
            "::test_a_write_whose_connection_is_cut_is_in_doubt_and_can_be_repeated",
        ),
    ),
    Mutant(
        "outcomes are sent until the store has answered",
        "src/tickwise/roles/executor/outbox.py",
        "outcomes.extendleft(reversed(batch))",
        "pass",
        (EXECUTOR + "test_outcomes_outlive_any_failure_of_the_store",),
    ),
    Mutant(
        "nothing begins after the own lease",
        "src/tickwise/roles/executor/lease.py",
        "        if self.left_seconds() <= 0.0:\n            return False",
        "",
        (EXECUTOR + "test_what_is_held_is_not_started_once_our_lease_may_have_run_out",),
    ),
    Mutant(
        "a guarded start is on record before its task begins",
        "src/tickwise/roles/executor/run_starter.py",
        "if held.guarded:",
        "if False:",
        (EXECUTOR + "test_a_run_that_was_lost_once_is_recorded_before_it_starts_again",),
    ),
    Mutant(
        "a refused start does not begin",
        "src/tickwise/roles/executor/run_starter.py",
        "if held.claimed.run_id in refused:",
        "if False:",
        (EXECUTOR + "test_a_start_that_overlaps_an_earlier_run_leaves_nothing_here",),
    ),
    Mutant(
        "who was expired kills what it runs",
        "src/tickwise/roles/executor/registration.py",
        "self._lease.ended()\n        self._held_runs.abandon_all()",
        "self._lease.ended()\n        self._held_runs.live.clear()",
        (EXECUTOR + "test_an_expired_executor_kills_its_tasks_reports_nothing_and_comes_back_new",),
    ),
    Mutant(
        "a run that takes its executors with it is quarantined",
        SCHEMA + "0001_free.sql",
        "WHEN o.state = 3 AND NOT in_order AND o.crashes + 1 >= crashes_max THEN 'poison'",
        "",
        (POSTGRES + "TestLeases::test_a_run_that_takes_its_executors_with_it_is_quarantined",),
    ),
    Mutant(
        "what must not run twice is not freed",
        SCHEMA + "0001_free.sql",
        "WHEN o.state = 3 AND o.on_unknown > 0 THEN CASE o.on_unknown WHEN 1 THEN 'unknown' ELSE 'held' END",
        "",
        (POSTGRES + "TestUnknown::test_what_must_not_run_twice_fails_when_its_lease_is_lost",),
    ),
    Mutant(
        "a cancel outlives the attempt that it was asked of",
        STORE + "dispatch/sql/settle_requests.sql",
        "WHEN 'cancel' THEN true",
        "WHEN 'cancel' THEN false",
        (POSTGRES + "TestCancels::test_a_cancelled_run_is_never_run_again",),
    ),
    Mutant(
        "no more run at once than a limit allows",
        RULES + "limits.py",
        "return running < limit",
        "return running < limit + 1_000",
        (POSTGRES + "TestLimits::test_as_many_start_as_the_limit_says",),
    ),
    Mutant(
        "of the rule of overlap and its SQL, none changes alone",
        RULES + "overlap.py",
        "policy is Overlap.QUEUE_ONE and earlier > 1",
        "policy is Overlap.QUEUE_ONE and earlier > 2",
        (POSTGRES + LINE_TABLE,),
    ),
    Mutant(
        "the SQL of overlap counts as the rule does",
        STORE + "queue/sql/starts_settle.sql",
        " AND earlier > 1)",
        " AND earlier > 2)",
        (POSTGRES + LINE_TABLE,),
    ),
    Mutant(
        "the SQL of overlap writes the sentence of the rule",
        STORE + "queue/sql/starts_settle.sql",
        "|| ' of the job had not ended'",
        "|| ' had not ended'",
        (POSTGRES + LINE_TABLE,),
    ),
    Mutant(
        "a run that was let start comes before all others, by the rule",
        RULES + "overlap.py",
        "return was_let_start(other) or ",
        "return ",
        (POSTGRES + LINE_TABLE,),
    ),
    Mutant(
        "a fire replaces only fires, by the rule",
        RULES + "overlap.py",
        "run.trigger != Trigger.SCHEDULE or ",
        "",
        (POSTGRES + LINE_TABLE,),
    ),
    Mutant(
        "the SQL of a line goes on with the run of the rule",
        STORE + "queue/sql/unblock.sql",
        "ORDER BY due, run_id LIMIT 1) f",
        "ORDER BY due DESC, run_id DESC LIMIT 1) f",
        (POSTGRES + WAITING_TABLE,),
    ),
    Mutant(
        "the rule of a line goes on with its first run",
        RULES + "overlap.py",
        "chosen = ordered[0]",
        "chosen = ordered[-1]",
        (POSTGRES + WAITING_TABLE,),
    ),
    Mutant(
        "of the rule of losses and its SQL, none changes alone",
        RULES + "losses.py",
        "attempt.crashes + 1 >= attempt.crashes_max",
        "attempt.crashes + 1 > attempt.crashes_max",
        (POSTGRES + LOSS_TABLE,),
    ),
    Mutant(
        "a run that a pause asks back stays held back when its executor is lost",
        "src/tickwise/adapters/store/postgres/queue/releases.py",
        "if asked_back:",
        "if False:",
        (POSTGRES + LOSS_TABLE,),
    ),
    Mutant(
        "the rule of losses says why an executor left, as the SQL does",
        RULES + "losses.py",
        "EXECUTOR_LEFT if attempt.in_order else LEASE_LOST",
        "LEASE_LOST",
        (POSTGRES + LOSS_TABLE,),
    ),
    Mutant(
        "a begun run that comes back is not held back by a pause",
        STORE + "dispatch/sql/settle_requests.sql",
        "    AND NOT r.run_id = ANY($2::uuid[])\n",
        "",
        (POSTGRES + RETURN_TABLE,),
    ),
    Mutant(
        "of the rule of returns and its SQL, none changes alone",
        RULES + "returns.py",
        "if asked is None or begun:",
        "if asked is None:",
        (POSTGRES + RETURN_TABLE,),
    ),
    Mutant(
        "a run that comes back waits for its due time, by the rule",
        RULES + "returns.py",
        "due if retry_at is None else retry_at",
        "now if retry_at is None else retry_at",
        (POSTGRES + RETURN_TABLE,),
    ),
    Mutant(
        "of the rule of waking and its SQL, none changes alone",
        RULES + "limits.py",
        "woken < max(limit - taken, late)",
        "woken < max(limit, late)",
        (POSTGRES + SLOT_TABLE,),
    ),
    Mutant(
        "the SQL of waking leaves a run that has no room, as the rule does",
        SCHEMA + "0011_run_quotas.sql",
        "PARTITION BY namespace, limit_key ORDER BY rank, place, run_id ROWS",
        "PARTITION BY namespace, limit_key, most ORDER BY rank, place, run_id ROWS",
        (POSTGRES + SLOT_TABLE,),
    ),
    Mutant(
        "a late run reserves no slot, by the rule",
        RULES + "limits.py",
        "return Reservation.LATE",
        "return Reservation.TAKES",
        (POSTGRES + SWEEP_TABLE,),
    ),
    Mutant(
        "the SQL of rates knows the last slot that was given",
        STORE + "queue/gates.sql",
        "SELECT max(w.slot) FROM",
        "SELECT min(w.slot) - interval '1 hour' FROM",
        (POSTGRES + RATE_TABLE,),
    ),
    Mutant(
        "the store in memory knows the last start under a rate",
        "src/tickwise/adapters/store/memory/slots.py",
        "pace.started = now",
        "pass",
        (MEMORY + RATE_TABLE,),
    ),
    Mutant(
        "a start that counts what runs has the key's lock",
        STORE + "queue/starts.sql",
        "FROM unnest($6::text[], $7::text[]) AS n(namespace, limit_key)",
        "FROM unnest($6::text[], $7::text[]) AS n(namespace, limit_key) WHERE false",
        (LAST_SLOT,),
    ),
    Mutant(
        "a start after a look at earlier runs has the key's lock",
        "src/tickwise/adapters/store/postgres/queue/starts.py",
        "await lock_limits(connection, limits_of(candidates))",
        "pass",
        (LAST_SLOT,),
    ),
    Mutant(
        "what follows an end is made once",
        "src/tickwise/adapters/store/postgres/jobs/flow.py",
        "for (run_id,) in done for start in ends[run_id]",
        "for run_id in ends for start in ends[run_id]",
        (POSTGRES + "TestSequences::test_a_repeat_changes_nothing",),
    ),
    Mutant(
        "a page of a bulk operation counts once",
        STORE + "records/letters.sql",
        "AND step = $2::int AND status NOT IN ('done', 'failed')",
        "AND $2::int >= 0 AND status NOT IN ('done', 'failed')",
        (POSTGRES + "TestOperations::test_a_page_that_is_reported_twice_counts_once",),
    ),
    Mutant(
        "a dead letter is settled once",
        STORE + "records/letters.sql",
        "ON CONFLICT DO NOTHING\nRETURNING run_id",
        "ON CONFLICT (run_id) DO UPDATE SET settled = excluded.settled, status = excluded.status\nRETURNING run_id",
        (POSTGRES + "TestSettledLetters::test_what_was_settled_otherwise_is_taken",),
    ),
    Mutant(
        "sequences have no circles",
        "src/tickwise/control/jobs/successors.py",
        "elif following == own:",
        "elif False:",
        ("tests/unit/api/test_job_policies.py::test_a_circle_is_refused_and_shown",),
    ),
    Mutant(
        "a successor is looked up in the namespace of its end",
        "src/tickwise/roles/scheduler/sequences.py",
        "if known is not None and known.namespace == namespace:",
        "if known is not None:",
        (
            "tests/unit/roles/test_sequences.py::"
            "test_a_successor_that_moved_away_is_started_where_it_is_and_hides_nothing",
        ),
    ),
    Mutant(
        "a history in which nothing happened is no valid one",
        "src/tickwise/domain/history/checker.py",
        "Status.VALID if _something_happened(history) else Status.UNKNOWN",
        "Status.VALID",
        ("tests/unit/domain/test_history.py::test_a_history_in_which_nothing_happened_is_unknown",),
    ),
    Mutant(
        "a job outside of the labels of a call is not there",
        "src/tickwise/control/context.py",
        "if row is None or not matches(row.labels, who.within):",
        "if row is None:",
        (SELECTORS + "test_an_id_that_was_guessed_tells_nothing",),
    ),
    Mutant(
        "a run of a job outside of the labels of a call is not there",
        "src/tickwise/control/context.py",
        "if row is None or not await self.is_about(who, row.job_id):",
        "if row is None:",
        (SELECTORS + "test_an_id_that_was_guessed_tells_nothing",),
    ),
    Mutant(
        "a method that does not heed labels lets no restricted permission in",
        "src/tickwise/control/access.py",
        "if selector and by_labels:",
        "if selector:",
        (SELECTORS + "test_labels_open_nothing_that_has_no_labels",),
    ),
    Mutant(
        "labels that contradict each other hold for no job",
        "src/tickwise/domain/selectors.py",
        "if both.setdefault(name, value) != value:",
        "if False:",
        ("tests/unit/domain/test_selectors.py::test_labels_of_two_sides_are_joined_or_contradict_each_other",),
    ),
    Mutant(
        "a restricted key has no scopes that a program of before would take for granted",
        STORE + "jobs/keys.py",
        "[] if key.labels else sorted(principal.scopes),",
        "sorted(principal.scopes),",
        (
            "tests/integration/test_postgres_selectors.py"
            "::test_a_restricted_key_is_one_without_permissions_to_the_release_before",
        ),
    ),
    *SECRETS,
    *SIGNALS,
    *SIGN_IN,
    *SECOND_FACTORS,
    *HTTP_CALLS,
    *IDENTITY,
    *NOTICES,
    *ENVIRONMENTS,
    *NETWORKS,
    *CAPACITIES,
    *SHARD_LOGS,
)
