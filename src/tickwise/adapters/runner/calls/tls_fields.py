"""The certificates of an http task: its own, with which it proves itself to a server, and those that it trusts.

    "tls": {"certificate": PEM, "key": PEM, "ca": PEM, "minimum_version": "1.3"}
    "tls": {"certificate_file": NAME, "key_file": NAME, "ca_file": NAME}    files that the executor's operator laid out

The texts are read when the task is stored, so what is no certificate, or belongs to another key, is refused then. A
key is answered as `***` (`domain.masking`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tickwise.adapters.runner.calls.credentials import is_reference
from tickwise.adapters.runner.checks import json_type
from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK

TLS: Final = "tls"
PEM_CHARACTERS_MAX: Final = 100_000
"""Of certificates with their chain, and of a bundle of trusted ones."""
KEY_CHARACTERS_MAX: Final = 20_000
CERTIFICATES_MAX: Final = 50
VERSIONS: Final = ("1.2", "1.3")
FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
TEXTS: Final = ("certificate", "key", "ca")

_FIELDS: Final = (*TEXTS, *(f"{name}_file" for name in TEXTS), "minimum_version")
_FILE_SCHEMA: Final = {
    "type": ["string", "null"],
    "pattern": f"^{FILE_NAME.pattern}$",
    "description": "The name of a file in the folder of the job's namespace below the executor's `http_tls_folder`.",
}

SCHEMA: Final[Mapping[str, Any]] = MappingProxyType({
    "type": ["object", "null"],
    "additionalProperties": False,
    "description": "Certificates of this task for addresses with `https`.",
    "properties": {
        "certificate": {
            "type": ["string", "null"], "maxLength": PEM_CHARACTERS_MAX,
            "description": "The client's certificate and those between it and its root, as PEM.",
        },
        "key": {
            "type": ["string", "null"], "maxLength": KEY_CHARACTERS_MAX,
            "description": "Its private key as PEM, without a password. Answered as `***`.",
        },
        "ca": {
            "type": ["string", "null"], "maxLength": PEM_CHARACTERS_MAX,
            "description": "The certificates that are trusted, as PEM, in the place of those of the executor's system.",
        },
        **{f"{name}_file": _FILE_SCHEMA for name in TEXTS},
        "minimum_version": {"enum": [*VERSIONS, None], "default": VERSIONS[0]},
    },
})  # fmt: skip


def checked_tls(said: Any) -> Mapping[str, Any]:
    """The field `tls`. Raises `Invalid`; no text of a key is in its message."""
    if not isinstance(said, Mapping):
        raise Invalid(f"`{TLS}` must be an object, not {json_type(said)}", pointer=f"/{TLS}")
    checked: dict[str, Any] = {}
    for name, value in said.items():
        pointer = f"/{TLS}/" + str(name).replace("~", "~0").replace("/", "~1")
        if name not in _FIELDS:
            has = ", ".join(f"`{each}`" for each in _FIELDS)
            raise Invalid(f"`{TLS}` has no field of this name; it has {has}", pointer=pointer)
        if value is None:
            continue
        if not isinstance(value, str):
            raise Invalid(f"`{name}` must be a text, not {json_type(value)}", pointer=pointer)
        most = KEY_CHARACTERS_MAX if name == "key" else PEM_CHARACTERS_MAX
        if len(value) > most:
            raise Invalid(f"`{name}` has {len(value)} characters, {most} are the most", pointer=pointer)
        checked[name] = value
    _check_choices(checked)
    _check_texts(checked)
    return checked


def _check_choices(tls: Mapping[str, str]) -> None:
    """Each thing once, and a certificate with its key."""
    if tls.get("minimum_version", VERSIONS[0]) not in VERSIONS:
        raise Invalid(f"`minimum_version` is {' or '.join(VERSIONS)}", pointer=f"/{TLS}/minimum_version")
    for name in TEXTS:
        file = tls.get(f"{name}_file")
        if file is not None and name in tls:
            raise Invalid(f"give either `{name}` or `{name}_file`, not both", pointer=f"/{TLS}/{name}_file")
        if file is not None and not FILE_NAME.fullmatch(file):
            raise Invalid(
                "a file is named without its folder, by letters, digits and . _ -", pointer=f"/{TLS}/{name}_file"
            )
    has_certificate, has_key = (name in tls or f"{name}_file" in tls for name in ("certificate", "key"))
    if has_certificate and not has_key:
        raise Invalid("a certificate needs its key: `key` or `key_file`", pointer=f"/{TLS}/key")
    if has_key and not has_certificate:
        raise Invalid("a key needs its certificate: `certificate` or `certificate_file`", pointer=f"/{TLS}/certificate")


def _check_texts(tls: Mapping[str, str]) -> None:
    if not any(name in tls for name in TEXTS):
        return
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    chains = {}
    for name in ("certificate", "ca"):
        if name not in tls:
            continue
        try:
            chains[name] = x509.load_pem_x509_certificates(tls[name].encode())
        except (ValueError, UnsupportedAlgorithm):
            raise Invalid(
                f"`{name}` holds no certificates as PEM: it begins with -----BEGIN CERTIFICATE-----",
                pointer=f"/{TLS}/{name}",
            ) from None
        if len(chains[name]) > CERTIFICATES_MAX:
            raise Invalid(f"`{name}` has more than {CERTIFICATES_MAX} certificates", pointer=f"/{TLS}/{name}")
    key = tls.get("key")
    if key is None or key == MASK or is_reference(key):
        return
    if "ENCRYPTED" in key:
        raise Invalid(
            "the key has a password, which nobody could type here; write it without: openssl pkey -in key.pem",
            pointer=f"/{TLS}/key",
        )
    try:
        # Checking a large RSA key takes seconds, and that it fits its certificate is checked below.
        private = serialization.load_pem_private_key(key.encode(), None, unsafe_skip_rsa_key_validation=True)
        public = private.public_key()
        if "certificate" in chains and public != chains["certificate"][0].public_key():
            raise Invalid("the key is not that of the certificate", pointer=f"/{TLS}/key")
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Invalid(
            "`key` holds no private key as PEM: it begins with -----BEGIN PRIVATE KEY-----", pointer=f"/{TLS}/key"
        ) from None
