"""Guards of http tasks: values that stay in their places, secrets and connections that go nowhere else, limits."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

CALLS: Final = "src/tickwise/adapters/runner/calls/"
HTTP: Final = "src/tickwise/adapters/runner/http/"
MASKING: Final = "src/tickwise/domain/masking.py"
TEMPLATES: Final = "tests/integration/test_http_task_templates.py::"
PROOFS: Final = "tests/integration/test_http_task_proofs.py::"
LIMITS: Final = "tests/integration/test_http_task_limits.py::"
SECRETS: Final = "tests/unit/domain/test_masking_proofs.py::"

HTTP_CALLS: Final = (
    Mutant(
        "http call: a value in a path makes no step up",
        CALLS + "rendering.py",
        'if not plain or plain in (".", ".."):',
        "if False:",
        (TEMPLATES + "test_two_values_make_no_step_up",),
    ),
    Mutant(
        "http call: a slash in a value is no slash of the path",
        CALLS + "rendering.py",
        """"the path of the address", lambda value: quote(value, safe=""))""",
        """"the path of the address", lambda value: quote(value))""",
        (TEMPLATES + "test_a_value_in_the_path_is_one_part_of_it",),
    ),
    Mutant(
        "http call: a value in a header has no line break",
        CALLS + "rendering.py",
        "if any(unicodedata.category(character) in _LINE_ENDS for character in value):",
        "if False:",
        (TEMPLATES + "test_a_value_in_a_header_is_in_that_header",),
    ),
    Mutant(
        "http call: a host is written out",
        CALLS + "templated.py",
        "_ORIGIN.match(first) is None",
        "False",
        ("tests/unit/adapters/test_http_templates.py::test_a_template_in_a_place_without_a_rule_is_refused",),
    ),
    Mutant(
        "http call: another origin gets no certificate",
        HTTP + "composing.py",
        "tls=request.tls_elsewhere",
        "tls=request.tls",
        (PROOFS + "test_a_redirect_elsewhere_gets_no_certificate",),
    ),
    Mutant(
        "http call: a token is of one namespace",
        HTTP + "tokens.py",
        "[self.namespace, sorted(self.oauth.items())]",
        "[sorted(self.oauth.items())]",
        (PROOFS + "test_a_token_is_of_one_namespace_and_one_client",),
    ),
    Mutant(
        "http call: a token is asked for once",
        HTTP + "tokens.py",
        "asking = self._asking.get(identity)",
        "asking = None",
        (PROOFS + "test_a_token_is_asked_for_once_and_sent_with_each_request",),
    ),
    Mutant(
        "http call: the address of tokens is judged",
        HTTP + "tokens.py",
        'self._access.vet(ask.oauth["token_url"])',
        'self._access.of(("0.0.0.0/0",)).vet(ask.oauth["token_url"])',
        (PROOFS + "test_the_address_of_tokens_is_judged_too",),
    ),
    Mutant(
        "http call: the secret of a client goes to its server alone",
        MASKING,
        'if before and _origin(url) != _origin(before["token_url"]):',
        "if False:",
        (SECRETS + "test_the_secret_of_a_client_goes_to_its_server_alone",),
    ),
    Mutant(
        "http call: a connection is of one namespace",
        HTTP + "connections.py",
        "async def client(self, namespace: str) -> AsyncIterator[HttpClient]:",
        'async def client(self, _: str, namespace: str = "") -> AsyncIterator[HttpClient]:',
        (LIMITS + "test_a_connection_is_used_again",),
    ),
    Mutant(
        "http call: an answer is bounded",
        HTTP + "answers.py",
        "if most is not None and self._read > most:",
        "if False:",
        (LIMITS + "test_an_answer_over_its_limit_ends_the_attempt",),
    ),
    Mutant(
        "http call: only so many call a host at once",
        HTTP + "runner.py",
        "if most is not None and self._calling[target] >= most:",
        "if False:",
        (LIMITS + "test_only_so_many_tasks_call_a_host_at_once",),
    ),
)
