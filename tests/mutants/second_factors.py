"""Guards of second factors."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

CONTROL: Final = "src/tickwise/control/factors/"
STORE: Final = "src/tickwise/adapters/store/postgres/people/"
ATTACKS: Final = "tests/security/test_second_factors.py::"
STORED: Final = "tests/conformance/test_postgres.py::TestSecondFactors::"

SECOND_FACTORS: Final = (
    Mutant(
        "second factors: a code works once",
        STORE + "factors.sql",
        "AND (counter < $2 OR (counter = 0 AND $2 = 0)) ",
        "",
        (STORED + "test_a_step_is_settled_once_and_its_code_works_once",),
    ),
    Mutant(
        "second factors: a step has so many attempts",
        STORE + "factors.sql",
        " AND tries < $3\n",
        "\n",
        (STORED + "test_a_step_has_so_many_attempts",),
    ),
    Mutant(
        "second factors: the first factor ends the sign-ins that were to enrol one",
        STORE + "factors.sql",
        "DELETE FROM tickwise.factor_steps WHERE user_id = $1 AND purpose = 'enrolment'",
        "SELECT $1::uuid",
        (STORED + "test_the_first_factor_ends_all_sign_ins_that_were_to_enrol_one",),
    ),
    Mutant(
        "second factors: the origin of a passkey is compared",
        CONTROL + "passkeys.py",
        "verify_origin=lambda origin: origin == place.origin",
        "verify_origin=lambda origin: True",
        (ATTACKS + "test_a_passkey_was_signed_elsewhere",),
    ),
    Mutant(
        "second factors: a passkey in a frame of another origin is refused",
        CONTROL + "passkeys.py",
        "if client_data.cross_origin:",
        "if False:",
        (ATTACKS + "test_a_passkey_was_signed_elsewhere",),
    ),
    Mutant(
        "second factors: a counter that falls takes the passkey out of use",
        CONTROL + "steps.py",
        "            await self._suspect(factor, counter, row, origin)\n",
        "",
        (ATTACKS + "test_a_passkey_was_copied",),
    ),
    Mutant(
        "second factors: a passkey keeps the bound of the password",
        CONTROL + "steps.py",
        "if is_beyond(factor.password_limit, caller.grants):",
        "if False:",
        (ATTACKS + "test_a_passkey_lifts_the_bound_of_a_planted_password",),
    ),
    Mutant(
        "second factors: wrong codes of a person are counted from anywhere",
        CONTROL + "pace.py",
        "if ahead > 0.0 and not",
        "if False and not",
        (ATTACKS + "test_codes_are_guessed",),
    ),
    Mutant(
        "second factors: a passkey alone has verified its owner",
        CONTROL + "passkeys.py",
        "UserVerificationRequirement.REQUIRED if verified else None",
        "None",
        ("tests/unit/web/test_second_factors.py::test_a_passkey_without_verification_is_a_second_factor_alone",),
    ),
)
