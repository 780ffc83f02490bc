"""The proofs of identity of an http task whose secrets are references, with the values in their place.

The values of headers, parameters and bodies are filled in by `calls.rendering`, as those of the payload are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tickwise.adapters.runner.calls.credentials import OAUTH, SIGN, is_client_secret, is_signing_secret
from tickwise.adapters.runner.calls.rendering import TemplateValueError, Values
from tickwise.adapters.runner.calls.tls_fields import TLS
from tickwise.ports.runner import Assignment


def with_secret_fields(assignment: Assignment) -> Assignment:
    """An assignment with the secrets of `sign`, `oauth` and `tls` in the place of their references. Raises
    `TemplateValueError`, which names a reference and never a value."""
    task, known = assignment.task, assignment.secrets
    if not known:
        return assignment
    values = Values(b"", {}, templates=False, secrets=known)

    def value(text: str, is_usable: Callable[[str], bool], what: str) -> str:
        if text not in known:
            return text
        found = values.secret(text).strip("\r\n")
        if not is_usable(found):
            raise TemplateValueError(f"the value of {text} is no {what}")
        return found

    filled: dict[str, Any] = {}
    if SIGN in task:
        what = "signing secret: `whsec_` and 24 to 64 random bytes as base64"
        secrets = [value(each, is_signing_secret, what) for each in task[SIGN]["secrets"]]
        filled[SIGN] = {**task[SIGN], "secrets": secrets}
    if OAUTH in task:
        secret = value(task[OAUTH]["client_secret"], is_client_secret, "client secret of visible ASCII characters")
        filled[OAUTH] = {**task[OAUTH], "client_secret": secret}
    if TLS in task and "key" in task[TLS]:
        filled[TLS] = {**task[TLS], "key": value(task[TLS]["key"], _is_key, "private key as PEM without a password")}
    return assignment._replace(task={**task, **filled})


def _is_key(text: str) -> bool:
    return "PRIVATE KEY" in text and "ENCRYPTED" not in text
