"""Guards of identity tokens and of the providers of secrets: whose token, for how long, and whose secret."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

ISSUER: Final = "src/tickwise/adapters/identity/issuer.py"
FACTS: Final = "src/tickwise/domain/accounts/identity_tokens.py"
FILE: Final = "src/tickwise/adapters/runner/identity_file.py"
STARTER: Final = "src/tickwise/roles/executor/run_starter.py"
PROVIDERS: Final = "src/tickwise/adapters/secrets/"
TOKENS: Final = "tests/unit/adapters/test_identity_issuer.py::"
FILES: Final = "tests/unit/adapters/test_identity_file.py::"
STARTS: Final = "tests/unit/roles/test_attempt_tokens.py::"
SERVERS: Final = "tests/conformance/test_secret_servers.py::"

IDENTITY: Final = (
    Mutant(
        "identity token: an executor signs none for a namespace that has none",
        ISSUER,
        "if refusal is not None:",
        "if False:",
        (TOKENS + "test_what_the_settings_do_not_allow_is_refused_for_good",),
    ),
    Mutant(
        "identity token: a new key is published before it signs",
        ISSUER,
        "signs_in = 0.0 if at_once or newest is None else PUBLISHED_AHEAD_SECONDS",
        "signs_in = 0.0",
        (TOKENS + "test_a_new_key_is_published_before_it_signs_and_the_old_one_until_its_tokens_are_over",),
    ),
    Mutant(
        "identity token: a sealed key opens at its place alone",
        ISSUER,
        'return f"identity-key:{key_id}"',
        'return "identity-key"',
        (TOKENS + "test_a_private_key_is_stored_sealed_and_opens_at_its_place_alone",),
    ),
    Mutant(
        "identity token: a key of a job makes no other subject",
        FACTS,
        "key.translate(_ESCAPED)",
        "key",
        (TOKENS + "test_no_key_makes_the_subject_of_another_job",),
    ),
    Mutant(
        "identity token: a key of a job is no id of another one",
        FACTS,
        "if _is_id(key) and key != str(job_id):",
        "if False:",
        (TOKENS + "test_no_key_makes_the_subject_of_another_job",),
    ),
    Mutant(
        "identity token: its folder is no link",
        FILE,
        "_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
        (FILES + "test_a_folder_that_is_a_link_is_not_entered",),
    ),
    Mutant(
        "identity token: a run that was lost meanwhile does not begin",
        STARTER,
        "if not self._held_runs.holds(held):",
        "if False:",
        (STARTS + "test_a_run_that_is_lost_while_its_token_is_signed_never_begins",),
    ),
    Mutant(
        "secrets: a link leads out of no folder of a namespace",
        PROVIDERS + "files.py",
        """if target.startswith("/") or ".." in parts:""",
        "if False:",
        (SERVERS + "test_a_link_that_leads_out_of_the_folder_of_its_namespace_is_refused",),
    ),
    Mutant(
        "secrets: no path of Vault lies within that of another namespace",
        PROVIDERS + "vault.py",
        'check_apart(joined, SETTING, "/")',
        "joined.clear()",
        (SERVERS + "test_paths_that_lie_within_each_other_are_no_setting",),
    ),
    Mutant(
        "secrets: a part of a path is no step up",
        PROVIDERS + "paths.py",
        ' or set(part) == {"."}',
        "",
        (
            "tests/conformance/test_secret_providers.py::TestVault::test_a_name_that_leads_to_another_namespace_has_no_value",
        ),
    ),
)
"""In the order of the tree."""
