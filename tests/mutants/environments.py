"""The guards of environments that are built ahead."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

DECLARED: Final = "tests/conformance/test_postgres.py::TestDeclaredEnvironments::"
STATEMENTS: Final = "src/tickwise/adapters/store/postgres/jobs/environments.sql"
BY_CLAIM: Final = "test_an_executor_gets_those_of_runs_that_it_may_claim"

ENVIRONMENTS: Final = (
    Mutant(
        "an executor builds no environment for labels that it has not",
        STATEMENTS,
        "w.requires <@ $2::text[]",
        "$2::text[] IS NOT NULL",
        (DECLARED + BY_CLAIM,),
    ),
    Mutant(
        "an executor that is bound to namespaces builds for those alone",
        STATEMENTS,
        "w.namespace = ANY($3)",
        "true",
        (DECLARED + BY_CLAIM,),
    ),
    Mutant(
        "a namespace that is being removed gets no declaration",
        "src/tickwise/adapters/store/postgres/jobs/environments.py",
        "if await closed_among(connection, [namespace], or_closing=False):",
        "if await closed_among(connection, [], or_closing=False):",
        (DECLARED + "test_they_go_with_their_namespace",),
    ),
    Mutant(
        "a build that failed is not repeated by the next run",
        "src/tickwise/adapters/environments/environments.py",
        "failure = self._failures.of(key)",
        "failure = None",
        ("tests/integration/test_script_environments.py::test_what_cannot_be_built_ahead_is_told",),
    ),
)
