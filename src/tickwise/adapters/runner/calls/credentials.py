"""The proofs of identity of an http task: the secrets that sign its requests, and the sign-in at an OAuth server.

    "sign":  {"secrets": ["whsec_NEW", "whsec_OLD"]}      Standard Webhooks; each secret signs, the newest is the first
    "oauth": {"token_url", "client_id", "client_secret", "scope", "audience", "authentication"}   RFC 6749, section 4.4

Secrets are answered as `***` (`domain.masking`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from tickwise.adapters.runner.calls.addresses import MAX_URL_CHARACTERS, check_url
from tickwise.adapters.runner.checks import json_type, text
from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK
from tickwise.domain.notices.channels import SECRET_PREFIX, signing_key
from tickwise.domain.secrets.references import Injection

SIGN: Final = "sign"
OAUTH: Final = "oauth"
SIGNING_SECRETS_MAX: Final = 2
"""The new one and the one that it replaces."""
KEY_BYTES: Final = (24, 64)
"""Of a signing secret, as Standard Webhooks wants it."""
BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"
AUTHENTICATIONS: Final = (BASIC, POST)
SIGNATURE_HEADERS: Final = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature"})

_OAUTH_FIELDS: Final = ("token_url", "client_id", "client_secret", "scope", "audience", "authentication")
_VISIBLE: Final = re.compile(r"[\x20-\x7e]+")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")

SCHEMAS: Final[Mapping[str, Any]] = MappingProxyType({
    SIGN: {
        "type": ["object", "null"],
        "required": ["secrets"],
        "additionalProperties": False,
        "description": "Signs each request as Standard Webhooks says. Two secrets sign side by side while a receiver "
        "changes from one to the other.",
        "properties": {
            "secrets": {
                "type": "array",
                "minItems": 1,
                "maxItems": SIGNING_SECRETS_MAX,
                "items": {"type": "string"},
                "description": "`whsec_` and 24 to 64 bytes as base64, the newest first. Answered as `***`.",
            }
        },
    },
    OAUTH: {
        "type": ["object", "null"],
        "required": ["token_url", "client_id", "client_secret"],
        "additionalProperties": False,
        "description": "Signs in with client credentials (OAuth 2), and sends the token as `Authorization: Bearer`.",
        "properties": {
            "token_url": {"type": "string", "pattern": "^https?://", "maxLength": MAX_URL_CHARACTERS},
            "client_id": {"type": "string", "minLength": 1, "maxLength": 1_000},
            "client_secret": {
                "type": "string", "minLength": 1, "maxLength": 4_000, "description": "Answered as `***`."
            },
            "scope": {"type": ["string", "null"], "maxLength": 4_000, "description": "Scopes, with blanks between."},
            "audience": {"type": ["string", "null"], "maxLength": 4_000},
            "authentication": {"enum": list(AUTHENTICATIONS), "default": BASIC},
        },
    },
})  # fmt: skip


def checked_sign(said: Any) -> Mapping[str, Any]:
    """The field `sign`. Raises `Invalid`; no text of a secret is in its message."""
    fields = _fields(said, SIGN, ("secrets",))
    secrets = fields.get("secrets")
    if not isinstance(secrets, list | tuple) or not 1 <= len(secrets) <= SIGNING_SECRETS_MAX:
        raise Invalid(
            f"`secrets` is a list of one or {SIGNING_SECRETS_MAX} signing secrets, the newest first",
            pointer=f"/{SIGN}/secrets",
        )
    for place, secret in enumerate(secrets):
        if secret != MASK and not is_reference(secret) and not is_signing_secret(secret):
            raise Invalid(
                f"a signing secret is `{SECRET_PREFIX}` and {KEY_BYTES[0]} to {KEY_BYTES[1]} random bytes as base64; "
                f'one is made by: echo "{SECRET_PREFIX}$(openssl rand -base64 32)"',
                pointer=f"/{SIGN}/secrets/{place}",
            )
    return {"secrets": list(secrets)}


def is_reference(text: Any) -> bool:
    """Check whether a text stands for a secret, which is looked at when the request is made."""
    return isinstance(text, str) and text.startswith(f"{Injection.VALUE}:")


def is_client_secret(text: str) -> bool:
    """Check whether a value can be the secret of a client."""
    return _VISIBLE.fullmatch(text) is not None


def is_signing_secret(secret: Any) -> bool:
    """Check whether a value can sign as Standard Webhooks says."""
    if not isinstance(secret, str) or not secret.startswith(SECRET_PREFIX) or len(secret) > 200:
        return False
    try:
        return KEY_BYTES[0] <= len(signing_key(secret)) <= KEY_BYTES[1]
    except ValueError:
        return False


def checked_oauth(said: Any) -> Mapping[str, Any]:
    """The field `oauth`, with its defaults. Raises `Invalid`; no text of a secret is in its message."""
    fields = _fields(said, OAUTH, _OAUTH_FIELDS)
    try:
        checked: dict[str, Any] = {
            "token_url": _token_url(text(fields, "token_url", characters_most=MAX_URL_CHARACTERS)),
            "client_id": text(fields, "client_id", characters_most=1_000),
            "client_secret": text(fields, "client_secret", characters_most=4_000),
        }
        for name in ("client_id", "client_secret"):
            if not _VISIBLE.fullmatch(checked[name]):
                raise Invalid(f"`{name}` has visible ASCII characters and blanks alone", pointer=f"/{name}")
        for name in ("scope", "audience"):
            if fields.get(name) is not None:
                checked[name] = text(fields, name, characters_most=4_000)
        if not _SCOPE.fullmatch(checked.get("scope", "all")):
            raise Invalid("`scope` is names with one blank between them", pointer="/scope")
    except Invalid as refusal:
        refusal.pointer = f"/{OAUTH}{refusal.pointer or ''}"
        raise
    authentication = fields.get("authentication")
    checked["authentication"] = BASIC if authentication is None else authentication
    if checked["authentication"] not in AUTHENTICATIONS:
        raise Invalid(f"`authentication` is {' or '.join(AUTHENTICATIONS)}", pointer=f"/{OAUTH}/authentication")
    return checked


def _token_url(url: str) -> str:
    check_url(url, pointer="/token_url")
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.fragment:
        raise Invalid("`token_url` has no user, password or fragment", pointer="/token_url")
    return url


def refuse_double_proof(headers: Mapping[str, str], task: Mapping[str, Any]) -> None:
    """Raise `Invalid` for a header that `sign` or `oauth` sets."""
    for name in headers:
        pointer = "/headers/" + name.replace("~", "~0").replace("/", "~1")
        if SIGN in task and name.lower() in SIGNATURE_HEADERS:
            raise Invalid(f"`{name}` is set by `{SIGN}`; leave it out", pointer=pointer)
        if OAUTH in task and name.lower() == "authorization":
            raise Invalid(f"`{name}` is set by `{OAUTH}`; leave one of them out", pointer=pointer)


def _fields(said: Any, field: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(said, Mapping):
        raise Invalid(f"`{field}` must be an object, not {json_type(said)}", pointer=f"/{field}")
    for name in said:
        if name not in known:
            has = ", ".join(f"`{each}`" for each in known)
            pointer = f"/{field}/" + str(name).replace("~", "~0").replace("/", "~1")
            raise Invalid(f"`{field}` has no field of this name; it has {has}", pointer=pointer)
    return said
