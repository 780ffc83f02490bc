"""Guards of the sign-in by a provider: tokens, answers, accounts."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

CHECK: Final = "tests/unit/adapters/oidc/test_token_check.py::"
REDEEMING: Final = "tests/unit/adapters/oidc/test_redeeming.py::"
ATTACKS: Final = "tests/security/test_provider_attacks.py::"
OIDC: Final = "src/tickwise/adapters/oidc/"
SSO: Final = "src/tickwise/control/people/sso/"
_FOREIGN: Final = (REDEEMING + "test_an_id_token_of_another_sign_in_is_refused",)

SIGN_IN: Final = (
    Mutant(
        "an algorithm of a token is one of the list",
        OIDC + "tokens.py",
        'if header.get("alg") not in ALGORITHMS:',
        "if False:",
        (CHECK + "test_a_token_chooses_neither_its_algorithm_nor_its_key",),
    ),
    Mutant(
        "made-up names of keys cause few requests",
        OIDC + "issuer.py",
        "self._age(self._tried_at) > REFETCH_SECONDS",
        "True",
        (CHECK + "test_made_up_keys_cause_few_requests",),
    ),
    Mutant(
        "keys are read again when they are old",
        OIDC + "issuer.py",
        "self._age(self._keys_at) > KEYS_SECONDS or",
        "False or",
        (CHECK + "test_a_removed_key_counts_no_longer_than_the_set_is_kept",),
    ),
    Mutant(
        "an ID token has the nonce of its sign-in",
        OIDC + "provider.py",
        'if not hmac.compare_digest(str(claims.get("nonce")).encode(), nonce.encode()):',
        "if False:",
        _FOREIGN,
    ),
    Mutant(
        "an ID token was given to this client",
        OIDC + "provider.py",
        'if (several or "azp" in claims) and',
        "if False and",
        _FOREIGN,
    ),
    Mutant(
        "an ID token belongs to its access token",
        OIDC + "provider.py",
        'if "at_hash" in claims and not',
        "if False and not",
        _FOREIGN,
    ),
    Mutant(
        "userinfo is about the person of the ID token",
        OIDC + "provider.py",
        'if found.get("sub") != subject:',
        "if False:",
        (REDEEMING + "test_groups_come_by_userinfo_about_the_same_person",),
    ),
    Mutant(
        "an ID token is no logout token",
        OIDC + "provider.py",
        'if "nonce" in claims:',
        "if False:",
        (REDEEMING + "test_what_is_no_logout_token_ends_nothing",),
    ),
    Mutant(
        "an answer counts in the browser that asked",
        SSO + "service.py",
        "if secret is None or not hmac.compare_digest(_digest(secret), taken.browser):",
        "if secret is None:",
        (ATTACKS + "test_an_answer_counts_in_the_browser_that_asked",),
    ),
    Mutant(
        "an answer names the provider of the settings",
        SSO + "service.py",
        'await config.provider.check_issuer(answer.get("iss"))',
        "pass",
        (ATTACKS + "test_the_answer_of_another_provider_is_refused",),
    ),
    Mutant(
        "a sign-in is taken once",
        "src/tickwise/adapters/store/postgres/people/identities.sql",
        "DELETE FROM tickwise.sign_ins WHERE digest = $1 RETURNING",
        "UPDATE tickwise.sign_ins SET back = back WHERE digest = $1 RETURNING",
        ("tests/conformance/test_postgres.py::TestIdentities::test_a_sign_in_is_taken_once_and_in_its_time",),
    ),
    Mutant(
        "an identity is tied by those who may do all that it opens",
        SSO + "identities.py",
        "if any(known.is_more(each, who) for each in row.roles):",
        "if False:",
        (ATTACKS + "test_an_identity_is_tied_by_those_alone_who_may_do_all_that_it_opens",),
    ),
    Mutant(
        "an e-mail counts if it is verified",
        SSO + "accounts.py",
        'or claims.get("email_verified") not in (True, "true")',
        "or False",
        ("tests/integration/test_provider_sign_in.py::test_an_unverified_email_is_nobodys",),
    ),
    Mutant(
        "a deactivated person stays out",
        SSO + "accounts.py",
        "if not row.active:",
        "if False:",
        ("tests/integration/test_provider_sign_in.py::test_a_deactivated_person_stays_out",),
    ),
)
