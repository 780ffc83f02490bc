"""Guards of counted capacities, and of the least isolation of a namespace."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

STORE: Final = "src/tickwise/adapters/store/postgres/dispatch/sql/"
EXECUTOR: Final = "src/tickwise/roles/executor/"
TESTS: Final = "tests/unit/roles/test_counted_capacities.py::"
BOUND: Final = "TestBoundExecutors::test_a_namespace_that_demands_a_sandbox_has_no_other_task_claimed"
_BARRED: Final = "AND NOT (l.namespace = ANY("

CAPACITIES: Final = (
    Mutant(
        "an abandoned task holds its capacities until it is dead",
        EXECUTOR + "held_runs.py",
        "self.ledger.hold(held.claimed.run_id, held.body.demand)",
        "pass",
        (TESTS + "test_an_abandoned_task_holds_its_resource_until_it_is_dead",),
    ),
    Mutant(
        "a run that does not fit is remembered, and nothing goes past it",
        EXECUTOR + "ledger/__init__.py",
        "self._awaited[run_id] = AwaitedRun(run_id, demand, now, now + LOOK_SECONDS)",
        "pass",
        (TESTS + "test_a_large_run_is_not_starved_by_small_ones",),
    ),
    Mutant(
        "a remembered run is looked for, because it may be gone",
        EXECUTOR + "ledger/__init__.py",
        "if awaited.look_at <= now or self._fits(awaited.demand):",
        "if self._fits(awaited.demand):",
        (TESTS + "test_a_remembered_run_may_begin_elsewhere_or_be_cancelled",),
    ),
    Mutant(
        "an end in a report of many gives back what its run held",
        EXECUTOR + "settlement.py",
        " or held.body.demand is not None",
        "",
        (TESTS + "test_ends_that_come_in_one_report_give_back_what_was_held",),
    ),
    Mutant(
        "a run whose lane says nothing of its memory is not claimed again at once",
        EXECUTOR + "admission.py",
        "_PAUSES: Final = {AdmissionVerdict.LATER: LATER_SECONDS, ",
        "_PAUSES: Final = {",
        (TESTS + "test_runs_of_jobs_stored_before_memory_was_reserved_do_not_spin",),
    ),
    Mutant(
        "a namespace that demands a sandbox has no other task claimed",
        STORE + "claim.sql",
        _BARRED + "$13",
        "AND NOT (false AND l.namespace = ANY($13",
        ("tests/conformance/test_postgres.py::" + BOUND,),
    ),
    Mutant(
        "a name opens no lane below the least isolation",
        STORE + "claim_named.sql",
        _BARRED + "$8",
        "AND NOT (false AND l.namespace = ANY($8",
        ("tests/conformance/test_postgres.py::" + BOUND,),
    ),
)
