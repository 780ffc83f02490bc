"""Guards of secrets: what binds a value to its place, what keeps it out of pages, what a rotation leaves alone."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

STORE: Final = "src/tickwise/adapters/store/postgres/secrets/"
POSTGRES: Final = "tests/conformance/test_postgres.py::TestSecrets::"
API: Final = "tests/unit/api/test_secrets.py::"

SECRETS: Final = (
    Mutant(
        "a sealed value is bound to its place",
        "src/tickwise/adapters/secrets/sealing.py",
        "return _LABEL + context.encode()",
        "return _LABEL",
        ("tests/conformance/test_sealing.py::TestLocalKeys::test_a_value_opens_in_its_own_context_alone",),
    ),
    Mutant(
        "a version of a secret follows on the newest one",
        STORE + "secrets.py",
        "if newest != secret.version - 1:",
        "if False:",
        (POSTGRES + "test_a_version_follows_on_the_newest_one",),
    ),
    Mutant(
        "a rotation leaves a data key that was replaced meanwhile",
        STORE + "secrets.sql",
        " AND s.sealed_key = w.old",
        "",
        (POSTGRES + "test_keys_are_replaced_in_steps",),
    ),
    Mutant(
        "the key of the installation is its administrators' to rotate",
        "src/tickwise/control/secrets/service.py",
        "if not holds_everywhere(who, Permission.SECRETS_WRITE):",
        "if False:",
        (API + "test_secrets_are_of_their_namespace",),
    ),
    Mutant(
        "the value of a secret does not come back in a page",
        "src/tickwise/web/forms.py",
        ' and name != "secret"',
        "",
        (
            "tests/unit/web/test_secrets.py::"
            "test_no_value_comes_back_from_a_store_that_is_away_or_a_session_that_is_over",
        ),
    ),
    Mutant(
        "a start ends where a value can be read in the database",
        "src/tickwise/wiring/secret_keys/secrets_check.py",
        "if any(form in trace for form in (plain.decode(), plain.hex(), *coded)):",
        "if False:",
        ("tests/unit/wiring/test_secrets_keys.py::test_a_start_ends_where_a_value_can_be_read",),
    ),
)
