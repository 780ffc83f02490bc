"""The signature of a message that goes out: Standard Webhooks (https://www.standardwebhooks.com), its version 1.

webhook-id         the same for each try of one message: a receiver that has seen it has seen it all
webhook-timestamp  seconds, of this try
webhook-signature  v1,base64(HMAC-SHA256(secret, "{id}.{timestamp}.{body}")), one for each secret, blanks between
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Sequence

from tickwise.domain.notices.channels import signing_key


def signature_headers(secrets: Sequence[str], identifier: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers. A receiver that knows one of the secrets accepts them. Raises `ValueError` for a secret that
    is none."""
    text = f"{identifier}.{timestamp}.".encode() + body
    signatures = [b64encode(hmac.digest(signing_key(secret), text, "sha256")).decode() for secret in secrets]
    return {
        "webhook-id": identifier,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
